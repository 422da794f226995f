#!/usr/bin/env python3
"""Compares what the queries answer with the same numbers in the reports of `ttwu analyze --json --top 1000`.

RESULTS_DIR holds NAME.parquet, as compare.py writes them, REPORTS_DIR a TRACE.json for each trace of the dataset.
Exit codes: 0 all numbers are the same, 1 some are not, or a query's were not compared at all, 2 nothing can be compared.
"""

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet

READINGS = ("seen", "any")
MISSED = ("prev", "other", "stacked-prev", "stacked-pull")
# Lists in reports that end here may go on.
TOP = 1000
# Differences that are printed of each query.
SHOWN = 5

# Checks by the query's name: each yields (what it is, the query's number, the report's number).
OF_TRACE = {}
OF_ALL = {}


def check(name, checks=None):
    def add(function):
        (OF_TRACE if checks is None else checks)[name] = function
        return function

    return add


class CannotRun(Exception):
    """What keeps anything from being compared."""


def known(value):
    """A number of the report; None where it is not known."""
    return None if isinstance(value, dict) and set(value) == {"unknown"} else value


def quantiles(value):
    value = known(value)
    return (value["count"], value["p50"], value["p99"], value["max"]) if value else (0, None, None, None)


def total(rows, *columns):
    return sum(row[column] or 0 for row in rows for column in columns)


def sums(rows, key, *columns):
    """Sums of columns by what key tells of a row."""
    found = defaultdict(lambda: [0] * len(columns))
    for row in rows:
        of = found[key(row)]
        for place, column in enumerate(columns):
            of[place] += row[column] or 0
    return found


def readings(what, value):
    """The readings of a number that the report has: (name, reading, number)."""
    for reading in READINGS:
        if value is not None and reading in value:
            yield f"{what} {reading}", reading, value[reading]


def ranked(report):
    """Whether the report's lists are ordered as the queries': by the reading `any`."""
    return "any" in report["ledger"]["waiting_ns"]


def share(part, whole):
    return part / whole if whole else None


# Wakeups and waits.


@check("worst-pairs")
def worst_pairs(rows, report):
    if not ranked(report):
        rows = sorted(rows, key=lambda row: (-row["lost_seen_ns"], -row["wait_ns"], -row["wakeups"]))
    pairs = report["pairs"]
    if len(pairs) < TOP:
        yield "pairs", len(rows), len(pairs)
    for place, (row, pair) in enumerate(zip(rows, pairs), 1):
        names = ("waker", "waker_pid", "wakee", "wakee_pid")
        yield f"pair {place}", [row[name] for name in names], [pair[name] for name in names]
        yield f"pair {place} wakeups", row["wakeups"], pair["wakeups"]
        yield f"pair {place} wait_ns", row["wait_ns"], pair["wait_ns"]
        for what, reading, ns in readings("lost_ns", pair["lost_ns"]):
            yield f"pair {place} {what}", row[f"lost_{reading}_ns"], ns
        if known(pair["cross_llc_share"]) is not None:
            yield f"pair {place} crossing", share(row["cross_llc"], row["llc_known"]), pair["cross_llc_share"]
        latency = tuple(row[f"latency_{of}_ns"] for of in ("p50", "p99", "max"))
        yield f"pair {place} latency", latency, quantiles(pair["latency_ns"])[1:]


@check("stacked-pairs")
def stacked_pairs(rows, report):
    pairs = report["pairs"]
    if len(pairs) >= TOP or any(known(pair["stacked"]) is None for pair in pairs):
        return
    names = ("waker", "waker_pid", "wakee", "wakee_pid")
    for reading in READINGS:
        if not all(reading in pair["stacked"] for pair in pairs):
            continue
        ours = ((*(row[name] for name in names), row[f"prev_{reading}"] + row[f"pull_{reading}"]) for row in rows)
        theirs = ((*(pair[name] for name in names), pair["stacked"][reading]) for pair in pairs)
        yield f"stacked {reading}", *(Counter(pair for pair in side if pair[-1]) for side in (ours, theirs))


