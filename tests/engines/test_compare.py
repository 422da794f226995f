#!/usr/bin/env python3
"""compare.py and against_report.py find what is planted: python3 test_compare.py."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet

import against_report
import compare

ROWS = {"cpu": [0, 1, 2], "mean": [1.0, 0.1, 2e-7], "name": ["a", "b", None], "idle": [True, None, False]}
TYPES = {"cpu": pa.int64(), "mean": pa.float64(), "name": pa.string(), "idle": pa.bool_()}


def table(types=None, **changed):
    types = {**TYPES, **(types or {})}
    return pa.table({name: pa.array(values, types[name]) for name, values in {**ROWS, **changed}.items()})


def found(ours, theirs=None):
    return compare.difference(("ours", "theirs"), (ours, theirs or table()))


class Differences(unittest.TestCase):
    def test_same(self):
        self.assertIsNone(found(table()))

    def test_width_is_no_difference(self):
        self.assertIsNone(found(table({"cpu": pa.int32(), "name": pa.large_string()})))

    def test_order_of_sums_is_no_difference(self):
        self.assertIsNone(found(table(mean=[1.0 + 1e-12, 0.1, 2e-7 * (1 + 1e-10)])))
        self.assertIsNone(found(table(mean=[1.0, 0.1, 1e-15]), table(mean=[1.0, 0.1, 0.0])))
        self.assertIsNone(found(table(mean=[1.0, float("nan"), 0.0]), table(mean=[1.0, float("nan"), 0.0])))

    def test_changed_values(self):
        for changed in (
            {"cpu": [0, 1, 3]},
            {"mean": [1.0, 0.1, 2.001e-7]},
            {"mean": [1.00000001, 0.1, 2e-7]},
            {"name": ["a", "B", None]},
            {"idle": [True, None, True]},
        ):
            name = next(iter(changed))
            self.assertIn(f"column {name}", found(table(**changed)) or "nothing", changed)

    def test_nulls(self):
        for changed in (
            {"cpu": [0, None, 2]},
            {"mean": [1.0, None, 2e-7]},
            {"mean": [1.0, float("nan"), 2e-7]},
            {"name": ["a", "b", ""]},
            {"idle": [True, False, False]},
        ):
            self.assertIn("row ", found(table(**changed)) or "nothing", changed)

    def test_integers_beyond_what_floats_hold(self):
        large = 2**60
        self.assertIn("row 1", found(table(cpu=[large, 1, 2]), table(cpu=[large + 1, 1, 2])))

    def test_another_order(self):
        self.assertIn("row 1", found(table().take(pa.array([1, 0, 2]))))

    def test_rows(self):
        for ours, theirs in ((table().slice(0, 2), table()), (table(), table().slice(0, 2))):
            self.assertIn("rows: ours has", found(ours, theirs))
        self.assertIn("rows", found(table().slice(0, 0)))

    def test_columns(self):
        self.assertIn("columns", found(table().select(["mean", "cpu", "name", "idle"])))
        self.assertIn("columns", found(table().select(["cpu", "mean"])))

    def test_types(self):
        self.assertIn("integer", found(table({"mean": pa.int64()}, mean=[1, 0, 0])))
        self.assertIn("decimal", found(table({"cpu": pa.decimal128(38, 0)})))
        nothing = {"name": [None] * 3}
        self.assertIn("null", found(table({"name": pa.null()}, **nothing), table(**nothing)))


class Whole(unittest.TestCase):
    """The script on a small dataset, with a program in ttwu's place that answers what is planted."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for trace, cpus in (("007", [3, 1]), ("a%3Db", [2])):
            place = self.folder / "dataset/cpus/host=2024-01-01" / f"trace={trace}"
            place.mkdir(parents=True)
            pyarrow.parquet.write_table(pa.table({"cpu": pa.array(cpus, pa.int32())}), place / "part-0.parquet")
        self.write_query("cpus", "-- CPUs\nSELECT host, trace, cpu FROM cpus ORDER BY host, trace, cpu")

    def write_query(self, name, sql):
        (self.folder / "queries").mkdir(exist_ok=True)
        (self.folder / "queries" / f"{name}.sql").write_text(sql)

    def run_compare(self, *options, dataset="dataset"):
        folders = [str(self.folder / name) for name in (dataset, "queries", "results")]
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["compare.py", *folders, "--without-spark", *options]):
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = compare.main()
        return code, said.getvalue()

    def answer_instead(self, rows):
        """A program that writes these rows whatever it is asked."""
        answer = self.folder / "answer.parquet"
        pyarrow.parquet.write_table(rows, answer)
        program = self.folder / "ttwu"
        program.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "{answer}" "$last"\n')
        program.chmod(0o755)
        return str(program)

    def test_agreeing(self):
        code, said = self.run_compare()
        self.assertEqual(code, 0, said)
        rows = pyarrow.parquet.ParquetFile(self.folder / "results/cpus.parquet").read().to_pylist()
        expected = [("007", 1), ("007", 3), ("a=b", 2)]
        self.assertEqual([(row["trace"], row["cpu"]) for row in rows], expected)
        self.assertEqual({row["host"] for row in rows}, {"2024-01-01"})

    def test_what_ttwu_answers_counts(self):
        _, said = self.run_compare()
        right = pyarrow.parquet.ParquetFile(self.folder / "results/cpus.parquet").read()
        self.assertEqual(self.run_compare("--ttwu", self.answer_instead(right))[0], 0, said)
        wrong = right.set_column(2, "cpu", pa.array([1, 3, 4], pa.int32()))
        code, said = self.run_compare("--ttwu", self.answer_instead(wrong))
        self.assertEqual(code, 1, said)
        self.assertIn("row 3, column cpu: polars has 4, duckdb 2", said)

    def test_a_refused_query(self):
        self.write_query("refused", "SELECT nothing FROM cpus")
        code, said = self.run_compare()
        self.assertEqual(code, 1, said)
        self.assertIn("1 of 2 queries differ: refused", said)

    def test_no_rows(self):
        self.write_query("empty", "SELECT host, cpu FROM cpus WHERE cpu > 5 ORDER BY host, cpu")
        code, said = self.run_compare()
        self.assertEqual(code, 0, said)
        self.assertIn("without rows, so untested on this dataset: empty", said)
        self.assertEqual(self.run_compare("--no-empty")[0], 1)

    def test_what_cannot_run(self):
        for options in ({"dataset": "none"}, {"dataset": "queries"}):
            self.assertEqual(self.run_compare(**options)[0], 2)
        self.assertEqual(self.run_compare("--only", "none")[0], 2)


