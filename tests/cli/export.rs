//! `ttwu export`: what lies where, what is replaced, and what is left when it is interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use ttwu::export::default_tables;
use ttwu::tables::Table;

use super::{bad, command, fixture, good, lab, text, ttwu};

fn export(trace: &[String], dataset: &Path, more: &[&str]) {
    let words = ["export", "-q", "-o"].map(str::to_owned).into_iter();
    let words = words.chain([dataset.display().to_string()]);
    let more = more.iter().map(|word| (*word).to_owned());
    good(words.chain(trace.iter().cloned()).chain(more));
}

fn ask(sql: &str, dataset: &Path) -> Value {
    let text = good([
        "query",
        sql,
        &dataset.display().to_string(),
        "--format",
        "json",
    ]);
    serde_json::from_str(&text).expect("valid JSON")
}

/// Every file below a folder, with its inode.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => {
                found.insert(path.clone(), entry.metadata().expect("a file").ino());
            }
        }
    }
    found
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_table_has_a_folder_for_each_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("new/dataset");
    export(&lab("pair-xllc"), &dataset, &["--host", "db7"]);
    let tables = default_tables();
    let mut expected: Vec<&str> = tables.iter().map(|table| table.as_str()).collect();
    expected.sort_unstable();
    assert_eq!(names(&dataset), expected);
    assert!(!expected.contains(&"events"));
    for table in tables {
        let file = dataset
            .join(table.as_str())
            .join("host=db7/trace=trace.dat/part-0.parquet");
        assert!(file.is_file(), "{}", file.display());
    }
    export(
        &lab("fanout"),
        &dataset,
        &["--trace", "b", "--tables", "waits,events"],
    );
    let unknown = dataset.join("waits/host=unknown/trace=b/part-0.parquet");
    assert!(unknown.is_file(), "the trace names no host");
    let of_b = files(&dataset)
        .into_keys()
        .filter(|path| path.display().to_string().contains("trace=b"));
    assert_eq!(of_b.count(), 3, "waits, events and traces");
}

#[test]
fn a_trace_exported_again_replaces_its_own_part_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path();
    export(&lab("pair-xllc"), dataset, &["--trace", "a"]);
    export(&lab("fanout"), dataset, &["--trace", "b"]);
    let before = files(dataset);
    let sums =
        "SELECT trace, COUNT(*) AS n, SUM(wait_ns) AS ns FROM waits GROUP BY trace ORDER BY trace";
    let answer = ask(sums, dataset);
    export(&lab("pair-xllc"), dataset, &["--trace", "a"]);
    let after = files(dataset);
    assert!(before.keys().eq(after.keys()), "no file more or less");
    for (path, inode) in &before {
        let own = path.display().to_string().contains("trace=a");
        assert_eq!(after[path] != *inode, own, "{}", path.display());
    }
    assert_eq!(ask(sums, dataset), answer);
}

/// Tables that are exported one after the other stand side by side, unless they are of different replays.
#[test]
fn a_partition_is_of_one_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path();
    let export = |name: &str, more: &[&str]| export(&lab(name), dataset, more);
    export("pair-xllc", &["--tables", "waits"]);
    export("pair-xllc", &["--tables", "idle"]);
    assert_eq!(names(dataset), ["idle", "traces", "waits"]);
    let is_there = |table: &str| !files(&dataset.join(table)).is_empty();
    export("pair-xllc", &["--tables", "lost", "--from", "500ms"]);
    assert!(is_there("lost") && !is_there("waits") && !is_there("idle"));
    let args = |more: &[&'static str]| {
        let words = ["export", "-q", "-o"].map(str::to_owned).into_iter();
        let words = words
            .chain([dataset.display().to_string()])
            .chain(lab("fanout"));
        let more = more.iter().map(|word| (*word).to_owned());
        words.chain(more).collect::<Vec<String>>()
    };
    let before = files(dataset);
    let refused = bad(1, args(&["--tables", "waits"]));
    assert!(
        refused.contains("--trace") && refused.contains("--force"),
        "{refused}"
    );
    assert_eq!(files(dataset), before);
    good(args(&["--tables", "waits", "--force"]));
    assert!(is_there("waits") && !is_there("lost"));
}

