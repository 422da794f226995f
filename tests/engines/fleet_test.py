#!/usr/bin/env python3
"""Runs examples/fleet over 200 traces on two Spark executors, kills some of them, and looks at what is there after that.

    fleet_test.py TTWU FIXTURES WORK

Every trace that can be read is to have exactly the rows that `ttwu export` alone gives, once; the others are to be in
`failures`. The checks themselves are tested by damaging the dataset.
"""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from random import Random

import pyarrow.parquet as parquet
import pyspark

HERE = Path(__file__).resolve().parent
FLEET = HERE.parent.parent / "examples" / "fleet"
QUERIES = HERE.parent.parent / "queries"

TTWU, FIXTURES, WORK = (Path(argument).resolve() for argument in sys.argv[1:4])
DATASET, DIRECT = WORK / "dataset", WORK / "direct"

# What the traces are copies of, and with which release of the kernel in place of their own.
KINDS = {
    "stack": ("lab/stack", "6.12.113", "6.12.101"),
    "stack-long": ("lab/stack-long", "6.12.117", "6.12.117"),
    "stack-again": ("lab/stack", "6.12.113", "6.12.131"),
    "udp-queue": ("lab/udp-queue", "6.12.113", "6.12.113"),
    "messaging": ("lab/messaging", "6.12.113", "6.12.101"),
    "recorded": ("recorded", "6.12.117", "6.12.131"),
    "v7": ("trace-dat/v7.dat", "6.12.113", "6.12.113"),
}
# One that is a number, one that is a date, one with what is escaped in folders' names, and letters beyond ASCII.
HOSTS = ["db7", "007", "2026-01-05", "rack 3/a=b%", "büro-знание"]
TRACES, BROKEN = 200, 11


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    traces, broken = make_traces()
    write_list(WORK / "traces.txt", traces + broken)
    expected = Expected(traces, broken)

    step("a job whose executors and exports are killed")
    killer = Killer()
    said = job(WORK / "traces.txt", "local-cluster[2,1,1024]", files=TTWU, watch=killer)
    assert f"{len(traces)} of {TRACES} traces are exported" in said, said
    assert killer.exports == 1 and killer.executors == 2, f"killed {killer.exports} exports, {killer.executors} executors"
    expect_none(problems(expected))
    attempts = {key: row["attempts"] for key, row in failures().items()}

    step("the checks notice damage")
    notice_damage(expected)

    step("the same again, in one process: nothing changes")
    before = contents()
    job(WORK / "traces.txt", "local[2]", ttwu=TTWU)
    assert contents() == before
    expect_none(problems(expected))
    again = {key: row["attempts"] for key, row in failures().items()}
    assert again == {key: count + 1 for key, count in attempts.items()}, (attempts, again)

    step("what Spark reads")
    ask(expected)

    step("two broken traces are mended: a folder tree")
    mended, broken = broken[:2], broken[2:]
    tree = WORK / "tree"
    for number, trace in enumerate(mended):
        at = tree / trace.host / trace.name
        at.parent.mkdir(parents=True)
        at.hardlink_to(content_path("recorded"))
        mended[number] = Of(trace.host, trace.name, at, None, "recorded")
    job(tree, "local[2]", ttwu=TTWU, options=["--match", "trace.dat"])
    expect_none(problems(Expected(traces + mended, broken)))

    step("a dataset that cannot be written fails the job")
    (WORK / "file").write_text("no folder")
    write_list(WORK / "one.txt", traces[:1])
    said = job(WORK / "one.txt", "local[2,3]", ttwu=TTWU, dataset=WORK / "file" / "dataset", fails=True)
    assert "the dataset cannot be written" in said and "failed 3 times" in said, said[-3000:]
    print("all is well")


def step(what):
    print(f"[{time.monotonic() - STARTED:5.1f} s] {what}", flush=True)


STARTED = time.monotonic()


# --- the traces


class Of:
    """A trace of the list; `kind` is None where it cannot be exported."""

    def __init__(self, host, name, path, topology, kind):
        self.host, self.name, self.path, self.topology, self.kind = host, name, path, topology, kind
        self.key = (host, name)


def content_path(kind):
    return WORK / "contents" / kind / "trace.dat"


def topology_of(kind):
    folder = FIXTURES / KINDS[kind][0]
    beside = folder / "topology.txt"
    return beside if beside.exists() else None


