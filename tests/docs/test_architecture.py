"""Pages are true of the code: names exist, a row goes the way that is drawn, the picture is current."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import weft
from support.places import ROOT
from weft.jobs import job, launch
from weft.jobs.report import Report
from weft.testing import trades

DOCS, CODE = ROOT / "docs", ROOT / "src/weft"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
RUN_BLOCK = re.compile(r"^```(?:toml|python|py|bash|sh).*?^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"(?<![\w/.-])((?:\w+/)*\w+\.py)\b(?::(\w+(?:\.\w+)?))?")
"""A file, and perhaps a function, class or method of it: ``io/files/source.py:Files.chunks``."""
PLACE = re.compile(r"`((?:tests|docs|lab|benchmarks|tools|[a-z_]+)/[\w/.-]*|[\w-]+\.(?:toml|md|txt|yml))`")
"""A file or folder in code: ``tests/support/``, ``pyproject.toml``."""
PLACEHOLDER = "NAME"
"""Part of the names of files that a contributor is to write."""

FIRST_COLUMN = 45
"""Characters of a drawing's line before which a name is of both engines, or of this process."""

WINDOW_QUERY = """
SELECT symbol, max(price - close) AS up FROM trades [RANGE '2 min' SLIDE '1 min'] JOIN closes USING (symbol)
WHERE volume > 0 GROUP BY symbol HAVING up > -1000
"""
JOIN_JOB = """
[sources.a]
kind = "files"
path = "rows"
[sources.b]
kind = "files"
path = "rows"
[stream]
time = "ts"
checkpoint = "joins"
close_at_end = true
[queries]
sql = '''SELECT a.symbol, count(*) AS n FROM a [RANGE '1 min'], b [RANGE '1 min']
WHERE a.symbol = b.symbol AND a.price <= b.price GROUP BY a.symbol, window('1 min')'''
[sink]
kind = "memory"
"""


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_that_pages_name_exist(page):
    for name, definition in NAMED.findall(RUN_BLOCK.sub("", page.read_text())):
        if PLACEHOLDER in name:
            continue
        file = next(
            (folder / name for folder in (CODE, ROOT, ROOT / "lab/ring") if (folder / name).exists()), None
        )
        file = file or next((ROOT / "tests").rglob(name), None)
        assert file, f"{page.name} names {name}"
        assert not definition or definition in definitions(file), f"{page.name} names {name}:{definition}"


def test_files_and_folders_that_contributors_are_sent_to_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    places = [place for place in PLACE.findall(RUN_BLOCK.sub("", page)) if PLACEHOLDER not in place]
    assert len(places) > 50
    assert [place for place in places if not any((folder / place).exists() for folder in (CODE, ROOT))] == []


@cache
def definitions(file: Path) -> set[str]:
    """The names of all functions and classes of a module, of its methods, also with their class, and of its
    own variables."""
    tree = ast.parse(file.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    methods = {f"{c.name}.{node.name}" for c in classes for node in c.body if isinstance(node, kinds)}
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    targets = [t for node in assigned for t in getattr(node, "targets", None) or [node.target]]
    variables = {target.id for target in targets if isinstance(target, ast.Name)}
    return {node.name for node in nodes} | methods | variables


@pytest.mark.parametrize("operator", ["window queries", "joins"])
def test_a_row_goes_the_way_that_is_drawn(operator, tmp_path, monkeypatch):
    """Every function that a drawing has for both engines, or for this process, is called."""
    monkeypatch.chdir(tmp_path)
    rows = pa.table(next(trades(500, rate=1, symbols=3)))
    Path("rows").mkdir()
    pq.write_table(rows, "rows/0.parquet")
    closes = pa.table({"symbol": rows["symbol"].unique(), "close": [1.0] * 3})
    with called() as calls:
        if operator == "joins":
            sink = launch.run(job.parse(JOIN_JOB, tmp_path), "local", Report(Console(quiet=True)))
            results = sink.tables
        else:
            results = weft.run(
                weft.sql(WINDOW_QUERY),
                weft.Files("rows"),
                time="ts",
                tables={"closes": closes},
                checkpoint="windows",
                close_at_end=True,
            )
    assert results["q1"].num_rows
    names = drawn(operator)
    assert len(names) > 12
    for file, definition in names:
        is_class = definition[:1].isupper() and "." not in definition
        called_name = f"{definition}.__init__" if is_class else definition
        assert (file, called_name) in calls, f"{file}:{definition} is not called"


def drawn(operator: str) -> list[tuple[str, str]]:
    """The functions of a drawing that run in this process, in its order."""
    page = (DOCS / "architecture.md").read_text()
    drawing = re.search(
        rf"## The way of a row: {operator}\n.*?```\n(.*?)^```$", page, re.DOTALL | re.MULTILINE
    )[1]
    firsts = [NAMED.search(line) for line in drawing.splitlines()]
    return [name.groups() for name in firsts if name and name[2] and name.start() < FIRST_COLUMN]


@contextmanager
def called() -> Iterator[set[tuple[str, str]]]:
    """The functions of weft that are called in the block, by file and qualified name, in whatever thread."""
    calls: set[tuple[str, str]] = set()
    folder = f"{CODE}/"

    def note_call(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            calls.add((frame.f_code.co_filename.removeprefix(folder), frame.f_code.co_qualname))

    threading.setprofile(note_call)
    sys.setprofile(note_call)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_the_picture_of_packages_is_what_the_code_has():
    command = [sys.executable, str(ROOT / "tools/imports_picture.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