/// Whatever the folders are named by, and whatever the files are: the same rows.
#[test]
fn kinds_of_files_and_folders_hold_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("plain");
    let all = ["--tables", "all", "--host", "a b/c=d"];
    export(
        &lab("messaging"),
        &plain,
        &[&all[..], &["--trace", "ü.1"]].concat(),
    );
    export(
        &lab("fanout"),
        &plain,
        &[&all[..], &["--trace", "2024-01-01"]].concat(),
    );
    let kinds: [&[&str]; 7] = [
        &["--format", "ipc"],
        &["--format", "csv"],
        &["--partition", "none"],
        &["--partition", "trace,host"],
        &["--partition", "host"],
        &["--partition", "trace", "--format", "csv"],
        &["--partition", "none", "--format", "ipc"],
    ];
    let answers = |dataset: &Path| {
        let tables = Table::ALL.iter().map(|table| {
            let names = table.columns().iter().map(|column| column.name);
            let names: Vec<&str> = names.chain(["host", "trace"]).collect();
            let order = &names[..names.len().min(4)];
            let sql = format!(
                "SELECT {} FROM {} ORDER BY trace, {}",
                names.join(", "),
                table.as_str(),
                order.join(", ")
            );
            (table.as_str(), ask(&sql, dataset))
        });
        tables.collect::<BTreeMap<_, _>>()
    };
    let expected = answers(&plain);
    assert!(
        expected["wakeups"]
            .as_array()
            .is_some_and(|rows| rows.len() > 1000)
    );
    assert_eq!(expected["traces"][1]["trace"], "ü.1");
    assert_eq!(expected["traces"][1]["host"], "a b/c=d");
    // Spark reads each escaped byte as a letter: letters are not escaped.
    let named = plain.join("waits/host=a%20b%2Fc%3Dd/trace=ü.1/part-0.parquet");
    assert!(named.is_file());
    for kind in kinds {
        let dataset = folder.path().join(kind.join("=x="));
        export(
            &lab("messaging"),
            &dataset,
            &[&all[..], &["--trace", "ü.1"], kind].concat(),
        );
        export(
            &lab("fanout"),
            &dataset,
            &[&all[..], &["--trace", "2024-01-01"], kind].concat(),
        );
        for (table, rows) in answers(&dataset) {
            assert!(rows == expected[table], "{table} of {kind:?}");
        }
        // Again: replaced, not doubled.
        let before = files(&dataset).into_keys().collect::<Vec<_>>();
        export(
            &lab("fanout"),
            &dataset,
            &[&all[..], &["--trace", "2024-01-01"], kind].concat(),
        );
        assert!(files(&dataset).into_keys().eq(before), "{kind:?}");
    }
    let other = [
        "export",
        "--partition",
        "host",
        "-q",
        "-o",
        &plain.display().to_string(),
    ]
    .map(str::to_owned);
    let refused = bad(3, other.into_iter().chain(lab("stack")));
    assert!(refused.contains("--partition host,trace"), "{refused}");
}

#[test]
fn rows_are_in_the_order_that_is_promised() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, more) in [
        ("messaging", &[][..]),
        ("pair-xllc", &["--work", "marker:wakelab"]),
    ] {
        let dataset = folder.path().join(name);
        export(&lab(name), &dataset, &[&["--tables", "all"], more].concat());
        for table in Table::ALL {
            let first = table
                .columns()
                .iter()
                .find(|column| table.order().starts_with(column.name));
            let first = first.expect("a column").name;
            let key = match table {
                Table::Wakeups => "COALESCE(waking_ns, wakeup_ns, switch_in_ns)",
                _ => first,
            };
            let sql = format!("SELECT {key} AS key FROM {}", table.as_str());
            let rows = ask(&sql, &dataset);
            let keys = rows
                .as_array()
                .expect("rows")
                .iter()
                .map(|row| row["key"].as_i64());
            let keys: Vec<Option<i64>> = keys.collect();
            assert!(
                keys.iter().all(Option::is_some) && keys.is_sorted(),
                "{}",
                table.as_str()
            );
        }
    }
}

