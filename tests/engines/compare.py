#!/usr/bin/env python3
"""Runs every file of queries/ in polars, DuckDB and Spark on one dataset, and compares the answers row by row.

Exit codes: 0 all engines agree, 1 they do not or one refuses a query, 2 they could not be asked.
"""

import argparse
import contextlib
import importlib
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# Sums of floating-point numbers depend on the order of their terms.
RELATIVE = 1e-9
ABSOLUTE = 1e-12

KEYS = ["host", "trace"]


class CannotRun(Exception):
    """What keeps the comparison from being made at all."""


def tables(dataset):
    """The files of each table of a dataset."""
    found = {}
    for folder in sorted(path for path in dataset.iterdir() if path.is_dir()):
        files = sorted(folder.glob("host=*/trace=*/*.parquet"))
        if files:
            found[folder.name] = files
    if not found:
        raise CannotRun(f"{dataset}: no TABLE/host=*/trace=*/*.parquet is there")
    return found


def queries(folder, only):
    """The SQL of each question, by name."""
    found = {path.stem: path for path in sorted(folder.glob("*.sql"))}
    missing = sorted(set(only or []) - set(found))
    if missing or not found:
        raise CannotRun(f"{folder}: no {', '.join(missing) or '*.sql'} is there")
    return {name: path for name, path in found.items() if not only or name in only}


def module(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise CannotRun(f"{error}; see requirements.txt beside this file") from error


# The engines. Each is a context that gives a function from a query's file to a pyarrow table.


@contextlib.contextmanager
def polars_of_ttwu(binary, dataset):
    parquet = module("pyarrow.parquet")
    with tempfile.TemporaryDirectory() as folder:

        def ask(path):
            answer = Path(folder, "answer.parquet")
            answer.unlink(missing_ok=True)
            command = [binary, "query", str(path.resolve()), str(dataset), "--format", "parquet", "-o", str(answer)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip())
            return parquet.ParquetFile(answer).read()

        yield ask


@contextlib.contextmanager
def polars_of_python(found):
    polars = module("polars")
    keys = {key: polars.String for key in KEYS}
    frames = {
        table: polars.scan_parquet(
            files, glob=False, hive_partitioning=True, try_parse_hive_dates=False, hive_schema=keys
        )
        for table, files in found.items()
    }
    with polars.SQLContext(frames) as context:
        yield lambda path: context.execute(path.read_text(), eager=True).to_arrow()


@contextlib.contextmanager
def duckdb_of(found, results):
    parquet = module("pyarrow.parquet")
    with module("duckdb").connect() as connection:
        for table, files in found.items():
            types = ", ".join(f"'{key}': VARCHAR" for key in KEYS)
            listed = ", ".join(quoted(file) for file in files)
            connection.execute(
                f'CREATE VIEW "{table}" AS FROM read_parquet([{listed}], hive_partitioning=true, hive_types={{{types}}})'
            )

        def ask(path):
            answer = results / f"{path.stem}.parquet"
            connection.execute(f"COPY (\n{path.read_text()}\n) TO {quoted(answer)} (FORMAT parquet)")
            return parquet.ParquetFile(answer).read()

        yield ask


def quoted(path):
    return "'" + str(path).replace("'", "''") + "'"


@contextlib.contextmanager
def spark_of(dataset, found):
    sql = module("pyspark.sql")
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.sql.ansi.enabled": "true",
            "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
            # Several partitions everywhere: what only holds within one would show.
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
            "spark.sql.files.maxPartitionBytes": "1m",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.sql.warehouse.dir": folder,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        }
        builder = sql.SparkSession.builder.master("local[3]").appName("ttwu")
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise CannotRun(f"Spark does not start: {error}") from error
        try:
            for table in found:
                session.read.parquet(str(dataset / table)).createOrReplaceTempView(table)
            yield lambda path: session.sql(path.read_text()).toArrow()
        finally:
            session.stop()


# The comparison.


def kind(of):
    """What a column's values are, whatever their width."""
    types = module("pyarrow").types
    kinds = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "bool": types.is_boolean,
        "text": lambda of: types.is_string(of) or types.is_large_string(of) or types.is_string_view(of),
    }
    return next((name for name, is_one in kinds.items() if is_one(of)), str(of))


