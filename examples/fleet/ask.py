#!/usr/bin/env python3
"""Asks a dataset questions in SQL, by Spark.

    spark-submit ask.py DATASET QUERY.sql…
"""

import argparse
import csv
import os
import re
import sys

from pyspark.sql import SparkSession

# As export_fleet.py writes it; a dataset without failures has no such folder.
FAILURES = (
    "path STRING, exit_code INT, error STRING, attempts BIGINT, failed_at STRING, ttwu_version STRING,"
    " host STRING, trace STRING"
)


def make_views(spark, dataset, query):
    """Makes a view of each table that the query may name: to list the files of all takes long in a large dataset."""
    folders = (entry.name for entry in os.scandir(dataset) if entry.is_dir() and re.fullmatch(r"\w+", entry.name))
    tables = sorted({*folders, "failures"})
    for table in tables:
        if not re.search(rf"\b{table}\b", query, re.IGNORECASE):
            continue
        folder = os.path.join(dataset, table)
        if table != "failures":
            rows = spark.read.parquet(f"file://{folder}")
        elif os.path.isdir(folder):
            rows = spark.read.schema(FAILURES).parquet(f"file://{folder}")
        else:
            rows = spark.createDataFrame([], FAILURES)
        rows.createOrReplaceTempView(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("queries", metavar="QUERY.sql", nargs="+")
    parser.add_argument("--csv", action="store_true", help="write rows as CSV, with an empty line between answers")
    parser.add_argument("--rows", metavar="N", type=int, default=50, help="how many rows a table shows [default: 50]")
    args = parser.parse_args()
    dataset = os.path.abspath(args.dataset)
    if not os.path.isdir(dataset):
        parser.error(f"{dataset} is no folder")
    queries = []
    for path in args.queries:
        with open(path, encoding="utf-8") as file:
            queries.append(file.read())

    spark = (
        SparkSession.builder.appName("ttwu ask")
        # Names of hosts and traces are text, also where they look like numbers or dates.
        .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
        # Results are small; 200 tasks, one after the other on a few cores, would take longer than the reading.
        .config("spark.sql.shuffle.partitions", "16")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    for number, query in enumerate(queries):
        make_views(spark, dataset, query)
        rows = spark.sql(query)
        if args.csv:
            if number:
                print()
            out = csv.writer(sys.stdout, lineterminator="\n")
            out.writerow(rows.columns)
            out.writerows(rows.collect())
        else:
            rows.show(args.rows, truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
