#!/usr/bin/env python3
"""Exports the traces of a fleet into one dataset of tables. A Spark job; one trace is one task.

    spark-submit [--files ttwu] export_fleet.py TRACES DATASET

README.md says what is needed, and what becomes of traces that cannot be exported.
"""

import argparse
import collections
import ctypes
import datetime
import fcntl
import fnmatch
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unicodedata
import uuid

import pyarrow
import pyarrow.parquet
from pyspark import SparkFiles
from pyspark.sql import SparkSession

Trace = collections.namedtuple("Trace", "host name path topology")
Job = collections.namedtuple("Job", "id dataset ttwu time_limit tries options")

# Exit codes of ttwu, and of whoever starts programs, that no trace is to blame for.
DATASET_NOT_WRITTEN = 3
NOT_THE_TRACE = {2: "the command line is wrong", 126: "ttwu cannot be run", 127: "ttwu cannot be run"}

# How long ttwu may take to clear up behind itself after it is told to end.
GRACE_SECONDS = 10
# How long a staging folder may be without its lock.
NEW_SECONDS = 10
# What is kept of what ttwu said.
MOST_SAID = 2000
# The longest name of a folder that file systems take, less what is put before a name.
LONGEST_NAME = 240

FAILURE = pyarrow.schema(
    [
        ("path", pyarrow.string()),
        ("exit_code", pyarrow.int32()),
        ("error", pyarrow.string()),
        ("attempts", pyarrow.int64()),
        ("failed_at", pyarrow.string()),
        ("ttwu_version", pyarrow.string()),
    ]
)


# --- which traces there are: on the driver


def traces_of_tree(tree, patterns):
    """The traces below TREE/HOST; each is named by its path from there."""
    traces = []
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for file in sorted(files):
            if not any(fnmatch.fnmatch(file, pattern) for pattern in patterns):
                continue
            path = os.path.join(folder, file)
            host, _, name = os.path.relpath(path, tree).partition(os.sep)
            if not name:
                raise ValueError(f"{escaped(path)} lies in no host's folder ({escaped(tree)}/HOST/…)")
            beside = os.path.join(folder, "topology.txt")
            topology = beside if os.path.isfile(beside) else None
            traces.append(Trace(escaped(host), escaped(name), os.path.abspath(path), topology))
    return traces


def traces_of_list(path):
    """The traces of a file with lines of host, trace, path and perhaps topology, separated by tabs."""
    traces = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip(b"\r\n")
            if not line.strip() or line.startswith(b"#"):
                continue
            fields = [os.fsdecode(field) for field in line.split(b"\t")]
            if len(fields) not in (3, 4) or not all(fields[:3]):
                raise ValueError(
                    f"{escaped(path)}:{number}: not host, trace, path and perhaps topology with tabs between"
                )
            host, name, file = fields[:3]
            topology = fields[3] if len(fields) == 4 and fields[3] else None
            traces.append(Trace(escaped(host), escaped(name), file, topology))
    return traces


def check(traces):
    """Refuses names under which one trace would replace the other, or that cannot be folders."""
    seen = {}
    for trace in traces:
        if "{file}" in trace.name or "{folder}" in trace.name:
            raise ValueError(f"{trace.name}: ttwu would put other words for those in braces")
        if max(len(in_path(name).encode()) for name in (trace.host, trace.name)) > LONGEST_NAME:
            raise ValueError(f"{trace.host}, {trace.name}: too long for names of folders; give others by a list")
        other = seen.setdefault((trace.host, trace.name), trace)
        if other is not trace:
            raise ValueError(
                f"{escaped(other.path)} and {escaped(trace.path)} would both be host={trace.host} trace={trace.name}"
            )


def size(trace):
    try:
        return os.path.getsize(trace.path)
    except OSError:
        return 0


# --- names and texts


def escaped(text):
    """Text that can be printed, as ttwu escapes it."""
    return "".join(map(escaped_character, text))


def escaped_character(c):
    if "\udc80" <= c <= "\udcff":
        # A byte that is no UTF-8, as Python keeps it.
        return f"\\x{ord(c) - 0xDC00:02x}"
    if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return f"\\u{{{ord(c):x}}}"
    return c


def in_path(value):
    """A value as ttwu writes it in names of folders."""
    return re.sub(r"[^A-Za-z0-9\-_.+@,\u0080-\U0010ffff]", lambda c: f"%{ord(c[0]):02X}", value)