@check("latency-by-distance")
def latency_by_distance(rows, report):
    wakeups = report["wakeups"]
    by_key = {(row["between_cpus"], row["distance"]): row for row in rows}
    for between, distances in wakeups["latency_by_distance_ns"].items():
        for distance, latency in distances.items():
            row = by_key.get((between, distance), {})
            what = f"{between} {distance}"
            yield what, row.get("wakeups", 0), wakeups["by_distance"][between][distance]
            ours = tuple(row.get(f"latency_{of}_ns") for of in ("p50", "p99", "max"))
            yield f"{what} latency", (row.get("with_latency", 0), *ours), quantiles(latency)


@check("latency-over-time")
def latency_over_time(rows, report):
    count, _, _, longest = quantiles(report["wakeups"]["latency_ns"])
    yield "wakeups", total(rows, "wakeups"), report["wakeups"]["total"]
    yield "with a latency", total(rows, "with_latency"), count
    yield "longest", max((row["latency_max_ns"] for row in rows if row["with_latency"]), default=None), longest


@check("missed-idle-by-llc")
def missed_idle_by_llc(rows, report):
    sis = report["sis"]
    yield "selections", total(rows, "selections"), sis["selections"]
    yield "success", total(rows, "found_idle"), sis["success"]
    for reading in READINGS:
        missed = known(sis["missed"])
        if missed and reading in missed["prev"]:
            yield f"missed {reading}", total(rows, f"missed_{reading}"), sum(missed[of][reading] for of in MISSED)
            yield f"other-llc {reading}", total(rows, f"other_llc_{reading}"), missed["other-llc"][reading]


@check("idle-search")
def idle_search(rows, report):
    sis = report["sis"]
    for name in ("selections", "success", "fast_success", "failures"):
        yield name, total(rows, name), sis[name]
    for verdict, missed in (known(sis["missed"]) or {}).items():
        for what, reading, count in readings(verdict, missed):
            yield what, total(rows, f"{verdict.replace('-', '_')}_{reading}"), count


@check("wakeup-paths")
def wakeup_paths(rows, report):
    wakeups, ipis = report["wakeups"], known(report["ipis"])
    by_path = {row["path"]: row for row in rows}
    for path, count in wakeups["by_path"].items():
        row = by_path.get(path, {})
        yield path, row.get("wakeups", 0), count
        ours = tuple(row.get(f"latency_{of}_ns") for of in ("p50", "p99", "max"))
        yield f"{path} latency", (row.get("with_latency", 0), *ours), quantiles(wakeups["latency_by_path_ns"][path])
        if ipis:
            road = ipis["paths"][path]
            ours = tuple(row.get(f"cost_{of}_ns") for of in ("p50", "p99", "max"))
            yield f"{path} cost", (row.get("with_cost", 0), *ours), quantiles(road["waker_cost_ns"])
            yield f"{path} whole cost", row.get("cost_total_ns", 0), known(road["waker_cost_total_ns"]) or 0


@check("wakeups-by-class")
def wakeups_by_class(rows, report):
    wakeups = report["wakeups"]
    for column, words in (("class", wakeups["by_class"]), ("context", wakeups["by_waker"])):
        ours = sums(rows, lambda row: row[column], "wakeups")
        for word, count in words.items():
            yield f"{column} {word}", ours[word][0], count
    if known(wakeups["cross_llc_share"]) is not None:
        yield "crossing", share(total(rows, "cross_llc"), total(rows, "llc_known")), wakeups["cross_llc_share"]


@check("waits-by-cause")
def waits_by_cause(rows, report):
    waits = report["waits"]
    reading = "any" if ranked(report) else "seen"
    yield "count", total(rows, f"count_{reading}"), waits["count"]
    yield "total_ns", total(rows, f"wait_{reading}_ns"), waits["total_ns"]
    by_origin = sums(rows, lambda row: row["origin"], f"count_{reading}", f"wait_{reading}_ns")
    for origin, facts in waits["by_origin"].items():
        yield origin, by_origin[origin], [facts["count"], facts["wait_ns"]]
    yield from by_verdict(rows, waits)


