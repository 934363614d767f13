"""Options of the ways to run: declared once, seen by ``help``, checked when called and by type checkers."""

from __future__ import annotations

import datetime
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.runner.options import LocalOptions, PlanningOptions, RunOptions, filled, options_of
from weft.spark.options import ShareOptions, StreamOptions

WAYS = [
    (weft.run, RunOptions),
    (weft.share, ShareOptions),
    (weft.stream, StreamOptions),
    (weft.LocalRun, LocalOptions),
]

PROGRAM = """
import pyarrow as pa
from pyspark.sql import DataFrame
import weft
from weft.sinks import MemorySink
from weft.spark import Run

def use(frame: DataFrame, rows: pa.Table) -> Run:
    queries = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 min']")
    weft.run(queries, rows, "ts", "10 s", threads=2, strict=True)
    weft.share(frame, queries, "ts", buckets=2)["n"].count()
    weft.stream({{"s": frame}}, queries, "ts", sink=MemorySink(), nodes=2, chain=100.0)
    return weft.stream(frame, queries, "ts", sink=MemorySink(), lateness="1 s", trigger="available now"{more})
"""


@pytest.fixture
def queries():
    return weft.sql("-- name: n\nSELECT count(*) AS n FROM s [RANGE '1 min']")


@pytest.fixture
def rows():
    return pa.table({"ts": [datetime.datetime(2024, 1, 1, 0, minute, 5) for minute in (0, 1)]})


@pytest.mark.parametrize(("function", "declared"), WAYS, ids=lambda value: value.__name__)
def test_the_signature_has_every_option_with_its_default(function, declared):
    parameters = inspect.signature(function).parameters
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for option in options_of(declared):
        assert parameters[option.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[option.name].default == option.default


def test_defaults_and_names_are_those_that_programs_rely_on():
    assert {o.name: o.default for o in options_of(RunOptions)} == {
        "strategy": "share-all",
        "technique": "auto",
        "strict": False,
        "tables": None,
        "threads": None,
        "chain": "mem-opt",
        "max_ahead": None,
        "zone": "UTC",
        "checkpoint": None,
        "close_at_end": None,
    }
    spark = [
        "tables",
        "buckets",
        "spark",
        "lateness",
        "checkpoint",
        "trigger",
        "idle_timeout",
        "close_at_end",
    ]
    stated = {"strategy": "share-all", "technique": "auto", "strict": False}
    more = dict.fromkeys([*spark, "on_progress", "late", "target_batch", "max_ahead", "nodes"])
    assert {o.name: o.default for o in options_of(StreamOptions)} == more | stated | {"chain": "mem-opt"}
    assert {o.name: o.default for o in options_of(ShareOptions)} == stated | {
        "tables": None,
        "buckets": None,
        "spark": None,
    }


@pytest.mark.parametrize(("function", "declared"), WAYS, ids=lambda value: value.__name__)
def test_the_docstring_has_a_paragraph_for_every_option(function, declared):
    text = (function.__init__ if isinstance(function, type) else function).__doc__
    section = " ".join(text.split("\nKeyword Args:\n")[1].split())
    for option in options_of(declared):
        assert option.text, f"{option.name} has no words"
        assert f"{option.name}: {option.text}" in section
        assert isinstance(option.annotation, str) and "Annotated" not in option.annotation
    assert "Default: ``'share-all'``." in section


def test_an_unknown_option_is_a_type_error_that_suggests_a_close_one(queries, rows):
    with pytest.raises(
        TypeError, match=r"^run\(\) got an unexpected keyword argument 'strickt'; did you mean"
    ):
        weft.run(queries, rows, "ts", strickt=True)
    with pytest.raises(TypeError, match=r"^stream\(\) got .* 'latenes'; did you mean 'lateness'\?$"):
        weft.stream(rows, queries, "ts", sink=print, latenes="1 s")
    with pytest.raises(TypeError, match=r"^share\(\) got an unexpected keyword argument 'qqq'$"):
        weft.share(rows, queries, "ts", qqq=1)
    with pytest.raises(TypeError, match=r"^LocalRun\(\) got .* 'thread'; did you mean 'threads'\?$"):
        weft.LocalRun(queries, rows.schema, "ts", thread=1)
    with pytest.raises(TypeError, match=r"^LocalRun\(\) got an unexpected keyword argument 'checkpoint'"):
        weft.LocalRun(queries, rows.schema, "ts", checkpoint="c")


def test_lateness_may_be_given_by_position_or_by_name(queries, rows):
    by_position = weft.run(queries, rows, "ts", "10 s")
    by_name = weft.run(queries, rows, "ts", lateness="10 s")
    assert by_position["n"].equals(by_name["n"])


def test_what_is_given_stands_before_the_default_and_is_not_changed():
    given = PlanningOptions(strict=True)
    assert filled(PlanningOptions, given, "run")["strict"] is True
    assert given == {"strict": True}


@pytest.mark.slow
def test_type_checkers_see_the_options(tmp_path):
    wrong = {
        "good": "",
        "unknown": ', latenes="1 s"',
        "other_type": ", buckets='4'",
    }
    for name, more in wrong.items():
        (tmp_path / f"{name}.py").write_text(PROGRAM.format(more=more))
    options = ["--strict", "--ignore-missing-imports", "--follow-imports=silent", "--no-error-summary"]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *(f"{name}.py" for name in wrong)],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(Path(weft.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    errors = {
        line.split(":")[0]
        for line in checked.stdout.splitlines()
        if "[call-arg]" in line or "[arg-type]" in line
    }
    assert errors == {"unknown.py", "other_type.py"}, checked.stdout + checked.stderr
    assert "good.py" not in checked.stdout