def make_traces():
    for kind, (source, own, release) in KINDS.items():
        source = FIXTURES / source
        source = source / "trace.dat" if source.is_dir() else source
        raw = source.read_bytes()
        assert raw.count(own.encode()) > 0, f"{source} has no release {own}"
        path = content_path(kind)
        path.parent.mkdir(parents=True)
        path.write_bytes(raw.replace(own.encode(), release.encode()))
        export(path, DIRECT, "direct", kind, topology_of(kind))

    # Large ones are rare, so that this does not take long; hosts have other shares of each.
    small = ["stack-long", "recorded", "v7"]
    kinds = [*KINDS, *small, *small] * TRACES
    random = Random(5)
    traces = []
    for number in range(TRACES - BROKEN):
        kind, host = kinds[number], random.choice(HOSTS)
        path = WORK / "traces" / str(number) / "trace.dat"
        path.parent.mkdir(parents=True)
        path.hardlink_to(content_path(kind))
        name = f"2026-01-05/{number}" if number % 2 else f"lauf {number} ü"
        traces.append(Of(host, name, path, topology_of(kind), kind))
    return traces, make_broken()


def make_broken():
    folder = WORK / "broken"
    folder.mkdir()
    whole = content_path("stack").read_bytes()
    for name, content in {
        "empty": b"",
        "text": b"no trace \x1b[31m\xff\n" * 100,
        "cut in the header": whole[:40],
        "only the magic": whole[:10],
        "header of zeros": whole[:10] + bytes(5000),
        "binary \x1b": bytes(range(256)) * 40,
    }.items():
        (folder / name).write_bytes(content)
    (folder / "a folder").mkdir()
    (folder / "leads nowhere").symlink_to(folder / "nothing")
    os.mkfifo(folder / "nobody writes")
    (folder / "topology").write_text("llc=every;where")
    paths = [entry for entry in sorted(folder.iterdir()) if entry.name != "topology"] + [folder / "missing"]
    broken = [Of(HOSTS[n % len(HOSTS)], f"broken/{n}/trace.dat", path, None, None) for n, path in enumerate(paths)]
    wrong = Of("db7", "broken/topology", content_path("stack"), folder / "topology", None)
    broken.append(wrong)
    assert len(broken) == BROKEN, len(broken)
    return broken


def write_list(path, traces):
    with open(path, "wb") as file:
        for trace in traces:
            fields = [trace.host, trace.name, trace.path] + ([trace.topology] if trace.topology else [])
            file.write(b"\t".join(os.fsencode(field) for field in fields) + b"\n")


def export(path, dataset, host, name, topology):
    command = [TTWU, "export", "--quiet", path, "-o", dataset, "--host", host, "--trace", name]
    subprocess.run(command + (["--topology", topology] if topology else []), check=True)


# --- the jobs


def spark_home():
    """Executors leave their work folders here: this one is ours."""
    home = WORK / "spark"
    if not home.exists():
        home.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            (home / entry.name).symlink_to(entry)
    return home


def submit(arguments, master="local[2]", options=()):
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(WORK / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "512m",
        # Such short jobs do not repay what is spent on better code.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(WORK / "warehouse"),
    }
    conf = [part for item in settings.items() for part in ("--conf", "=".join(item))]
    command = [spark_home() / "bin" / "spark-submit", "--master", master, *conf, *options, *arguments]
    output = open(WORK / "spark.log", "ab")
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=output, text=True, cwd=WORK)


def job(traces, master, dataset=DATASET, ttwu=None, files=None, options=(), watch=None, fails=False):
    shipped = ["--files", files] if files else []
    named = ["--ttwu", ttwu] if ttwu else []
    arguments = [FLEET / "export_fleet.py", traces, dataset, "--time-limit", "6", *named, *options]
    start = (WORK / "spark.log").stat().st_size if (WORK / "spark.log").exists() else 0
    driver = submit(arguments, master, shipped)
    watching = threading.Thread(target=watch.run, args=(driver.pid,)) if watch else None
    if watching:
        watching.start()
    said, _ = driver.communicate(timeout=900)
    if watching:
        watching.join()
    with open(WORK / "spark.log", errors="replace") as log:
        log.seek(start)
        logged = log.read()
    assert (driver.returncode != 0) == fails, f"exit code {driver.returncode}\n{said}\n{logged[-5000:]}"
    return said + (logged if fails else "")


