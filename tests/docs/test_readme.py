"""The reference pages are complete: every aggregate, function, key and figure is in them."""

from __future__ import annotations

import collections
import dataclasses

import pytest

import weft
from support.places import ROOT
from weft import aggregates
from weft.cli import bench
from weft.expr.functions import FUNCTIONS
from weft.io.registry import SINKS, SOURCES
from weft.jobs import job


def test_every_aggregate_is_documented():
    text = (ROOT / "docs/queries.md").read_text()
    for name, function in (aggregates.FUNCTIONS | aggregates.SKETCHES).items():
        assert function.summary in text
        assert f"| `{'count(*)' if name == 'count_star' else name + '('}" in text
    for alias in aggregates.ALIASES:
        assert f"`{alias}`" in text


def test_every_function_is_documented():
    text = (ROOT / "docs/queries.md").read_text()
    written = {
        "and": "AND",
        "or": "OR",
        "not": "NOT",
        "in": "IN",
        "like": "LIKE",
        "case": "CASE",
        "cast": "CAST",
    }
    written |= {"is_null": "IS NULL", "div": "div", "negate": "-"}
    for name in FUNCTIONS:
        shown = written.get(name, f"`{name}`" if name.isidentifier() else name)
        assert shown in text, f"{name} is not in docs/queries.md"


def test_every_key_of_a_job_file_is_documented():
    text = (ROOT / "docs/job_file.md").read_text()
    for form in (*SOURCES.values(), *SINKS.values(), job.Stream, job.Queries, job.FromTable, job.Spark):
        for key in dataclasses.fields(form):
            assert f"`{key.name}`" in text, f"{key.name} is not in docs/job_file.md"


@pytest.mark.parametrize("name", ["spark-native", "bounded-state"])
def test_every_figure_of_a_benchmark_is_explained(name):
    text = (ROOT / "docs/benchmarks.md").read_text()
    assert f"## {name}\n" in text
    rows = [collections.defaultdict(lambda: 1.0) for _ in range(8)]
    for figure in bench.load(name).figures(rows):
        assert f"`{figure}`" in text


def test_the_version_is_said_once_and_the_same():
    from importlib import metadata

    assert weft.__version__ == metadata.version("weft")
