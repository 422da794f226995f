#!/usr/bin/env python3
"""Writes a dataset that no trace would give: null in every column, ties, empty tables, names that look like numbers or dates.

Columns and words are those of another dataset. What joins rely on is kept: tasks, CPUs and traces are there once.
"""

import argparse
import random
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet

HOSTS = ["a=b", "007", "2024-01-01"]
TRACES = ["1.50", "true", "null", "x/y z+%20", "ü'\"*"]
# Not null, and each value once in a trace.
KEYS = {("tasks", "task"): 8, ("cpus", "cpu"): 6, ("traces", "file"): 1}
# One host's clock counts from 1970.
ORIGINS = {"a=b": 0, "007": 10**12, "2024-01-01": 1_700_000_000 * 10**9}
NUMBERS = [0, 0, 1, 1, 2, 3, 7, 64, 1000]
SPANS_NS = [0, 1, 1, 10, 1_000, 99_999, 100_000, 10_000_000, 10_000_001, 999_999_999, 10**9, 2 * 10**9]
NAMES = ["worker", "worker", "it's", 'a "b"', "ключ", "", "NULL", "\\x00"]
STAMPS = {"ts_ns", "start_ns", "end_ns", "waking_ns", "wakeup_ns", "switch_in_ns", "asked_ns", "entry_ns"}
STAMPS |= {"first_event_ns", "last_event_ns"}
TASKS = {"task", "waker", "wakee", "by_task", "interrupted"}
EMPTY = 0.15
NULL = 0.15


def words(like, table, schema):
    """The words in each column of text of a table."""
    texts = (pa.string(), pa.large_string(), pa.string_view())
    found = {field.name: set() for field in schema if field.type in texts}
    for file in sorted((like / table).glob("host=*/trace=*/*.parquet")):
        rows = pyarrow.parquet.ParquetFile(file).read(columns=list(found))
        for name, values in found.items():
            values.update(value for value in rows.column(name).unique().to_pylist() if value is not None)
    return {name: sorted(values)[:40] or NAMES for name, values in found.items()}


class Values:
    """Makes the values of one table in one trace."""

    def __init__(self, rng, table, host, of_text):
        self.rng, self.table, self.of_text, self.origin = rng, table, of_text, ORIGINS[host]

    def value(self, field):
        name = field.name
        if pa.types.is_boolean(field.type):
            return self.rng.random() < 0.7
        if name in self.of_text:
            return self.rng.choice(NAMES if name in ("name", "former_names") else self.of_text[name])
        if name in STAMPS:
            # The window of a trace is wide enough for some rows to be in it.
            if self.table == "traces":
                return self.origin + (0 if name == "start_ns" else 3 * 10**9)
            return self.origin + self.rng.choice([0, 10**9, 1, 500]) + self.rng.choice(SPANS_NS)
        if name in TASKS:
            return self.rng.randrange(KEYS["tasks", "task"])
        if name == "cpu" or name.endswith("_cpu"):
            return self.rng.randrange(KEYS["cpus", "cpu"])
        if name in ("llc", "core", "node"):
            return self.rng.randrange(2)
        if name in ("pages", "range_pages"):
            return self.rng.choice([-1, 0, 1, 2, 3, 31, 32, 33, 63, 64, 512, 4095, 4096, 65535, 65536, 10**9])
        return self.rng.choice(SPANS_NS if name.endswith("_ns") else NUMBERS)

    def column(self, field, rows):
        key = KEYS.get((self.table, field.name))
        if key and field.name != "file":
            return list(range(rows))
        kept = self.table == "traces" and field.name in ("start_ns", "end_ns", "cpus", "recorder_counted")
        share = 0 if kept and self.rng.random() < 0.8 else NULL
        return [None if self.rng.random() < share else self.value(field) for _ in range(rows)]


def write(out, like, seed):
    rng = random.Random(seed)
    for folder in sorted(path for path in like.iterdir() if path.is_dir()):
        files = sorted(folder.glob("host=*/trace=*/*.parquet"))
        if not files:
            continue
        table = folder.name
        schema = pyarrow.parquet.ParquetFile(files[0]).schema_arrow
        of_text = words(like, table, schema)
        fixed = next((count for (of, _), count in KEYS.items() if of == table), None)
        for host in HOSTS:
            for trace in TRACES:
                rows = 0 if rng.random() < EMPTY else fixed or rng.randrange(1, 120)
                values = Values(rng, table, host, of_text)
                columns = [pa.array(values.column(field, rows), field.type) for field in schema]
                place = out / table / f"host={escaped(host)}" / f"trace={escaped(trace)}"
                place.mkdir(parents=True)
                rows = pa.Table.from_arrays(columns, schema=schema)
                pyarrow.parquet.write_table(rows, place / "part-0.parquet", row_group_size=50)


def escaped(name):
    """The name as `ttwu export` writes it in that of a folder."""
    return "".join(letter if ord(letter) > 127 else quote(letter, safe="-_.+@,") for letter in name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder that is not there yet")
    parser.add_argument("seed", type=int, metavar="SEED")
    parser.add_argument("--like", type=Path, metavar="DATASET", required=True)
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f"{args.out} is there already")
    if not args.like.is_dir():
        parser.error(f"{args.like}: no such folder")
    write(args.out, args.like, args.seed)


if __name__ == "__main__":
    main()