class Killer:
    """Kills an export in the middle, later an executor with its export, and later still an executor alone."""

    def __init__(self):
        self.exports = self.executors = 0

    def run(self, driver):
        for after, kill in [(10, self.kill_export), (40, self.kill_executor_and_export), (90, self.kill_executor)]:
            while is_alive(driver) and exported() < after:
                time.sleep(0.05)
            while is_alive(driver) and not kill(driver):
                time.sleep(0.003)

    def kill_export(self, driver):
        child = stopped_in_the_middle(driver)
        if child:
            os.kill(child, signal.SIGKILL)
            self.exports += 1
        return child

    def kill_executor_and_export(self, driver):
        child = stopped_in_the_middle(driver)
        if not child:
            return None
        executor = next(pid for pid in ancestors(child) if is_executor(pid))
        os.kill(executor, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
        self.executors += 1
        return child

    def kill_executor(self, driver):
        executors = [pid for pid in descendants(driver) if is_executor(pid)]
        busy = [pid for pid in executors if any(name_of(child) == "ttwu" for child in descendants(pid))]
        if busy:
            os.kill(busy[0], signal.SIGKILL)
            self.executors += 1
        return busy


def is_alive(pid):
    return status(pid)[1] != 0


def exported():
    return sum(1 for _ in DATASET.glob("traces/host=*/trace=*"))


def stopped_in_the_middle(driver):
    """An export that has a staging folder, stopped; None if there is none just now."""
    if not any(entry.name.startswith(".ttwu-export-") for entry in DATASET.iterdir()):
        return None
    for pid in descendants(driver):
        if name_of(pid) != "ttwu":
            continue
        try:
            os.kill(pid, signal.SIGSTOP)
            opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            if any(f"{DATASET}/.ttwu-export-" in path and "(deleted)" not in path for path in opened):
                return pid
            os.kill(pid, signal.SIGCONT)
        except OSError:
            continue
    return None


def status(pid):
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        return name.partition("(")[2], int(rest.split()[1])
    except (OSError, IndexError):
        return "", 0


def name_of(pid):
    return status(pid)[0]


def descendants(pid):
    parents = {int(entry): status(entry)[1] for entry in os.listdir("/proc") if entry.isdigit()}
    found, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def ancestors(pid):
    while pid > 1:
        pid = status(pid)[1]
        yield pid


def is_executor(pid):
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


# --- what has to be there


class Expected:
    def __init__(self, traces, broken):
        self.traces = {trace.key: trace.kind for trace in traces}
        self.broken = {trace.key: trace.path for trace in broken}
        self.tables = sorted(entry.name for entry in DIRECT.iterdir())
        self.parts = {
            (table, kind): parts_in(DIRECT / table / "host=direct" / f"trace={kind}")
            for table in self.tables
            for kind in KINDS
        }


def parts_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def partitions(table):
    """The folders of a table by host and trace."""
    found = {}
    for folder in DATASET.glob(f"{table}/*/*"):
        host, trace = (urllib.parse.unquote(part) for part in folder.parts[-2:])
        found[host.removeprefix("host="), trace.removeprefix("trace=")] = folder
    return found


def problems(expected):
    """What is wrong with the dataset: a list of sentences."""
    wrong = []
    tables = sorted(entry.name for entry in DATASET.iterdir())
    wanted = sorted(expected.tables + ["failures"])
    if tables != wanted:
        wrong.append(f"in the dataset are {tables}, not {wanted}")
    for table in expected.tables:
        there = partitions(table)
        for key in there.keys() ^ expected.traces.keys():
            wrong.append(f"{table}: {key} is {'not wanted' if key in there else 'missing'}")
        for key in there.keys() & expected.traces.keys():
            parts, wanted = parts_in(there[key]), expected.parts[table, expected.traces[key]]
            if parts != wanted and not same_rows(parts, wanted):
                wrong.append(f"{table}: {key} has other rows than ttwu exports")
    rows = failures()
    for key in rows.keys() ^ expected.broken.keys():
        wrong.append(f"failures: {key} is {'not wanted' if key in rows else 'missing'}")
    for key in rows.keys() & expected.broken.keys():
        row = rows[key]
        if not row["error"] or not row["error"].isprintable() or row["attempts"] < 1 or not row["ttwu_version"]:
            wrong.append(f"failures: {key} says {row}")
        if (row["exit_code"] is None) != ("not done after" in row["error"]):
            wrong.append(f"failures: {key} has exit code {row['exit_code']}, but {row['error']}")
        if row["path"] != str(expected.broken[key]).replace("\x1b", "\\u{1b}") and "topology" not in key[1]:
            wrong.append(f"failures: {key} has the path {row['path']}")
    return wrong


def same_rows(parts, wanted):
    def rows(of):
        return {name: parquet.read_table(io.BytesIO(raw)) for name, raw in of.items()}

    return rows(parts) == rows(wanted)


def failures():
    rows = {}
    for key, folder in partitions("failures").items():
        [path] = folder.iterdir()
        [row] = parquet.ParquetFile(path).read().to_pylist()
        rows[key] = row
    return rows


def expect_none(wrong):
    assert not wrong, "\n".join(wrong[:20])


def notice_damage(expected):
    """Each way in which a job could go wrong, done by hand: the checks have to see it."""
    key = next(key for key, kind in expected.traces.items() if kind == "stack")
    waits = partitions("waits")[key]
    failure = next(iter(partitions("failures").values()))
    kept = WORK / "kept"

    def seen(what, undo):
        assert problems(expected), f"not noticed: {what}"
        undo()

    waits.rename(kept)
    seen("a table without a trace", lambda: kept.rename(waits))
    shutil.copy(waits / "part-0.parquet", waits / "part-1.parquet")
    seen("rows twice", (waits / "part-1.parquet").unlink)
    shutil.copytree(waits, waits.with_name("trace=twice"))
    seen("a trace under another name", lambda: shutil.rmtree(waits.with_name("trace=twice")))
    part = waits / "part-0.parquet"
    part.rename(kept)
    parquet.write_table(parquet.ParquetFile(kept).read().slice(1), part)
    seen("a row is missing", lambda: kept.replace(part))
    failure.rename(kept)
    seen("a failure that is not told", lambda: kept.rename(failure))
    (DATASET / ".ttwu-export-left").mkdir()
    seen("a staging folder", (DATASET / ".ttwu-export-left").rmdir)
    expect_none(problems(expected))


def contents():
    files = (path for path in DATASET.rglob("*") if path.is_file() and "failures" not in path.parts)
    return {path: path.read_bytes() for path in files}


# --- what engines read


def ask(expected):
    counts = WORK / "counts.sql"
    counts.write_text("SELECT host, trace, count(*) AS rows FROM wakeups GROUP BY host, trace\n")
    by_missed = [QUERIES / "hosts-by-missed-idle.sql", QUERIES / "releases-by-missed-idle.sql"]
    files = [counts, FLEET / "failures.sql", *by_missed]
    reader = submit([FLEET / "ask.py", DATASET, *files, "--csv"])
    said, _ = reader.communicate(timeout=600)
    assert reader.returncode == 0, said
    answers = [list(csv.DictReader(io.StringIO(answer))) for answer in said.split("\n\n")]
    counts, failed, hosts, releases = answers

    rows = {kind: rows_of(expected.parts["wakeups", kind]) for kind in KINDS}
    wanted = {key: rows[kind] for key, kind in expected.traces.items() if rows[kind]}
    assert {(row["host"], row["trace"]): int(row["rows"]) for row in counts} == wanted
    assert {(row["host"], row["trace"]) for row in failed} == expected.broken.keys()
    check_missed(expected, hosts, "host")
    check_missed(expected, releases, "kernel_release")


def rows_of(parts):
    return sum(parquet.ParquetFile(io.BytesIO(raw)).metadata.num_rows for raw in parts.values())


MISSED = ("stacked-prev", "stacked-pull", "prev", "other")


def check_missed(expected, rows, key):
    """Who loses most to missed idle siblings, or under which kernel, by the reports of `ttwu analyze`."""
    reports = {kind: lost_by_report(kind) for kind in KINDS}
    names = ["traces", "without_topology", "cpu_time_ns", "lost_seen_ns", "lost_any_ns"]
    sums = {}
    for (host, _), kind in expected.traces.items():
        release, known, *numbers = reports[kind]
        one = sums.setdefault(host if key == "host" else release, dict.fromkeys(names, 0))
        for name, number in zip(names, [1, 1 - known, *numbers]):
            one[name] += number
    told = {row[key]: {name: int(row[name]) for name in names} for row in rows}
    assert told == sums, (told, sums)
    shares = [row["lost_any_share"] and float(row["lost_any_share"]) for row in rows]
    wanted = [one["lost_any_ns"] / one["cpu_time_ns"] if one["cpu_time_ns"] else "" for one in map(sums.get, told)]
    known = [share for share in shares if share != ""]
    assert known == sorted(known, reverse=True), shares
    # Several hosts; the fixtures may be of one kernel.
    assert key != "host" or known[0] > known[-1], shares
    assert all(a == b or abs(a - b) < 1e-12 for a, b in zip(shares, wanted)), (shares, wanted)


def lost_by_report(kind):
    """Release, whether the topology is known, CPU time, and what missed idle CPUs lost under both readings."""
    topology = topology_of(kind)
    command = [TTWU, "analyze", "--quiet", "--json", content_path(kind)] + (["--topology", topology] if topology else [])
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    release = report["trace"]["kernel_release"]
    if "unknown" in report["llcs"]:
        return release, 0, 0, 0, 0
    lost = [report["waits"]["by_verdict"][verdict]["lost_ns"] for verdict in MISSED]
    return release, 1, report["ledger"]["total_ns"], sum(of["seen"] for of in lost), sum(of["any"] for of in lost)


if __name__ == "__main__":
    main()
