//! `ttwu query` and `ttwu sql`: SQL in, answers out.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use polars::prelude::*;
use serde_json::Value;
use ttwu::query::ALL;

use super::{assert_narrow, bad, command, fixture, good, lab, renamed, text};

fn on(source: &[String], more: &[&str]) -> String {
    let more = more.iter().map(|word| (*word).to_owned());
    good(
        ["query".to_owned()]
            .into_iter()
            .chain(more)
            .chain(source.iter().cloned()),
    )
}

fn dataset(name: &str, within: &Path) -> String {
    let to = within.join(name).display().to_string();
    let words = ["export", "-q", "-o", &to].map(str::to_owned);
    good(words.into_iter().chain(lab(name)));
    to
}

fn fed(args: &[&str], input: &str) -> Output {
    let mut child = command()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let stdin = child.stdin.take().expect("a pipe");
    let mut stdin = stdin;
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn questions_have_names_and_are_shown() {
    let list = good(["query", "--list"]);
    assert_narrow(&list);
    let words = list.split_whitespace().collect::<Vec<_>>().join(" ");
    for question in ALL {
        assert!(list.contains(question.name), "{list}");
        assert!(words.contains(question.title()), "{words}");
        assert_eq!(good(["query", "--show", question.name]), question.sql);
    }
    assert!(ALL.len() >= 16);
}

/// A trace is asked as its dataset is, and every question has an answer that fits a screen.
#[test]
fn every_question_is_answered_of_a_trace_and_of_its_dataset() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["messaging", "pair-xllc"] {
        let dataset = dataset(name, folder.path());
        for question in ALL {
            let of_trace = on(&lab(name), &[question.name, "--format", "json"]);
            let of_dataset = on(
                std::slice::from_ref(&dataset),
                &[question.name, "--format", "json"],
            );
            assert_eq!(of_trace, of_dataset, "{}", question.name);
            assert_narrow(&on(std::slice::from_ref(&dataset), &[question.name]));
        }
    }
}

const SQL: &str = "SELECT name, pid, run_ns, run_ns / 1000000.0 AS run_ms, recorder, former_names \
                   FROM tasks ORDER BY run_ns DESC, task LIMIT 3";

#[test]
fn formats_say_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = [dataset("pair-xllc", folder.path())];
    let json: Value = serde_json::from_str(&on(&source, &[SQL, "--format", "json"])).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(3));
    assert_eq!(json[0]["name"], "lab-waker");
    let csv = on(&source, &[SQL, "--format", "csv"]);
    let row = csv.lines().nth(1).expect("a row");
    assert_eq!(
        csv.lines().next(),
        Some("name,pid,run_ns,run_ms,recorder,former_names")
    );
    assert!(
        row.starts_with(&format!("lab-waker,269,{},", json[0]["run_ns"])),
        "{csv}"
    );
    let file = folder.path().join("answer.parquet");
    let written = file.display().to_string();
    on(&source, &[SQL, "--format", "parquet", "-o", &written]);
    let rows = ParquetReader::new(fs::File::open(&file).expect("a file"))
        .finish()
        .expect("Parquet");
    let first = rows
        .column("run_ns")
        .expect("a column")
        .i64()
        .expect("integers")
        .get(0);
    assert_eq!(first, json[0]["run_ns"].as_i64());
    let table = on(&source, &[SQL]);
    assert_narrow(&table);
    let grouped = ttwu::report::units::count(json[0]["run_ns"].as_u64().expect("a time"));
    assert!(table.contains(&grouped), "{table}");
    let one = on(&source, &[SQL, "--rows", "1"]);
    assert!(
        one.ends_with("(1 of 3 rows; --rows all shows all)\n"),
        "{one}"
    );
}

