//! Damaged files: a report is either refused or sane. No share leaves 0..1, no time is negative, and one bit does not
//! stretch the trace by years.

use std::fs;

use serde_json::Value;

use super::schema::Schema;
use super::{LAB, fixture, text, ttwu};

/// Nanoseconds of an hour, far above any trace here.
const HOUR: i64 = 3_600_000_000_000;

/// A change to a file's bytes.
type Damage = Box<dyn Fn(&mut Vec<u8>)>;

/// What a damaged copy of a fixture is reported as: the report, and what was told on standard error.
fn report(bytes: &[u8], options: &[&str]) -> Option<(Value, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    fs::write(&path, bytes).expect("a file");
    let path = path.display().to_string();
    let args = ["analyze", "--json", &path, "--topology", "llc=0-3;4-7"];
    let output = ttwu(args.iter().chain(options));
    let stderr = text(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(1) => return None,
        _ => panic!("{:?}: {stderr}", output.status),
    }
    let report = serde_json::from_str(&text(&output.stdout)).expect("valid JSON");
    Some((report, stderr))
}

/// Every number of a report with its path, outermost name first.
fn numbers(value: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, f64)>) {
    let mut inside = |name: String, value: &Value| {
        path.push(name);
        numbers(value, path, found);
        path.pop();
    };
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(name, value)| inside(name.clone(), value)),
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                inside(at.to_string(), value);
            }
        }
        Value::Number(number) => {
            found.push((path.clone(), number.as_f64().expect("a number")));
        }
        _ => {}
    }
}

fn assert_sane(report: &Value, what: &str) {
    let mut found = Vec::new();
    numbers(report, &mut Vec::new(), &mut found);
    assert!(found.len() > 100, "{what}");
    for (path, number) in found {
        let at = format!("{what}: /{} is {number}", path.join("/"));
        let is_share = |name: &String| name == "share" || name.ends_with("_share");
        if path.iter().any(is_share) && path.last().is_none_or(|name| name != "n") {
            assert!((0.0..=1.000_001).contains(&number), "{at}");
        }
        if path.last().is_some_and(|name| name.ends_with("_ns")) {
            assert!((0.0..4e18).contains(&number), "{at}");
        }
        assert!(number.abs() < 9e18, "{at}");
    }
    let ns = |name: &str| report["trace"][name].as_i64().expect("a time");
    assert!(ns("end_ns") - ns("start_ns") < HOUR, "{what}");
}

#[test]
fn stamps_years_ahead_are_told_and_left_out() {
    let at = |place: usize, new: &'static [u8]| -> Damage {
        Box::new(move |bytes| bytes[place..place + new.len()].copy_from_slice(new))
    };
    let swap = |one: usize, other: usize| -> Damage {
        Box::new(move |bytes| {
            let kept = bytes[one..one + 4096].to_vec();
            bytes.copy_within(other..other + 4096, one);
            bytes[other..other + 4096].copy_from_slice(&kept);
        })
    };
    let cases: [(&str, Damage, &str); 3] = [
        // The top of a page's stamp.
        (
            "trace-dat/v7-none.dat",
            at(77_831, &[2]),
            "A page's stamp is about 1667 days after the rest of the trace; the page was left out",
        ),
        (
            "recorded/trace.dat",
            at(26_152, &[0xff, 0xff, 0xff, 0x7f]),
            "damaged place",
        ),
        // Records cut in two, whose other half is no time.
        (
            "perf-data/perf.plain.data",
            swap(30 * 4096, 75 * 4096),
            "damaged places, the first at byte 122984: a record of 0 bytes",
        ),
    ];
    for (name, damage, told) in cases {
        let whole = fs::read(fixture(name)).expect("the fixture");
        let mut bytes = whole.clone();
        damage(&mut bytes);
        assert_ne!(bytes, whole);
        let (before, _) = report(&whole, &[]).expect("a report");
        let (after, stderr) = report(&bytes, &[]).expect("a report");
        assert!(stderr.contains(told), "{name}: {stderr}");
        assert_sane(&after, name);
        let end = |report: &Value| report["trace"]["end_ns"].as_i64();
        assert!(end(&after) <= end(&before), "{name}");
    }
}

/// What was waited before events were lost is not more than all waiting with it.
#[test]
fn what_was_given_up_is_a_share() {
    let mut bytes = fs::read(fixture("perf-data/perf.pipe-z.data")).expect("the fixture");
    bytes.truncate(bytes.len() / 4 * 3);
    for options in [&["--to", "+1s", "--affinity", "any"][..], &[]] {
        let (report, _) = report(&bytes, options).expect("a report");
        assert_sane(&report, &options.join(" "));
    }
}