def by_verdict(rows, waits):
    for reading in READINGS:
        names = (f"count_{reading}", f"wait_{reading}_ns", f"lost_{reading}_ns")
        ours = sums(rows, lambda row: row["verdict"], *names)
        for verdict, facts in waits["by_verdict"].items():
            if reading in facts["count"]:
                theirs = [facts[of][reading] for of in ("count", "wait_ns", "lost_ns")]
                yield f"{verdict} {reading}", ours[verdict], theirs


@check("waits-by-task")
def waits_by_task(rows, report):
    yield from by_verdict(rows, report["waits"])
    tasks = report["tasks"]
    if len(tasks) >= TOP:
        return
    for reading in READINGS:
        if tasks and reading in tasks[0]["lost_ns"]:
            ours = sums(rows, lambda row: (row["name"], row["pid"]), f"wait_{reading}_ns", f"lost_{reading}_ns")
            theirs = defaultdict(lambda: [0, 0])
            for task in tasks:
                of = theirs[task["name"], task["pid"]]
                of[0] += task["wait_ns"]
                of[1] += task["lost_ns"][reading]
            # What waits that were given up had lost until then is in the tasks' sums alone.
            given_up = report["waits"]["withdrawn"]["lost_ns"][reading]
            for key, (wait_ns, lost_ns) in theirs.items():
                yield f"{key} waited {reading}", ours[key][0], wait_ns
                if given_up:
                    yield f"{key} lost {reading}", 0 <= lost_ns - ours[key][1] <= given_up, True
                else:
                    yield f"{key} lost {reading}", ours[key][1], lost_ns


@check("tasks-by-lost")
def tasks_by_lost(rows, report):
    if not ranked(report):
        rows = sorted(rows, key=lambda row: (-row["lost_seen_ns"], -row["wait_ns"], -row["run_ns"], row["task"]))
    tasks = report["tasks"]
    if len(tasks) < TOP:
        yield "tasks", len(rows), len(tasks)
    names = ("name", "pid", "generation", "run_ns", "wait_ns", "withheld", "wakeups_made", "wakeups_received", "migrations")
    for place, (row, task) in enumerate(zip(rows, tasks), 1):
        for name in names:
            yield f"task {place} {name}", row[name], task[name]
        for what, reading, ns in readings(f"task {place} lost", task["lost_ns"]):
            yield what, row[f"lost_{reading}_ns"], ns
        latency = tuple(row[f"latency_{of}_ns"] for of in ("p50", "p99", "max"))
        yield f"task {place} latency", latency, quantiles(task["latency_ns"])[1:]


@check("thread-spread")
def thread_spread(rows, report):
    processes = known(report["processes"])
    if processes is None:
        return
    by_tgid = {row["tgid"]: row for row in rows if row["tgid"] is not None}
    if len(processes) < TOP:
        yield "processes", len(by_tgid), len(processes)
    for process in processes:
        row, what = by_tgid.get(process["tgid"], {}), f"process {process['tgid']}"
        yield f"{what} threads", row.get("threads"), process["threads"]
        yield f"{what} run_ns", row.get("run_ns"), process["run_ns"]
        spread = known(process["thread_run_ns"])
        names = {
            "mean_ns": "mean",
            "min_ns": "min",
            "max_ns": "max",
            "range_ns": "range",
            "stddev_ns": "stddev_population",
            "stddev_sample_ns": "stddev_sample",
        }
        for ours, theirs in names.items():
            yield f"{what} {theirs}", row.get(ours), known(spread[theirs])


@check("cross-llc-by-task")
def cross_llc_by_task(rows, report):
    if known(report["wakeups"]["cross_llc_share"]) is not None:
        yield "crossing", share(total(rows, "across"), total(rows, "wakeups")), report["wakeups"]["cross_llc_share"]


@check("transit-by-distance")
def transit_by_distance(rows, report):
    by_path = sums(rows, lambda row: row["path"], "wakeups")
    for path, (count,) in by_path.items():
        yield f"{path} within all", count <= report["wakeups"]["by_path"][path], True


@check("smt-sharing")
def smt_sharing(rows, report):
    yield "wakeups", total(rows, "wakeups"), report["wakeups"]["total"]
    if known(report["wakeups"]["smt_shared"]) is not None:
        shared = [row for row in rows if row["siblings"] == "shared"]
        yield "shared", total(shared, "wakeups"), report["wakeups"]["smt_shared"]