#[test]
fn sql_comes_from_a_file_a_pipe_or_the_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = dataset("fanout", folder.path());
    let expected = on(std::slice::from_ref(&source), &[SQL]);
    let file = folder.path().join("mine.sql");
    fs::write(&file, format!("-- mine;\n{SQL};\n")).expect("a file");
    assert_eq!(
        on(
            std::slice::from_ref(&source),
            &[&file.display().to_string()]
        ),
        expected
    );
    let piped = fed(&["query", "-", &source], SQL);
    assert_eq!(text(&piped.stdout), expected, "{}", text(&piped.stderr));
    // The name of a table in capital letters is the same name.
    assert_eq!(on(&[source], &[&SQL.replace("tasks", "TASKS")]), expected);
}

#[test]
fn what_cannot_be_asked_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let part = folder.path().join("part").display().to_string();
    let words = ["export", "-q", "--tables", "waits", "-o", &part].map(str::to_owned);
    good(words.into_iter().chain(lab("fanout")));
    let cases: [(i32, &str, &[&str]); 10] = [
        (1, "worst-pair", &["did you mean `worst-pairs`?", "--list"]),
        (1, "zzz", &["no question is named `zzz`"]),
        (
            1,
            "SELECT 1 FROM wakeups",
            &["no table `wakeups`", "traces, waits", "export --tables"],
        ),
        (1, "SELECT nothing FROM waits", &["nothing", "verdict_seen"]),
        (1, "SELECT 1; SELECT 2", &["there are 2", "ttwu sql"]),
        (1, "/* nothing */ \n;", &["no SQL is there"]),
        (1, "SELEC 1 FROM waits", &["SELEC"]),
        (1, "SELECT 'a", &["Unterminated"]),
        (
            1,
            "absent/x.sql",
            &["cannot read absent/x.sql", "No such file"],
        ),
        (1, "SELECT \u{1b}[31m FROM waits", &["\\u{1b}"]),
    ];
    for (code, sql, parts) in cases {
        let message = bad(code, ["query", sql, &part]);
        for part in parts {
            assert!(message.contains(part), "{sql}: {message}");
        }
        assert!(
            message.chars().all(|c| c == '\n' || !c.is_control()),
            "{message:?}"
        );
    }
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("a folder");
    let empty = empty.display().to_string();
    assert!(bad(1, ["query", "worst-pairs", &empty]).contains("no table is there"));
    assert!(bad(1, ["query", "worst-pairs", "absent"]).contains("No such file"));
    let late = bad(2, ["query", "worst-pairs", &part, "--topology", "llc=0-1"]);
    assert!(late.contains("--topology is for traces"), "{late}");
    bad(2, ["query", "worst-pairs"]);
    bad(2, ["query"]);
    // A file that is no Parquet although it is called so.
    fs::write(
        folder
            .path()
            .join("part/waits/host=unknown/trace=trace.dat/part-1.parquet"),
        "no",
    )
    .expect("a file");
    let damaged = bad(1, ["query", "SELECT * FROM waits", &part]);
    assert!(
        damaged.contains("part-1.parquet") || damaged.contains("parquet"),
        "{damaged}"
    );
}

#[test]
fn nothing_of_a_trace_is_printed_raw() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = renamed(b"\x1b[31mx\x07\x08\r\x9b\xff\t\x7f\x01y", folder.path());
    let source = [path.display().to_string()];
    for format in ["table", "csv", "json"] {
        let output = on(
            &source,
            &["SELECT DISTINCT name FROM tasks", "--format", format],
        );
        assert!(
            output.chars().all(|c| c == '\n' || !c.is_control()),
            "{output:?}"
        );
        assert!(output.contains("[31mx"), "{output}");
    }
}

#[test]
fn tables_of_others_are_tables_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = dataset("fanout", folder.path());
    let own = Path::new(&source).join("failures/host=h/trace=1");
    fs::create_dir_all(&own).expect("a folder");
    let mut rows = df! { "path" => ["a"], "code" => [1_i32] }.expect("rows");
    let file = fs::File::create(own.join("part-0.parquet")).expect("a file");
    ParquetWriter::new(file).finish(&mut rows).expect("written");
    // What other programs leave beside it is no table.
    fs::write(own.join("_SUCCESS"), "").expect("a file");
    fs::write(own.join(".part-0.parquet.crc"), "x").expect("a file");
    let csv = on(&[source], &["SELECT * FROM failures", "--format", "csv"]);
    assert_eq!(csv, "path,code,host,trace\na,1,h,1\n");
}