def folder(dataset, table, trace):
    return os.path.join(dataset, table, f"host={in_path(trace.host)}", f"trace={in_path(trace.name)}")


# --- one trace: on an executor


def export(trace, job):
    """Exports a trace, and returns what ttwu said if that failed.

    What is wrong with the trace alone becomes a row of `failures`; all else is raised, and Spark tries again.
    """
    ttwu = program(job.ttwu)
    command = [ttwu, "export", "--quiet", "--color=never", f"--output={job.dataset}"]
    command += [f"--host={trace.host}", f"--trace={trace.name}", *job.options]
    if trace.topology:
        command.append(f"--topology={trace.topology}")
    command += ["--", trace.path]

    for attempt in range(1, job.tries + 1):
        code, said = run(command, job.time_limit)
        if code == 0:
            forget_failure(job, trace)
            return None
        if code == DATASET_NOT_WRITTEN:
            raise OSError(f"the dataset cannot be written: {said}")
        if code in NOT_THE_TRACE:
            raise RuntimeError(f"{NOT_THE_TRACE[code]}: {said}")
        if code is None or code > 0:
            # The same would come again.
            break
    note_failure(job, trace, code, said, attempt, version(ttwu))
    return said


def program(named):
    """The ttwu of this executor: the one named, or shipped by --files, or installed."""
    if named:
        return named
    shipped = SparkFiles.get("ttwu")
    found = shipped if os.path.isfile(shipped) else shutil.which("ttwu")
    if not found:
        raise FileNotFoundError("no ttwu on this executor: ship it by --files, or name it by --ttwu")
    return found


def run(command, time_limit):
    """Runs ttwu: its exit code (negative for a signal, None if it was too slow), and what it said."""
    with tempfile.TemporaryFile() as errors:
        nothing = subprocess.DEVNULL
        child = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=errors, preexec_fn=end_with_worker())
        try:
            prefer_for_oom_killer(child.pid)
            code = child.wait(time_limit)
        except subprocess.TimeoutExpired:
            return None, f"not done after {time_limit:g} s"
        finally:
            end(child)
        if code < 0:
            return code, f"killed by {signal_name(-code)}"
        errors.seek(0)
        lines = os.fsdecode(errors.read(4 * MOST_SAID)).splitlines()
    said = "; ".join(escaped(line.strip().removeprefix("ttwu: error: ")) for line in lines if line.strip())
    return code, said[:MOST_SAID] or f"exit code {code} without a word"


PR_SET_PDEATHSIG = 1


def end_with_worker():
    """Where Spark kills a worker, as it does with the slower of two copies of a task, its ttwu is to end too."""
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def prefer_for_oom_killer(pid):
    """Where memory is short, a trace that needs too much is to end, and not the executor."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass


def end(child):
    if child.poll() is not None:
        return
    # At this signal ttwu removes what it wrote so far.
    child.terminate()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def version(ttwu):
    try:
        said = subprocess.run([ttwu, "--version"], capture_output=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return escaped(os.fsdecode(said).strip().removeprefix("ttwu ")) or None


# --- the table of failures


def failure_file(job, trace):
    return os.path.join(folder(job.dataset, "failures", trace), "part-0.parquet")


def note_failure(job, trace, code, said, attempts, of_ttwu):
    """Writes a trace's row, in place of the one that is there."""
    path = failure_file(job, trace)
    now = datetime.datetime.now(datetime.timezone.utc)
    row = {
        "path": escaped(trace.path),
        "exit_code": code if code is not None and code >= 0 else None,
        "error": said,
        "attempts": attempts + attempts_before(path),
        "failed_at": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ttwu_version": of_ttwu,
    }
    os.makedirs(job.dataset, exist_ok=True)
    # Elsewhere first, so that nobody reads half a file.
    new = os.path.join(job.dataset, f"{temporary(job)}{uuid.uuid4().hex}")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([row], FAILURE), new)
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.replace(new, path)
            return
        except FileNotFoundError:
            # Another task just removed the host's folder, which was empty.
            if not os.path.exists(new):
                raise


def attempts_before(path):
    try:
        return pyarrow.parquet.ParquetFile(path).read(["attempts"])["attempts"][0].as_py()
    except (OSError, pyarrow.ArrowException):
        return 0


def forget_failure(job, trace):
    path = failure_file(job, trace)
    try:
        os.remove(path)
        # Folders without files would be a table without columns.
        for _ in range(3):
            path = os.path.dirname(path)
            os.rmdir(path)
    except OSError as error:
        if os.path.isfile(path):
            raise error