/// Nobody sees half a table, and nothing is left, whenever the export is ended; where it is killed, what it left is
/// cleared away by the next.
#[test]
fn an_interrupted_export_leaves_no_half_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    export(&lab("messaging"), &whole, &[]);
    let expected: BTreeMap<PathBuf, u64> = files(&whole)
        .into_keys()
        .map(|path| {
            (
                path.strip_prefix(&whole).expect("inside").to_owned(),
                size(&path),
            )
        })
        .collect();
    let mut ended = 0;
    for (turn, signal) in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGINT]
        .iter()
        .cycle()
        .take(45)
        .enumerate()
    {
        let dataset = folder.path().join(turn.to_string());
        let mut child = command()
            .args(["export", "-q", "-o"])
            .arg(&dataset)
            .args(lab("messaging"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        std::thread::sleep(Duration::from_millis(2 * turn as u64));
        kill(Pid::from_raw(child.id() as i32), *signal).expect("it is there");
        let status = child.wait().expect("it ends");
        ended += u32::from(!status.success());
        for path in files(&dataset).into_keys() {
            let relative = path.strip_prefix(&dataset).expect("inside");
            let hidden = relative.to_string_lossy().starts_with('.');
            match expected.get(relative) {
                Some(bytes) => assert_eq!(size(&path), *bytes, "{}", path.display()),
                None => assert!(hidden && *signal == Signal::SIGKILL, "{}", path.display()),
            }
        }
        if *signal != Signal::SIGKILL {
            let left = names(&dataset)
                .into_iter()
                .find(|name| name.starts_with('.'));
            assert_eq!(left, None, "after {} ms and {signal}", 2 * turn);
        }
        export(&lab("messaging"), &dataset, &[]);
        assert_eq!(files(&dataset).len(), expected.len(), "{signal}");
    }
    assert!(ended > 10, "{ended} were interrupted");
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

#[test]
fn exports_at_once_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let spawn = |trace: &str, name: &str| {
        let child = command()
            .args(["export", "-q", "--trace", name, "-o"])
            .arg(folder.path())
            .args(lab(trace))
            .spawn();
        child.expect("the program runs")
    };
    // Also the same trace twice.
    let traces = [
        "messaging",
        "fanout",
        "stack",
        "messaging",
        "fanout",
        "stack",
    ];
    for _ in 0..3 {
        let children: Vec<_> = traces.iter().map(|name| spawn(name, name)).collect();
        for mut child in children {
            assert!(child.wait().expect("it ends").success());
        }
    }
    assert!(
        !names(folder.path())
            .iter()
            .any(|name| name.starts_with('.'))
    );
    for name in ["messaging", "fanout", "stack"] {
        let alone = tempfile::tempdir().expect("a folder");
        export(&lab(name), alone.path(), &["--trace", name]);
        let sql =
            format!("SELECT SUM(wait_ns) AS ns, COUNT(*) AS n FROM waits WHERE trace = '{name}'");
        assert_eq!(ask(&sql, folder.path()), ask(&sql, alone.path()));
    }
}

#[test]
fn what_is_wrong_is_said_and_the_other_traces_are_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("dataset");
    let to = dataset.display().to_string();
    let [good_trace, ..] = lab("fanout");
    let broken = folder.path().join("broken.dat");
    fs::write(&broken, "no trace").expect("a file");
    let broken = broken.display().to_string();
    let output = ttwu(["export", &broken, "absent.dat", &good_trace, "-o", &to]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for part in ["broken.dat", "absent.dat", "tables (", "bytes an event"] {
        assert!(stderr.contains(part), "{stderr}");
    }
    assert_eq!(
        ask("SELECT file FROM traces", &dataset)[0]["file"],
        "trace.dat"
    );
    let [other, ..] = lab("stack");
    let same = bad(2, ["export", &good_trace, &other, "-o", &to]);
    assert!(same.contains("--trace '{folder}'"), "{same}");
    good([
        "export",
        "-q",
        &good_trace,
        &other,
        "-o",
        &to,
        "--trace",
        "{folder}/{file}",
    ]);
    let traces = ask("SELECT trace FROM traces ORDER BY trace", &dataset);
    let traces: Vec<&str> = traces
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(|row| row["trace"].as_str())
        .collect();
    assert_eq!(traces, ["fanout/trace.dat", "stack/trace.dat", "trace.dat"]);
    let file = fixture("lab/README.md").display().to_string();
    let unwritable = bad(3, ["export", "-q", &good_trace, "-o", &file]);
    assert!(
        unwritable.contains("cannot write the dataset there"),
        "{unwritable}"
    );
    let inside = bad(3, ["export", "-q", &good_trace, "-o", &format!("{file}/x")]);
    assert!(
        inside.contains("cannot write the dataset there"),
        "{inside}"
    );
    assert!(bad(2, ["export", &good_trace, "-o", &to, "--tables", "wates"]).contains("wakeups"));
    assert!(bad(2, ["export", &good_trace, "-o", &to, "--host", ""]).contains("must not be empty"));
}