/// Numbers that look like chance, the same in every run.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        match self.next(5) {
            0 => {
                for _ in 0..[1, 10, 100, 1000][self.next(4)] {
                    let at = self.next(bytes.len());
                    bytes[at] = self.next(256) as u8;
                }
            }
            1 => bytes.truncate(self.next(bytes.len())),
            2 if bytes.len() > 8192 => {
                let at = [self.next(bytes.len() - 4096), self.next(bytes.len() - 4096)];
                let kept = bytes[at[0]..at[0] + 4096].to_vec();
                bytes.copy_within(at[1]..at[1] + 4096, at[0]);
                bytes[at[1]..at[1] + 4096].copy_from_slice(&kept);
            }
            3 => {
                let at = self.next(bytes.len() - 8);
                let new = [[0xff; 8], [0; 8], [0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0x7f]];
                bytes[at..at + 8].copy_from_slice(&new[self.next(3)]);
            }
            _ => {
                for _ in 0..[1, 5, 20][self.next(3)] {
                    let at = self.next(bytes.len());
                    bytes[at] ^= 1 << self.next(8);
                }
            }
        }
    }
}

#[test]
fn reports_of_damaged_files_are_sane() {
    let schema = Schema::read();
    let lab = LAB.map(|name| format!("lab/{name}/trace.dat"));
    let others = [
        "perf-data/perf.plain.data",
        "perf-data/perf.z.data",
        "perf-data/perf.pipe.data",
        "perf-data/perf.lost.data",
        "trace-dat/v7-none.dat",
        "trace-dat/v6.dat",
        "trace-dat/v7-overwritten.dat",
        "recorded/trace.dat",
    ];
    let names: Vec<&str> = lab.iter().map(String::as_str).chain(others).collect();
    let option_sets: [&[&str]; 5] = [
        &[],
        &["--work", "task:*"],
        &["--to", "+1s", "--affinity", "any"],
        &["--from", "+10ms", "--to", "-10ms"],
        &["--work", "total:100"],
    ];
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut reports = 0;
    for round in 0..150 {
        let name = names[round % names.len()];
        let mut bytes = fs::read(fixture(name)).expect("the fixture");
        chance.damage(&mut bytes);
        let options = option_sets[chance.next(option_sets.len())];
        if let Some((report, _)) = report(&bytes, options) {
            let what = format!("round {round}, {name} {}", options.join(" "));
            assert_sane(&report, &what);
            schema.check(&report, &what);
            reports += 1;
        }
    }
    assert!(reports > 75, "only {reports} reports");
}

/// The kernel sends SIGBUS where a memory map's file was cut; here it is sent while the report waits to be read.
#[test]
fn a_file_cut_while_it_is_read_is_told() {
    use nix::sys::signal::{Signal, kill};
    use std::io::Read;
    let trace = super::lab("messaging");
    let mut child = super::command()
        .args(["analyze", "--json"])
        .args(&trace)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut output = child.stdout.take().expect("a pipe");
    let mut first = [0];
    output.read_exact(&mut first).expect("a report");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGBUS).expect("it still writes");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(1));
    let stderr = text(&ended.stderr);
    assert!(stderr.contains("the trace became shorter"), "{stderr}");
}

#[test]
fn pipes_are_read_and_devices_refused() {
    let bash = |script: &str| {
        let mut command = std::process::Command::new("bash");
        let command = command.arg("-c").arg(script).arg("bash");
        let command = command.arg(env!("CARGO_BIN_EXE_ttwu"));
        command
            .arg(fixture("perf-data/perf.plain.data"))
            .output()
            .expect("bash")
    };
    let direct = bash("\"$1\" analyze -q --json \"$2\"");
    let piped = bash("\"$1\" analyze -q --json <(cat \"$2\")");
    assert_eq!(piped.status.code(), Some(0), "{}", text(&piped.stderr));
    let waits = |output: &[u8]| {
        let report: Value = serde_json::from_slice(output).expect("valid JSON");
        report["waits"].clone()
    };
    assert_eq!(waits(&direct.stdout), waits(&piped.stdout));
    let nothing = bash("\"$1\" analyze <(true)");
    assert!(text(&nothing.stderr).contains("is empty"));
    for device in ["/dev/null", "/dev/zero"] {
        let error = super::bad(1, ["analyze", device]);
        assert!(error.contains("found a device"), "{error}");
    }
}

/// The last page of a CPU carried ahead by ten seconds: nothing behind it contradicts it, so it is believed, and told.
#[test]
fn a_silence_of_most_of_the_trace_is_told() {
    let name = "trace-dat/v7-none.dat";
    let mut bytes = fs::read(fixture(name)).expect("the fixture");
    let (whole, stderr) = report(&bytes, &[]).expect("a report");
    assert!(!stderr.contains("no CPU has any event"), "{stderr}");
    let end = whole["trace"]["end_ns"].as_i64().expect("a time") as u64;
    let stamp = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    // The pages lie at multiples of their size, each with its stamp first.
    let pages = (0..bytes.len() - 4095).step_by(4096);
    let at = pages
        .filter(|&at| (end - 5_000_000_000..end).contains(&stamp(at)))
        .max_by_key(|&at| stamp(at))
        .expect("a page of the trace");
    let later = stamp(at) + 10_000_000_000;
    bytes[at..at + 8].copy_from_slice(&later.to_le_bytes());
    let (after, stderr) = report(&bytes, &[]).expect("a report");
    let told = "no CPU has any event for 9.";
    let caveat = after["caveats"].to_string();
    assert!(stderr.contains(told) && caveat.contains(told), "{stderr}");
}
