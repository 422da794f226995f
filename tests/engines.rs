//! The same SQL elsewhere: DuckDB, Apache Spark and ttwu run every file of `queries/` on one dataset and agree, row by
//! row and with the report; the fleet example and the notebook run. Needs Python with `venv`, and Java for Spark;
//! without them these tests are skipped with a message, unless `$TTWU_ENGINES` is set. `$TTWU_PYTHON` names a Python that has the packages of
//! `tests/engines/requirements.txt` already.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const TTWU: &str = env!("CARGO_BIN_EXE_ttwu");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn script(name: &str) -> PathBuf {
    root().join("tests/engines").join(name)
}

/// A Python with the packages that are needed; made once, and kept beside the build.
fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PYTHON.get_or_init(|| {
        let given = std::env::var_os("TTWU_PYTHON").map(PathBuf::from);
        given.or_else(|| made().map_err(skipped).ok())
    });
    found.as_deref()
}

/// Makes a virtual environment, unless one with the same packages is there.
fn made() -> Result<PathBuf, String> {
    let wanted = script("requirements.txt");
    let text = fs::read_to_string(&wanted).map_err(|error| error.to_string())?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let name = format!("engines-{:016x}", hasher.finish());
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let python = venv.join("bin/python");
    let done = venv.join("done");
    if done.exists() {
        return Ok(python);
    }
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&venv))?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-r",
    ];
    run(Command::new(&python).args(pip).arg(&wanted))?;
    fs::write(&done, "").map_err(|error| error.to_string())?;
    Ok(python)
}

/// Runs a program; what it said, if it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.concat();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{shown}: {}\n{text}", output.status)),
    }
}

fn has_java() -> bool {
    let java = Command::new("java").arg("-version").output();
    let there = java.is_ok_and(|output| output.status.success());
    if !there {
        skipped("Spark needs Java, which is not here".to_owned());
    }
    there
}

/// Says why a test is skipped, where it may be.
fn skipped(why: String) {
    assert!(std::env::var_os("TTWU_ENGINES").is_none(), "{why}");
    eprintln!("skipped: {why}");
}

/// A trace, and the topology that lies beside it.
struct Trace {
    name: String,
    file: PathBuf,
    topology: Option<PathBuf>,
}

/// The recorded traces of a folder, also of those in it.
fn traces(folder: &Path, name: &str, found: &mut Vec<Trace>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        let last = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let last = last.unwrap_or_default();
        let name = format!("{name}-{last}");
        if path.is_dir() {
            traces(&path, &name, found);
        } else if ["trace.dat", "perf.data"].contains(&last.as_str()) {
            let topology = folder.join("topology.txt");
            found.push(Trace {
                name,
                file: path,
                topology: topology.exists().then_some(topology),
            });
        }
    }
}

/// Every lab trace: those of `fixtures/`, and those of the shared corpus where it is.
fn lab() -> Vec<Trace> {
    let mut found = Vec::new();
    traces(&root().join("fixtures/lab"), "fixture", &mut found);
    traces(&root().join("fixtures/recorded"), "recorded", &mut found);
    let shared = std::env::var_os("TTWU_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| root().join("../shared"));
    traces(&shared.join("traces/lab"), "shared", &mut found);
    found
}

/// Exports each trace into a dataset, and puts its report beside it; how many there are.
fn export(dataset: &Path, reports: &Path) -> usize {
    let mut count = 0;
    for trace in lab() {
        let mut options: Vec<PathBuf> = Vec::new();
        if let Some(topology) = &trace.topology {
            options.extend([PathBuf::from("--topology"), topology.clone()]);
        }
        let exported = Command::new(TTWU)
            .args([
                "export",
                "-q",
                "--host",
                "lab",
                "--trace",
                &trace.name,
                "-o",
            ])
            .arg(dataset)
            .arg(&trace.file)
            .args(&options)
            .status();
        let exported = exported.is_ok_and(|status| status.success());
        let report = reports.join(format!("{}.json", trace.name));
        let analyzed = Command::new(TTWU)
            .args(["analyze", "-q", "--json", "--top", "1000", "-o"])
            .arg(&report)
            .arg(&trace.file)
            .args(&options)
            .status();
        // What cannot be analysed cannot be exported, and the other way round.
        let analyzed = analyzed.is_ok_and(|status| status.success());
        assert_eq!(analyzed, exported, "{}", trace.name);
        count += usize::from(exported);
    }
    count
}

fn must(result: Result<String, String>) {
    match result {
        Ok(text) => println!("{text}"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn three_engines_agree_with_each_other_and_with_the_report() {
    let Some(python) = python().filter(|_| has_java()) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [dataset, reports, results, odd] =
        ["dataset", "reports", "results", "odd"].map(|name| folder.path().join(name));
    for made in [&reports, &results] {
        fs::create_dir(made).expect("a folder");
    }
    assert!(export(&dataset, &reports) >= 9);
    let compare = |dataset: &Path, results: &Path, more: &[&str]| {
        let mut command = Command::new(python);
        command
            .arg(script("compare.py"))
            .arg(dataset)
            .arg(root().join("queries"));
        run(command.arg(results).args(["--ttwu", TTWU]).args(more))
    };
    must(run(Command::new(python).arg(script("test_compare.py"))));
    // A question that nobody could answer would not be tested.
    must(compare(&dataset, &results, &["--no-empty"]));
    must(run(Command::new(python)
        .arg(script("against_report.py"))
        .arg(&results)
        .arg(&reports)));
    // Rows that no trace has: nulls everywhere, ties, names that look like something else.
    must(run(Command::new(python)
        .arg(script("adversarial.py"))
        .arg(&odd)
        .args(["1", "--like"])
        .arg(&dataset)));
    must(compare(&odd, &folder.path().join("odd-results"), &[]));
}

#[test]
fn a_fleet_becomes_one_dataset() {
    let Some(python) = python().filter(|_| has_java()) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    must(run(Command::new(python)
        .arg(script("fleet_test.py"))
        .arg(TTWU)
        .arg(root().join("fixtures"))
        .arg(folder.path().join("fleet"))));
}

#[test]
fn the_notebook_draws_its_figures() {
    let Some(python) = python() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    must(run(Command::new(python)
        .arg(script("notebook_test.py"))
        .arg(root().join("examples/notebook.ipynb"))
        .arg(TTWU)
        .arg(root().join("fixtures/lab/messaging/trace.dat"))
        .arg(folder.path().join("notebook"))));
}
