#!/usr/bin/env python3
"""Executes examples/notebook.ipynb, and looks whether every picture shows something.

    notebook_test.py NOTEBOOK TTWU TRACE WORK

Then the same with tables that are empty, to see that the test would notice.
"""

import copy
import os
import re
import shutil
import struct
import sys
import zlib
from pathlib import Path

import nbclient
import nbformat
import vl_convert

NOTEBOOK, TTWU, TRACE, WORK = (Path(argument).resolve() for argument in sys.argv[1:5])
# The cells with pictures, and a word that each title has to have.
PICTURES = {
    "cpu-time": "time",
    "latency": "latency",
    "ipis": "interrupts",
    "pairs": "woken",
    "runqueues": "wait",
    "causes": "waited",
    "threads": "threads",
}


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = NOTEBOOK.stat().st_size
    assert stored < 300_000, f"the notebook has {stored} bytes"

    whole = executed(notebook)
    found = problems(whole, render=True)
    assert not found, "\n".join(found)
    compare_sums(whole)

    # Without any rows no picture shows anything; without interrupts one does not.
    found = problems(executed(emptied(notebook, "True")))
    missed = PICTURES.keys() - {problem.split(":")[0] for problem in found}
    assert not missed, f"not noticed with empty tables: {missed}"
    found = problems(executed(emptied(notebook, "name == 'ipis'")))
    assert {problem.split(":")[0] for problem in found} == {"ipis"}, found
    print("all is well")


def executed(notebook):
    """The notebook with its outputs; cells that fail have an error among theirs."""
    os.environ.update(TTWU=str(TTWU), TRACE=str(TRACE), RENDERER="json")
    notebook = copy.deepcopy(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(WORK)}}
    )
    return client.execute()


def emptied(notebook, condition):
    """The notebook with a function `table` that finds no rows, if the condition holds for its name."""
    notebook = copy.deepcopy(notebook)
    place = next(place for place, cell in enumerate(notebook.cells) if cell.get("id") == "tables")
    empty = f"_all = table\ndef table(name):\n    return _all(name).limit(0) if ({condition}) else _all(name)"
    notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(empty))
    return notebook


def problems(notebook, render=False):
    """What is wrong: sentences that begin with a cell's name."""
    wrong = []
    cells = {cell.get("id"): cell for cell in notebook.cells}
    for name in cells:
        outputs = cells[name].get("outputs", [])
        wrong += [f"{name}: {of.ename}: {of.evalue[:500]}" for of in outputs if of.output_type == "error"]
    for name, word in PICTURES.items():
        specs = list(pictures(cells[name])) if name in cells else []
        if len(specs) != 1:
            wrong.append(f"{name}: {len(specs)} pictures, not one")
            continue
        spec = specs[0]
        wrong += [f"{name}: {what}" for what in wrong_in_spec(spec, word)]
        if render:
            png = vl_convert.vegalite_to_png(spec, vl_version=vl_version(spec), scale=1)
            (WORK / f"{name}.png").write_bytes(png)
            coloured = coloured_pixels(png)
            if coloured < 200:
                wrong.append(f"{name}: {coloured} pixels have a colour")
    return wrong


def compare_sums(notebook):
    """What the notebook adds up by itself is what the ledger says."""
    cell = next(cell for cell in notebook.cells if cell.get("id") == "cpu-time-check")
    shown = cell.outputs[0]["data"]["text/plain"]
    rows = re.findall(r"│ (\D+?) +┆ (\d[\d.e-]*) +┆ (\d[\d.e-]*) +│", shown)
    sums = {state: (float(ledger), float(here)) for state, ledger, here in rows}
    assert len(sums) == 3, shown
    running, waits, coming = sums.values()
    assert all(abs(ledger - here) < 2e-6 for ledger, here in (running, waits)), sums
    assert abs(coming[0] - coming[1]) < 0.15 * coming[0], sums


