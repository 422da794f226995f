//! The machine record for people.

use super::super::table::{ALARM, HEADING, push_line, push_paragraph};
use super::super::units::{count, counted, duration};
use super::machine::{Cgroup, Machine, Outcome};
use super::text::{LABEL, field};

/// Cgroups and unreadable paths that are listed; `--json` has all.
const LISTED: usize = 8;

/// Facts that get a line of their own.
const NAMED: [(&str, &str); 7] = [
    ("SMT", "smt"),
    ("isolated", "isolated"),
    ("nohz_full", "nohz_full"),
    ("preempt", "preempt"),
    ("sched_ext", "sched_ext"),
    ("clock", "clocksource"),
    ("hz", "hz"),
];

/// Puts it behind `out`.
pub fn push(machine: &Machine, out: &mut String) {
    out.push('\n');
    push_line(out, "Recorded machine", Some(HEADING));
    push_origin(machine, out);
    for (name, key) in NAMED {
        if let Some(text) = machine.fact(key) {
            field(name, text, out);
        }
    }
    let governors = machine.facts_of("governor");
    if !governors.is_empty() {
        field("governor", &governors.join("; "), out);
    }
    push_settings(machine, out);
    push_cgroups(machine, out);
    push_command(machine, out);
    push_losses(machine, out);
    push_gaps(machine, out);
}

fn push_origin(machine: &Machine, out: &mut String) {
    let facts = ["release", "arch", "hostname"];
    let kernel: Vec<&str> = facts.iter().filter_map(|key| machine.fact(key)).collect();
    if !kernel.is_empty() {
        field("kernel", &kernel.join(", "), out);
    }
    if let Some(recorder) = &machine.recorder {
        let mut text = format!(
            "ttwu {}, {}, {}",
            recorder.version,
            recorder.backend,
            counted(recorder.threads, "thread")
        );
        if let Some(ns) = machine.overhead_ns {
            text.push_str(&format!(" that used {} of CPU time", time(ns)));
        }
        field("recorder", &text, out);
    }
}

fn push_settings(machine: &Machine, out: &mut String) {
    let features: usize = machine
        .facts_of("features")
        .iter()
        .map(|list| list.split_whitespace().count())
        .sum();
    let numbers = [
        (features as u64, "scheduler feature"),
        (machine.facts_of("tunable").len() as u64, "tunable"),
        (machine.domains, "scheduler domain"),
        (machine.threads, "thread"),
    ];
    let some = numbers.into_iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = some.map(|(n, what)| counted(n, what)).collect();
    if !parts.is_empty() {
        field("recorded", &parts.join(", "), out);
    }
}

fn push_cgroups(machine: &Machine, out: &mut String) {
    let throttled = |cgroup: &&Cgroup| cgroup.throttled().is_some_and(|t| t.nr_throttled > 0);
    let limited: Vec<&Cgroup> = machine
        .cgroups
        .iter()
        .filter(|cgroup| cgroup.quota_us.is_some() || throttled(cgroup))
        .collect();
    for cgroup in limited.iter().take(LISTED) {
        let style = throttled(cgroup).then_some(ALARM);
        push_paragraph(
            out,
            &format!("{:LABEL$}", "cgroup"),
            &describe(cgroup),
            style,
        );
    }
    if limited.len() > LISTED {
        let more = counted((limited.len() - LISTED) as u64, "more cgroup");
        field("", &format!("and {more} with a quota"), out);
    }
}

fn describe(cgroup: &Cgroup) -> String {
    let mut parts = vec![cgroup.path.clone()];
    if let (Some(quota), Some(period)) = (cgroup.quota_us, cgroup.period_us) {
        parts.push(format!("{} every {}", micros(quota), micros(period)));
    }
    if let Some(cpus) = &cgroup.cpus {
        parts.push(format!("CPUs {cpus}"));
    }
    if let Some(rose) = cgroup.throttled() {
        parts.push(format!(
            "throttled in {} of {} ({})",
            count(rose.nr_throttled),
            counted(rose.nr_periods, "period"),
            micros(rose.throttled_us)
        ));
    }
    parts.join(", ")
}

fn push_command(machine: &Machine, out: &mut String) {
    if !machine.command.is_empty() {
        field("command", &machine.command.join(" "), out);
    }
    let Some(result) = &machine.result else {
        return;
    };
    let end = match (result.exit, result.signal) {
        (_, Some(signal)) => format!("killed by signal {signal}"),
        (code, None) => format!("exit status {}", code.unwrap_or_default()),
    };
    field(
        "ended",
        &format!("after {}, {end}", time(result.wall_ns)),
        out,
    );
    field("used", &usage(result), out);
}

fn usage(result: &Outcome) -> String {
    format!(
        "{} user and {} system time, {} kB, {} and {} major faults, {} and {} forced ones",
        time(result.utime_ns),
        time(result.stime_ns),
        count(result.maxrss_kb),
        counted(result.minflt, "minor fault"),
        count(result.majflt),
        counted(result.nvcsw, "context switch"),
        count(result.nivcsw),
    )
}