# Moves.


@check("migrations-by-cause")
def migrations_by_cause(rows, report):
    migrations = known(report["migrations"])
    if migrations is None:
        return
    yield "total", total(rows, "moves"), migrations["total"]
    yield "inferred", total(rows, "inferred"), migrations["inferred"]
    yield "without a run", total(rows, "moves") - total(rows, "with_run"), migrations["withdrawn"]
    sure = sums(rows, lambda row: row["cause"], "certain", "likely", "unsure")
    by_key = {(row["cause"], row["distance"]): row for row in rows}
    for cause, distances in migrations["by_cause"].items():
        of = migrations["by_confidence"][cause]
        yield f"{cause} confidence", sure[cause], [of[word] for word in ("certain", "likely", "unsure")]
        for distance, count in distances.items():
            row = by_key.get((cause, distance), {})
            yield f"{cause} {distance}", row.get("moves", 0), count
            ours = tuple(row.get(f"run_{of}_ns") for of in ("p50", "p99", "max"))
            runs = quantiles(migrations["run_after_ns"][cause][distance])
            yield f"{cause} {distance} run", (row.get("with_run", 0), *ours), runs


@check("who-migrates-whom")
def who_migrates_whom(rows, report):
    migrations = known(report["migrations"])
    ours = sums(rows, lambda row: row["cause"], "moves")
    for cause, distances in (migrations["by_cause"] if migrations else {}).items():
        yield cause, ours[cause][0], distances["node"] + distances["remote"]


@check("slices-after-migration")
def slices_after_migration(rows, report):
    migrations = known(report["migrations"])
    ours = {(row["cause"], row["distance"]): row["moves"] for row in rows}
    for cause, distances in (migrations["by_cause"] if migrations else {}).items():
        for distance, count in distances.items():
            yield f"{cause} {distance}", ours.get((cause, distance), 0), count


@check("bouncing")
def bouncing(rows, report):
    bounces = known(report["flips"]["bounces"])
    if bounces is None:
        return
    yield "bounces", total(rows, "bounces"), bounces["count"]
    yield "later", total(rows, "later"), bounces["later"]
    for what, reading, count in readings("left idle", bounces["left_idle"]):
        yield what, total(rows, f"left_idle_{reading}"), count
    for what, reading, ns in readings("lost", bounces["lost_ns"]):
        yield what, total(rows, f"lost_{reading}_ns"), ns
    for reading in READINGS:
        if reading in bounces["left_idle"] and bounces["tasks"] < TOP:
            bouncing_rows = [row for row in rows if row["bounces"]]
            columns = ("name", "pid", "bounces", f"left_idle_{reading}", f"lost_{reading}_ns")
            ours = Counter(tuple(row[column] for column in columns) for row in bouncing_rows)
            theirs = Counter(
                (of["name"], of["pid"], of["bounces"], of["left_idle"][reading], of["lost_ns"][reading])
                for of in bounces["worst"]
            )
            yield f"tasks {reading}", ours, theirs


@check("bounces-by-cause")
def bounces_by_cause(rows, report):
    bounces = known(report["flips"]["bounces"])
    if bounces is None:
        return
    ours = {(row["out_cause"], row["back_cause"]): row["bounces"] for row in rows}
    for out, backs in bounces["by_pullers"].items():
        for back, count in backs.items():
            yield f"{out} and {back}", ours.get((out, back), 0), count
    longest = max((row["away_max_ns"] for row in rows), default=None)
    yield "longest", longest, quantiles(bounces["away_ns"])[3]


# Flips.


@check("flips-by-policy")
def flips_by_policy(rows, report):
    if "unknown" in report["flips"]:
        return
    policies, factors = known(report["flips"]["policies"]), known(report["flips"]["factors"])
    if policies is None:
        return
    by_policy = {row["policy"]: row for row in rows}
    told = {**policies, "halved": factors["halved"], "doubled": factors["doubled"]}
    for policy, facts in told.items():
        row = by_policy.get(policy, {})
        for name, count in facts.items():
            yield f"{policy} {name}", row.get(name, 0), count