class AgainstReport(unittest.TestCase):
    """Sums of one query against a report."""

    def compared(self, report, rows):
        tally = against_report.Tally("idle-search")
        tally.take("trace", against_report.OF_TRACE["idle-search"](rows, report))
        with contextlib.redirect_stdout(io.StringIO()):
            return tally.compared, tally.show()

    def test_numbers(self):
        counts = {"selections": 9, "success": 7, "fast_success": 5, "failures": 2}
        missed = {"prev": {"seen": 1, "any": 2}, "other-llc": {"any": 3}}
        rows = [{**counts, "prev_seen": 1, "prev_any": 2, "other_llc_any": 3}]
        report = {"sis": {**counts, "missed": missed}}
        self.assertEqual(self.compared(report, rows), (7, True))
        for name in rows[0]:
            self.assertEqual(self.compared(report, [{**rows[0], name: rows[0][name] + 1}]), (7, False), name)
        unknown = {"sis": {**counts, "missed": {"unknown": "no topology"}}}
        self.assertEqual(self.compared(unknown, rows), (4, True))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertFalse(against_report.Tally("none").show())

    def test_exit_codes(self):
        with tempfile.TemporaryDirectory() as folder:
            results, reports = Path(folder, "results"), Path(folder, "reports")
            for made in (results, reports):
                made.mkdir()
            with self.assertRaises(against_report.CannotRun):
                against_report.run(results, reports)
            (reports / "a.json").write_text(json.dumps({"waits": {"by_verdict": {}}}))
            with self.assertRaises(against_report.CannotRun):
                against_report.run(results, reports)


if __name__ == "__main__":
    unittest.main()