#[test]
fn the_prompt_takes_statements_one_after_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = dataset("fanout", folder.path());
    let input = "\\d\n\\d waits\nSELECT COUNT(*) AS n\n  FROM tasks; SELECT 'a;b' AS text;\n\\f csv\n\
                 CREATE TABLE mine AS SELECT 7 AS seven;\nSELECT seven FROM mine;\n\\rows 1\n\\l\nquit\nSELECT 9;\n";
    let output = fed(&["sql", &source], input);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    for part in [
        "One row for each wakeup.",
        "verdict_seen",
        "a;b",
        "seven\n7\n",
        "worst-pairs",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    assert!(
        !stdout.contains('9') || !stdout.ends_with("9\n"),
        "after quit: {stdout}"
    );
    let output = fed(
        &["sql", &source],
        "SELECT nothing FROM tasks;\nSELECT 5 AS five;\n\\x\nSELECT 6 AS six",
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stdout.contains("five") && stdout.contains("six"),
        "{stdout}"
    );
    assert!(
        stderr.contains("nothing") && stderr.contains("\\x is not known here"),
        "{stderr}"
    );
}

/// At a terminal: a prompt, completion with the tabulator, and a history that the next session knows.
#[test]
fn the_prompt_completes_and_remembers() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = dataset("fanout", folder.path());
    let state = folder.path().join("state");
    let seen = at_terminal(
        &source,
        &state,
        &["SELECT MAX(generat\t) AS most FROM tas\t;\r", "\\q\r"],
    );
    assert!(seen.contains("ttwu> ") && seen.contains("most"), "{seen}");
    let history = fs::read_to_string(state.join("ttwu/sql_history")).expect("the history");
    assert!(
        history.contains("SELECT MAX(generation) AS most FROM tasks;"),
        "{history}"
    );
    // The arrow up brings the last line but one, which is asked again.
    let seen = at_terminal(&source, &state, &["\x1b[A\x1b[A\r", "\u{4}"]);
    assert!(
        seen.contains("SELECT MAX(generation)") && seen.contains("most"),
        "{seen}"
    );
}

/// What a terminal shows while this is typed.
fn at_terminal(source: &str, state: &Path, typed: &[&str]) -> String {
    use std::io::Read;
    let pty = nix::pty::openpty(None, None).expect("a terminal");
    let slave = || Stdio::from(pty.slave.try_clone().expect("a terminal"));
    let mut child = command()
        .args(["sql", source])
        .env("XDG_STATE_HOME", state)
        .env("TERM", "xterm")
        .stdin(slave())
        .stdout(slave())
        .stderr(slave())
        .spawn()
        .expect("the program runs");
    drop(pty.slave);
    let mut master = fs::File::from(pty.master);
    let mut reader = master.try_clone().expect("a terminal");
    let reading = std::thread::spawn(move || {
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        // The other end is gone when the program is.
        while let Ok(read @ 1..) = reader.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..read]);
        }
        String::from_utf8_lossy(&seen).into_owned()
    });
    for line in typed {
        std::thread::sleep(std::time::Duration::from_millis(700));
        master.write_all(line.as_bytes()).expect("it reads");
    }
    assert!(child.wait().expect("it ends").success());
    reading.join().expect("what was seen")
}

#[test]
fn a_trace_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = command()
        .args(["query", "SELECT COUNT(*) AS n FROM events"])
        .args(lab("fanout"))
        .env("TMPDIR", folder.path())
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    let path = fixture("lab/README.md").display().to_string();
    bad(1, ["query", "worst-pairs", &path]);
}