@check("flips-by-task")
def flips_by_task(rows, report):
    flips = report["flips"]
    if "unknown" in flips or len(flips["tasks"]) >= TOP:
        return
    seconds = (report["trace"]["end_ns"] - report["trace"]["start_ns"]) / 1e9
    columns = [f"as_{role}_{decision}" for role in ("waker", "wakee") for decision in ("wide", "affine", "open")]
    kernel = [row for row in rows if row["policy"] == "kernel"]
    kernel = [row for row in kernel if any(row[column] for column in ("flips", *columns))]
    ours = Counter((row["name"], row["pid"], row["flips"], *(row[of] for of in columns)) for row in kernel)
    theirs = Counter(
        (
            of["name"],
            of["pid"],
            round(of["flips_per_second"] * seconds),
            *(of[role][decision] for role in ("as_waker", "as_wakee") for decision in ("wide", "affine", "open")),
        )
        for of in flips["tasks"]
    )
    for task in ours | theirs:
        yield f"task {task[:2]}", (task, ours[task]), (task, theirs[task])


@check("flips-against-pulls")
def flips_against_pulls(rows, report):
    flips = report["flips"]
    if "unknown" in flips:
        return
    yield "recorded", total(rows, "wakeups"), flips["recorded"]
    pulls = known(flips["pull_check"])
    if pulls:
        yield "wide", total(rows, "pulled_wide"), pulls["wide"]
        yield "affine", total(rows, "pulled_affine"), pulls["affine"]
        yield "open", total(rows, "pulled_undecided"), pulls["undecided"] + pulls["warming_up"]


# Interrupts.


@check("ipi-matrix")
def ipi_matrix(rows, report):
    ipis = known(report["ipis"])
    if ipis is None:
        return
    column = "interrupts" if ipis["counted"] == "sends" else "unexplained"
    yield "total", total(rows, column), ipis["total"]
    distances = sums(rows, lambda row: row["distance"], column)
    for distance, count in ipis["by_distance"].items():
        yield distance, distances[distance][0], count
    if ipis["counted"] == "sends":
        kinds = {
            "for_wakeup": ("wakeup", "wakeup_reschedule"),
            "for_reschedule": ("reschedule",),
            "for_tlb": ("tlb",),
            "for_call": ("call",),
            "for_other": ("irq_work", "other"),
        }
        for name, words in kinds.items():
            yield name, total(rows, name), sum(ipis["by_kind"][word] for word in words)
    yield "polled", total(rows, "polled"), ipis["polled"]["total"]
    yield "queued", total(rows, "queued"), (known(ipis["queued"]) or {"total": 0})["total"]
    if known(ipis["handlers"]):
        yield "handlers", total(rows, "unexplained"), ipis["handlers"]["unexplained"]
        yield "handlers' time", total(rows, "handler_ns"), ipis["handlers"]["ns"]
    longest = max((row["latency_max_ns"] for row in rows if row["latency_max_ns"] is not None), default=None)
    yield "longest", longest, quantiles(ipis["latency_ns"])[3]


@check("ipi-callbacks")
def ipi_callbacks(rows, report):
    ipis = known(report["ipis"])
    if ipis is None or len(ipis["functions"]) >= TOP:
        return
    columns = ("interrupts", "queued", "handler_ns", "stolen_ns")
    called = [row for row in rows if row["interrupts"] + row["queued"]]

    # The report does not name a function that stands for others; the table has its address.
    def key(row):
        return row["kind"], row["callsite"]

    ours = sums(called, key, *columns)
    theirs = defaultdict(lambda: [0] * len(columns))
    for of in ipis["functions"]:
        for place, column in enumerate(columns):
            theirs[of["kind"], known(of["callsite"])][place] += of[column]
    for of in {**ours, **theirs}:
        yield f"{of}", ours[of], theirs[of]
    functions = [(of["kind"], known(of["function"])) for of in ipis["functions"] if known(of["function"])]
    there = {(row["kind"], row["callback"]) for row in called}
    for of in functions:
        yield f"{of}", of in there, True