def pictures(cell):
    """The Vega-Lite specifications that a cell put out."""
    for output in cell.get("outputs", []):
        content = output.get("data", {}).get("application/json", {})
        if "/vega-lite/" in content.get("$schema", ""):
            yield content


def vl_version(spec):
    """The newest that the renderer knows of that major version."""
    major = re.search(r"/v(\d+)", spec["$schema"])[1]
    known = [of for of in vl_convert.get_vegalite_versions() if of.split(".")[0] == major]
    return max(known, key=lambda of: [int(part) for part in of.split(".")])


def wrong_in_spec(spec, word):
    title = spec.get("title", {})
    if word not in title.get("text", "").lower() or not all(title.get("subtitle", [])):
        yield f"the title is {title}"
    marks = list(units(spec))
    if not marks:
        yield "no marks"
    for data, encoding in marks:
        rows = spec["datasets"].get(data.get("name"), [])
        if not rows:
            yield "no rows"
        for channel, of in encoding.items():
            field = of.get("field") if isinstance(of, dict) else None
            if not field or field == "rank":
                # Calculated in the picture itself.
                continue
            # A quantity that is 0 everywhere shows as little as none.
            nothing = (None, 0) if of.get("type") == "quantitative" else (None,)
            if all(row.get(field) in nothing for row in rows):
                yield f"nothing in {field} ({channel})"
    for axis in ("x", "y"):
        titles = {t for _, encoding in marks for t in [axis_title(encoding.get(axis, {}))] if t}
        if not titles:
            yield f"{axis} has no title"
        quantities = [e[axis] for _, e in marks if e.get(axis, {}).get("type") == "quantitative"]
        for of in quantities:
            named = axis_title(of)
            if named and not re.search(r"\((s|ms|µs)\b|\(mean|CPUs|Share", named):
                yield f"{axis} has no unit: {named}"


def axis_title(of):
    return of.get("title") or (of.get("axis") or {}).get("title")


def units(spec, data=None, encoding=None):
    """Every mark of a spec: its data and encoding, with what it inherits."""
    data = spec.get("data", data)
    encoding = {**(encoding or {}), **spec.get("encoding", {})}
    parts = [part for key in ("layer", "hconcat", "vconcat", "concat") for part in spec.get(key, [])]
    if "spec" in spec:
        parts.append(spec["spec"])
    for part in parts:
        yield from units(part, data, encoding)
    if "mark" in spec:
        yield data or {}, encoding


def coloured_pixels(png):
    """How many pixels are of no grey: marks are, axes and text are not."""
    width, channels, rows = pixels(png)
    return sum(
        max(row[at : at + 3]) - min(row[at : at + 3]) > 40 for row in rows for at in range(0, width * channels, channels)
    )


def pixels(png):
    """The rows of a PNG of 8 bits a channel, without interlacing."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", b""
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        content = png[at + 8 : at + 8 + length]
        header, packed = (content, packed) if kind == b"IHDR" else (header, packed + content if kind == b"IDAT" else packed)
        at += 12 + length
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert bits == 8 and not interlaced and colour in (2, 6), header
    channels = 4 if colour == 6 else 3
    raw, stride, rows = zlib.decompress(packed), width * channels, []
    above = bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        row = bytearray(raw[start + 1 : start + 1 + stride])
        unfilter(raw[start], row, above, channels)
        rows.append(row)
        above = row
    return width, channels, rows


def unfilter(kind, row, above, channels):
    for at in range(len(row) if kind else 0):
        left = row[at - channels] if at >= channels else 0
        corner = above[at - channels] if at >= channels else 0
        if kind == 1:
            guess = left
        elif kind == 2:
            guess = above[at]
        elif kind == 3:
            guess = (left + above[at]) // 2
        else:
            guess = min((left, above[at], corner), key=lambda value: abs(left + above[at] - corner - value))
        row[at] = (row[at] + guess) & 255


if __name__ == "__main__":
    main()