fn push_losses(machine: &Machine, out: &mut String) {
    let lost: u64 = machine.lost.iter().map(|lost| lost.events).sum();
    if lost > 0 {
        let cpus: Vec<String> = machine
            .lost
            .iter()
            .take(LISTED)
            .map(|lost| format!("CPU {}: {}", lost.cpu, count(lost.events)))
            .collect();
        let text = format!("{}: {}", counted(lost, "event"), cpus.join("; "));
        push_paragraph(out, &format!("{:LABEL$}", "lost"), &text, Some(ALARM));
    }
}

/// What is not in the record.
fn push_gaps(machine: &Machine, out: &mut String) {
    let unreadable = machine.facts_of("unreadable");
    for (index, text) in unreadable.iter().take(LISTED).enumerate() {
        field(if index == 0 { "unread" } else { "" }, text, out);
    }
    if unreadable.len() > LISTED {
        field("", &format!("and {} more", unreadable.len() - LISTED), out);
    }
    if machine.skipped_lines > 0 {
        let lines = counted(machine.skipped_lines, "line");
        field(
            "skipped",
            &format!("{lines} of the record not understood"),
            out,
        );
    }
}

fn time(ns: u64) -> String {
    duration(i64::try_from(ns).unwrap_or(i64::MAX))
}

fn micros(us: u64) -> String {
    time(us.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttwu_parsers::machine_record::MachineRecord;

    fn lines(record: &[&str]) -> String {
        let record = MachineRecord::parse(record.iter().copied());
        let mut out = String::new();
        push(&Machine::of(&record).unwrap(), &mut out);
        let plain = anstream::adapter::strip_str(&out).to_string();
        for line in plain.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        plain
    }

    #[test]
    fn everything_that_is_known_is_said() {
        let text = lines(&[
            "ttwu machine release 6.12.113",
            "ttwu machine arch x86_64",
            "ttwu machine hz 250",
            "ttwu machine smt on",
            "ttwu machine governor performance 0-3",
            "ttwu machine governor powersave 4-7",
            "ttwu machine features TTWU_QUEUE NO_HRTICK SIS_UTIL",
            "ttwu machine tunable sched/base_slice_ns 3000000",
            "ttwu machine unreadable /sys/kernel/debug permission denied",
            "ttwu domain cpu=0 level=0 name=MC span=0-3",
            "ttwu threads mask=0-7 policy=other prio=0 nice=0 cgroup=/ tids=1-40",
            "ttwu cgroup path=/system.slice/app.service cpus=0-3 quota_us=50000 period_us=100000",
            "ttwu before cgroup path=/system.slice/app.service nr_periods=10 nr_throttled=3 throttled_us=700",
            "ttwu after cgroup path=/system.slice/app.service nr_periods=30 nr_throttled=7 throttled_us=1700",
            "ttwu recorder version=0.2.0 backend=ftrace tids=900-902",
            "ttwu command sh -c make%20-j8",
            "ttwu result wall_ns=5000000000 exit=3 utime_ns=4000000000 stime_ns=500000000 maxrss_kb=123456 minflt=1 majflt=0 nvcsw=9 nivcsw=8",
            "ttwu lost cpu=3 events=17",
            "ttwu overhead cpu_ns=12300000",
            "ttwu later=1",
        ]);
        for part in [
            "kernel    6.12.113, x86_64\n",
            "recorder  ttwu 0.2.0, ftrace, 3 threads that used 12.3 ms of CPU time\n",
            "SMT       on\n",
            "hz        250\n",
            "governor  performance 0-3; powersave 4-7\n",
            "recorded  3 scheduler features, 1 tunable, 1 scheduler domain, 40 threads\n",
            "cgroup    /system.slice/app.service, 50.0 ms every 100 ms, CPUs 0-3, throttled\n          in 4 of 20 periods (1.0 ms)\n",
            "command   sh -c make -j8\n",
            "ended     after 5.000 s, exit status 3\n",
            "used      4.000 s user and 500 ms system time, 123,456 kB, 1 minor fault and 0\n",
            "lost      17 events: CPU 3: 17\n",
            "unread    /sys/kernel/debug permission denied\n",
            "skipped   1 line of the record not understood\n",
        ] {
            assert!(text.contains(part), "{part}\nin\n{text}");
        }
    }

    #[test]
    fn hostile_texts_are_escaped_and_wrapped() {
        let long = format!("ttwu machine isolated {}", "x\u{1b}[31m".repeat(60));
        let text = lines(&[
            &long,
            "ttwu command %1b%5d0;owned%07",
            "ttwu result wall_ns=1 signal=9 utime_ns=0 stime_ns=0 maxrss_kb=0 minflt=0 majflt=0 nvcsw=1 nivcsw=0",
        ]);
        assert!(
            text.chars().all(|c| c == '\n' || !c.is_control()),
            "{text:?}"
        );
        assert!(text.contains("killed by signal 9") && text.contains("1 context switch and 0"));
    }
}