def temporary(job):
    return f".ttwu-fleet-{job.id}-"


# --- the job


def clear_left(job):
    """Removes what killed tasks left in the dataset."""
    entries = [entry for entry in os.scandir(job.dataset)] if os.path.isdir(job.dataset) else []
    # As ttwu names its folders: a lock may be seen on one host only, so each host clears up its own. What other hosts
    # left is cleared away by the next export there.
    host = re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())
    for entry in entries:
        if entry.name.startswith(temporary(job)):
            os.remove(entry.path)
        elif entry.name.startswith(f".ttwu-export-{host}-"):
            remove_unless_locked(entry.path)


def remove_unless_locked(staging):
    try:
        with open(os.path.join(staging, "lock"), "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(staging, ignore_errors=True)
    except FileNotFoundError:
        # Only just made, or somebody was killed who was about to remove it.
        if is_older(staging, NEW_SECONDS):
            shutil.rmtree(staging, ignore_errors=True)
    except OSError:
        # Somebody writes there.
        pass


def is_older(path, seconds):
    try:
        return time.time() - os.stat(path).st_mtime > seconds
    except FileNotFoundError:
        return False


def is_exported(dataset, trace):
    return os.path.isdir(folder(dataset, "traces", trace))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "traces",
        metavar="TRACES",
        help="a folder with TRACES/HOST/…/FILE, or a file with lines HOST<TAB>TRACE<TAB>PATH[<TAB>TOPOLOGY]",
    )
    parser.add_argument("dataset", metavar="DATASET", help="the dataset's folder, the same on all executors")
    parser.add_argument("--ttwu", metavar="PATH", help="ttwu on the executors [default: shipped by --files, or installed]")
    parser.add_argument(
        "--match", metavar="PATTERN", nargs="+", default=["*.data", "*.dat"], help="files of a folder that are traces"
    )
    parser.add_argument("--time-limit", metavar="SECONDS", type=float, default=1800, help="for one trace [default: 1800]")
    parser.add_argument(
        "--tries", metavar="N", type=int, default=3, help="how often a trace is tried whose ttwu is killed [default: 3]"
    )
    parser.add_argument("--only-new", action="store_true", help="leave out traces that are in the dataset already")
    parser.add_argument("--tables", metavar="LIST", help="as ttwu export takes it")
    parser.add_argument("--force", action="store_true", help="replace what other recordings left under the same names")
    args = parser.parse_args()
    if args.tries < 1 or args.time_limit <= 0:
        parser.error("--tries and --time-limit are to be more than 0")
    return parser, args


def main():
    parser, args = arguments()
    try:
        if os.path.isdir(args.traces):
            traces = traces_of_tree(args.traces, args.match)
        else:
            traces = traces_of_list(args.traces)
        check(traces)
    except (OSError, ValueError) as error:
        parser.error(escaped(str(error)))
    if not traces:
        parser.error(f"no traces in {escaped(args.traces)}")
    dataset = os.path.abspath(args.dataset)
    listed = len(traces)
    if args.only_new:
        traces = [trace for trace in traces if not is_exported(dataset, trace)]
        print(f"{listed - len(traces)} of {listed} traces are there already")

    options = (["--force"] if args.force else []) + ([f"--tables={args.tables}"] if args.tables else [])
    job = Job(uuid.uuid4().hex[:12], dataset, args.ttwu, args.time_limit, args.tries, options)
    # The largest first: a large one that comes last would keep everybody waiting.
    traces.sort(key=size, reverse=True)
    spark = SparkSession.builder.appName("ttwu fleet").getOrCreate()
    try:
        # As plain tuples: workers do not know the class.
        tasks = spark.sparkContext.parallelize([tuple(trace) for trace in traces], max(1, len(traces)))
        done = tasks.map(lambda trace: (*trace[:2], export(Trace(*trace), job))).collect()
    finally:
        spark.stop()
        clear_left(job)

    failed = sorted(of for of in done if of[2] is not None)
    print(f"{len(done) - len(failed)} of {len(done)} traces are exported to {escaped(dataset)}")
    for host, name, said in failed[:20]:
        print(f"  failed: host={host} trace={name}: {said}")
    if len(failed) > 20:
        print(f"  and {len(failed) - 20} more")
    if failed:
        print("The table `failures` tells of all of them.")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