@check("ipi-victims")
def ipi_victims(rows, report):
    ipis = known(report["ipis"])
    if ipis is None:
        return
    if len(ipis["stolen_from"]) < TOP:
        yield "victims", len(rows), len(ipis["stolen_from"])
    for place, (row, of) in enumerate(zip(rows, ipis["stolen_from"]), 1):
        ours = [row[name] for name in ("name", "pid", "generation", "handlers", "taken_ns", "tlb_ns")]
        yield f"victim {place}", ours, [of[name] for name in ("name", "pid", "generation", "handlers", "ns", "tlb_ns")]


@check("tlb-by-task")
def tlb_by_task(rows, report):
    tlb = known((known(report["ipis"]) or {}).get("tlb", {"unknown": ""}))
    if tlb is None or len(tlb["processes"]) >= TOP:
        return
    columns = ("flushes", "remote", "wait_ns", "victim_ns")
    ours = sums(rows, lambda row: row["pid"] if row["tgid"] is None else row["tgid"], *columns)
    theirs = {of["pid"]: [of[column] for column in columns] for of in tlb["processes"]}
    for pid in {**ours, **theirs}:
        yield f"process {pid}", ours[pid], theirs.get(pid, [0] * len(columns))


@check("flush-sizes")
def flush_sizes(rows, report):
    tlb = known((known(report["ipis"]) or {}).get("tlb", {"unknown": ""}))
    if tlb is None:
        return
    flushed = [row for row in rows if row["counted"] == "flushed"]
    asked_for = [row for row in rows if row["counted"] == "asked_for"]
    yield "flushes", total(flushed, "flushes"), tlb["flushes"]
    yield "remote", total(flushed, "remote"), tlb["remote"]
    for extent in ("full", "empty"):
        yield extent, total([row for row in flushed if row["extent"] == extent], "flushes"), tlb[extent]
    yield from by_size(flushed, tlb["pages_log2"])
    for ours, theirs in (("targets", "targets"), ("asked_nobody", "untargeted"), ("wait_ns", "initiator_wait_total_ns")):
        if known(tlb[theirs]) is not None:
            yield theirs, total(flushed, ours), tlb[theirs]
    ranges = known(tlb["ranges"])
    yield "ranges", total(asked_for, "flushes"), ranges["count"] if ranges else 0
    if ranges:
        yield from by_size(asked_for, ranges["pages_log2"])
        whole = [row for row in asked_for if row["extent"] == "full"]
        yield "whole ranges", total(whole, "flushes"), ranges["whole"]