def same(a, b):
    """Whether two values are the same, floats within what the order of sums may change."""
    if not (isinstance(a, float) and isinstance(b, float)):
        return type(a) is type(b) and a == b
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def difference(names, tables):
    """The first difference between two answers, in words; None if they are the same."""
    (one, other), (a, b) = names, tables
    if a.column_names != b.column_names:
        return f"columns: {one} has {a.column_names}, {other} {b.column_names}"
    for column in a.column_names:
        kinds = [kind(table.schema.field(column).type) for table in tables]
        if kinds[0] != kinds[1]:
            return f"column {column}: {one} has {kinds[0]}, {other} {kinds[1]}"
    columns = [[table.column(name).to_pylist() for name in a.column_names] for table in tables]
    for row in range(min(a.num_rows, b.num_rows)):
        for name, ours, theirs in zip(a.column_names, *columns):
            if not same(ours[row], theirs[row]):
                rows = [dict(zip(a.column_names, (of[row] for of in side))) for side in columns]
                return (
                    f"row {row + 1}, column {name}: {one} has {ours[row]!r}, {other} {theirs[row]!r}\n"
                    f"    {one}: {rows[0]}\n    {other}: {rows[1]}"
                )
    if a.num_rows != b.num_rows:
        longer, side = (one, columns[0]) if a.num_rows > b.num_rows else (other, columns[1])
        row = min(a.num_rows, b.num_rows)
        more = dict(zip(a.column_names, (of[row] for of in side)))
        return f"rows: {one} has {a.num_rows}, {other} {b.num_rows}; the first that is only in {longer}: {more}"
    return None


def compare(engines, path):
    """Asks all engines one question: how many rows DuckDB has, how long each took, and what is wrong."""
    answers, seconds, wrong = {}, [], []
    for name, ask in engines.items():
        start = time.monotonic()
        try:
            answers[name] = ask(path)
        except Exception as error:  # Whatever an engine says of a query is what there is to say of it.
            wrong.append(f"{name}: {str(error).strip() or repr(error)}")
        seconds.append(time.monotonic() - start)
    if "duckdb" in answers:
        for name, answer in answers.items():
            differs = name != "duckdb" and difference((name, "duckdb"), (answer, answers["duckdb"]))
            if differs:
                wrong.append(differs)
    rows = answers["duckdb"].num_rows if "duckdb" in answers else None
    return rows, seconds, wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, help="what `ttwu export` wrote, as Parquet files by host and trace")
    parser.add_argument("queries", type=Path, help="the folder with the *.sql files")
    parser.add_argument("results", type=Path, help="the folder for DuckDB's answers, NAME.parquet")
    parser.add_argument("--ttwu", metavar="BINARY", help="ask this ttwu in place of polars in Python")
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these questions alone")
    parser.add_argument("--no-empty", action="store_true", help="an answer without rows is a failure: it tests nothing")
    return parser.parse_args()


def run(args):
    if not args.dataset.is_dir():
        raise CannotRun(f"{args.dataset}: no such folder")
    dataset = args.dataset.resolve()
    found = tables(dataset)
    asked = queries(args.queries, args.only)
    args.results.mkdir(parents=True, exist_ok=True)
    failed, empty = [], []
    with contextlib.ExitStack() as stack:
        polars = polars_of_ttwu(args.ttwu, dataset) if args.ttwu else polars_of_python(found)
        engines = {"polars": stack.enter_context(polars)}
        engines["duckdb"] = stack.enter_context(duckdb_of(found, args.results))
        if not args.without_spark:
            engines["spark"] = stack.enter_context(spark_of(dataset, found))
        print(f"{'query':<28}{'rows':>9}" + "".join(f"{name + ' s':>10}" for name in engines))
        for name, path in asked.items():
            rows, seconds, wrong = compare(engines, path)
            times = "".join(f"{of:>10.2f}" for of in seconds)
            print(f"{name:<28}{'-' if rows is None else rows:>9}{times}", flush=True)
            for what in wrong:
                print(f"  {what}", flush=True)
            if wrong:
                failed.append(name)
            if rows == 0:
                empty.append(name)
    if empty:
        print(f"without rows, so untested on this dataset: {', '.join(empty)}")
    if failed:
        print(f"{len(failed)} of {len(asked)} queries differ: {', '.join(failed)}")
    else:
        print(f"{len(asked)} queries: {', '.join(engines)} agree")
    return 1 if failed or (empty and args.no_empty) else 0


def main():
    try:
        return run(arguments())
    except CannotRun as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