def by_size(rows, log2):
    theirs = defaultdict(int)
    for power, count in enumerate(log2):
        # The query has wider classes from 1024 pages on.
        low = 1 << power if power < 10 else 1024 << min((power - 10) // 2 * 2, 6)
        theirs[low] += count
    ours = {row["pages_from"]: row["flushes"] for row in rows if row["extent"] == "pages"}
    for low in {**ours, **theirs}:
        yield f"from {low} pages", ours.get(low, 0), theirs[low]


# The CPUs' time.


@check("ledger-by-second")
def ledger_by_second(rows, report):
    ledger = report["ledger"]
    for name in ("unknown_ns", "running_ns", "transit_ns"):
        yield name, total(rows, name), ledger[name]
    for what, reading, ns in readings("idle", ledger["idle_ns"]):
        yield what, total(rows, f"idle_{reading}_ns"), ns
    for what, reading, ns in readings("waiting", ledger["waiting_ns"]):
        names = (f"waiting_{of}_{reading}_ns" for of in ("llc_core", "llc_smt", "machine"))
        yield what, total(rows, *names), ns
    for part, of in (known(ledger["waiting_llc_ns"]) or {}).items():
        for what, reading, ns in readings(part, of):
            yield what, total(rows, f"waiting_llc_{part}_{reading}_ns"), ns
    for what, reading, ns in readings("machine", known(ledger["waiting_machine_ns"])):
        yield what, total(rows, f"waiting_machine_{reading}_ns"), ns


@check("ledger-by-cpu")
def ledger_by_cpu(rows, report):
    ledger = report["ledger"]
    yield "CPUs", sorted(row["cpu"] for row in rows), sorted(report["trace"]["cpus"])
    for name in ("unknown_ns", "running_ns", "transit_ns"):
        yield name, total(rows, name), ledger[name]
    for ours, theirs in (("idle", "idle_ns"), ("lost", "waiting_ns")):
        for what, reading, ns in readings(ours, ledger[theirs]):
            yield what, total(rows, f"{ours}_{reading}_ns"), ns
    # By CPU they may differ: the report does not know on which one a waker was of which only the wakeup was seen.
    yield "wakeups made", total(rows, "wakeups_made"), report["wakeups"]["total"]


@check("ledger-by-llc")
def ledger_by_llc(rows, report):
    by_llc = {row["llc"]: row for row in rows if row["llc"] is not None}
    for of in known(report["llcs"]) or []:
        row, what = by_llc.get(of["llc"], {}), f"LLC {of['llc']}"
        yield f"{what} CPUs", row.get("cpus"), len(of["cpus"])
        yield f"{what} running", row.get("running_ns"), of["running_ns"]
        for ours, theirs in (("idle", "idle_ns"), ("lost", "waiting_ns")):
            for name, reading, ns in readings(f"{what} {ours}", of[theirs]):
                yield name, row.get(f"{ours}_{reading}_ns"), ns


@check("runqueue-depth")
def runqueue_depth(rows, report):
    trace = report["trace"]
    yield "span", total(rows, "span_ns"), trace["end_ns"] - trace["start_ns"]
    yield "waiting", total(rows, "wait_ns"), report["waits"]["total_ns"]
    yield "running", total(rows, "run_ns"), report["ledger"]["running_ns"]


@check("runqueue-depth-by-cpu")
def runqueue_depth_by_cpu(rows, report):
    yield "span", total(rows, "lasted_ns"), report["ledger"]["total_ns"]
    runnable = sum(row["runnable"] * row["lasted_ns"] for row in rows)
    yield "runnable", runnable, report["waits"]["total_ns"] + report["ledger"]["running_ns"]


@check("idle-exits-by-cpu")
def idle_exits_by_cpu(rows, report):
    yield "transit", total(rows, "transit_ns"), report["ledger"]["transit_ns"]


@check("task-timeline")
def task_timeline(rows, report):
    if not ranked(report) or not report["tasks"]:
        return
    worst, trace = report["tasks"][0], report["trace"]
    yield "task", {(row["name"], row["pid"]) for row in rows}, {(worst["name"], worst["pid"])}
    for state, theirs in (("running", "run_ns"), ("waiting", "wait_ns")):
        spans = ((row["start_ns"], row["end_ns"]) for row in rows if row["state"] == state)
        spans = ((start, trace["end_ns"] if end is None else end) for start, end in spans)
        within = (min(end, trace["end_ns"]) - max(start, trace["start_ns"]) for start, end in spans)
        yield state, sum(max(ns, 0) for ns in within), worst[theirs]


@check("traces-overview")
def traces_overview(rows, report):
    trace, ledger = report["trace"], report["ledger"]
    for row in rows:
        yield "release", row["kernel_release"], known(trace["kernel_release"])
        yield "format", row["format"], trace["format"]
        yield "CPUs", row["cpus"], len(trace["cpus"])
        yield "seconds", row["seconds"], (trace["end_ns"] - trace["start_ns"]) / 1e9
        yield "events", row["events"], trace["events"]
        yield "lost events", row["lost_events"], trace["lost_events"]
        yield "wakeups", row["wakeups"], report["wakeups"]["total"]
        yield "running", row["running_ns"], ledger["running_ns"]
        yield "waiting", row["wait_ns"], report["waits"]["total_ns"]
        for what, reading, ns in readings("lost", ledger["waiting_ns"]):
            yield what, row[f"lost_{reading}_ns"], ns
        for what, reading, of in readings("lost share", ledger["waiting_share"]):
            yield what, row[f"lost_{reading}_share"], of


@check("lost-events")
def lost_events(rows, report):
    yield "unknown", total(rows, "unknown_ns"), report["ledger"]["unknown_ns"]
    # Losses that belong to no CPU are the trace's alone.
    yield "lost events", total(rows, "lost_events") <= report["trace"]["lost_events"], True


# Across traces.


def missed_idle(rows, reports, key):
    facts = [report["waits"]["by_verdict"] for report in reports.values()]
    yield "traces", total(rows, "traces"), len(reports)
    yield "waits", total(rows, "waits"), sum(report["waits"]["count"] for report in reports.values())
    # Traces whose topology is not known cannot tell: of these only how many there are.
    judged = [report for report in reports.values() if "unknown" not in report["llcs"]]
    yield "without topology", total(rows, "without_topology"), len(reports) - len(judged)
    yield "CPU time", total(rows, "cpu_time_ns"), sum(report["ledger"]["total_ns"] for report in judged)
    for reading in READINGS:
        # A trace that was read one way only has no number for the other.
        if all(reading in of["prev"]["count"] for of in facts):
            for ours, theirs in ((f"missed_{reading}", "count"), (f"lost_{reading}_ns", "lost_ns")):
                yield ours, total(rows, ours), sum(of[verdict][theirs][reading] for of in facts for verdict in MISSED)
    if key is not None:
        releases = {known(report["trace"]["kernel_release"]) for report in reports.values()}
        yield "releases", {row[key] for row in rows}, releases


@check("hosts-by-missed-idle", OF_ALL)
def hosts_by_missed_idle(rows, reports):
    yield from missed_idle(rows, reports, None)


@check("releases-by-missed-idle", OF_ALL)
def releases_by_missed_idle(rows, reports):
    yield from missed_idle(rows, reports, "kernel_release")


def same(ours, theirs):
    numbers = all(isinstance(of, (int, float)) and not isinstance(of, bool) for of in (ours, theirs))
    if numbers and (isinstance(ours, float) or isinstance(theirs, float)):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    return ours == theirs


class Tally:
    """What was compared of one query."""

    def __init__(self, name):
        self.name, self.compared, self.wrong = name, 0, []

    def take(self, where, found):
        for what, ours, theirs in found:
            self.compared += 1
            if not same(ours, theirs):
                self.wrong.append(f"{where}: {what}: query {ours}, report {theirs}")

    def show(self):
        print(f"{self.name:<28}{self.compared:>9}{len(self.wrong):>9}")
        for text in self.wrong[:SHOWN]:
            print(f"  {text[:500]}")
        if not self.compared:
            print("  nothing was compared")
        return bool(self.compared) and not self.wrong


def run(results, reports_dir):
    reports = {path.stem: json.loads(path.read_text()) for path in sorted(reports_dir.glob("*.json"))}
    if not reports:
        raise CannotRun(f"{reports_dir}: no TRACE.json is there")
    answers = {path.stem: path for path in sorted(results.glob("*.parquet"))}
    if not answers:
        raise CannotRun(f"{results}: no NAME.parquet is there")
    print(f"{'query':<28}{'compared':>9}{'wrong':>9}")
    right, compared = True, 0
    for name in sorted({**OF_TRACE, **OF_ALL}):
        tally = Tally(name)
        rows = pyarrow.parquet.ParquetFile(answers[name]).read().to_pylist() if name in answers else []
        if name in OF_ALL:
            tally.take("all", OF_ALL[name](rows, reports))
        elif name in answers:
            by_trace = defaultdict(list)
            for row in rows:
                by_trace[row["trace"]].append(row)
            for trace, report in reports.items():
                tally.take(trace, OF_TRACE[name](by_trace.pop(trace, []), report))
            tally.take("all", ((f"a report of {trace}", False, True) for trace in by_trace))
        right &= tally.show()
        compared += tally.compared
    alone = sorted(set(answers) - set(OF_TRACE) - set(OF_ALL))
    print(f"{compared} numbers of {len(reports)} reports; no report has those of: {', '.join(alone) or 'none'}")
    return 0 if right else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS_DIR")
    parser.add_argument("reports", type=Path, metavar="REPORTS_DIR")
    args = parser.parse_args()
    try:
        return run(args.results, args.reports)
    except CannotRun as error:
        print(f"against_report.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
