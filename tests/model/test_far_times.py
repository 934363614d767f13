"""Event times beyond Python's years: every sink and every answer says them, in one way."""

from __future__ import annotations

import datetime
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import weft
from weft.io.json_values import json_rows
from weft.jobs.report import Report
from weft.model.instants import EPOCH, iso, postgres, python_rows
from weft.sinks import ConsoleSink, JsonSink

DAY = 86_400_000_000
LAST = 253_402_214_400_000_000
"""9999-12-31 00:00."""

TIMES = pa.array([LAST, -62_135_596_800_000_000, 0], pa.timestamp("us", "UTC"))
NEXT = "+010000-01-01T00:00:00+00:00"


@pytest.fixture(scope="module")
def results() -> dict[str, pa.Table]:
    """Windows that end with the year 9999, and that start before the year 1."""
    queries = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 day' SLIDE '12 h']")
    return weft.run(queries, pa.table({"ts": TIMES}), time="ts")


def test_results_beyond_python_s_years_are_rows(results: dict[str, pa.Table]) -> None:
    ends = [row["window_end"] for row in python_rows(results["q1"])]
    starts = [row["window_start"] for row in python_rows(results["q1"])]
    assert NEXT in ends
    assert "0000-12-31T12:00:00+00:00" in starts
    assert datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC) in ends


def test_json_has_them_as_text(results: dict[str, pa.Table], tmp_path: Path) -> None:
    assert any(json.loads(row)["window_end"] == NEXT for row in json_rows(results["q1"]))
    sink = JsonSink(tmp_path)
    sink.open({"q1": results["q1"].schema}, "s")
    sink.deliver(results, 1)
    written = "".join(file.read_text() for file in (tmp_path / "q1").glob("*.json*"))
    assert NEXT in written


def test_the_console_shows_them(results: dict[str, pa.Table]) -> None:
    out = io.StringIO()
    ConsoleSink(rows=20, console=Console(file=out, width=120)).deliver(results, 1)
    assert "+010000-01-01 00:00:00" in out.getvalue()


def test_a_notebook_shows_them(results: dict[str, pa.Table]) -> None:
    assert "+010000-01-01" in results._repr_html_()  # type: ignore[attr-defined]


def test_a_watermark_is_shown() -> None:
    out = io.StringIO()
    with Report(Console(file=out, force_terminal=True, width=200)) as report:
        report.step({"seq": 1, "watermark": LAST + 2 * DAY})
    assert "+010000-01-02 00:00:00" in out.getvalue()


@given(st.datetimes())
def test_within_python_s_years_the_text_is_python_s(moment: datetime.datetime) -> None:
    microseconds = (moment - EPOCH) // datetime.timedelta(microseconds=1)
    assert iso(microseconds, zoned=False) == moment.isoformat()
    assert iso(microseconds) == moment.replace(tzinfo=datetime.UTC).isoformat()
    assert postgres(microseconds, zoned=False) == moment.isoformat(" ")
    assert iso(microseconds, day=True) == moment.date().isoformat()


@given(st.integers(-(2**63), 2**63 - 1 - 400 * 366 * DAY))
def test_400_years_later_is_the_same_day_of_the_year(microseconds: int) -> None:
    then = iso(microseconds + 146_097 * DAY)
    assert (
        then[then.rindex("-", 0, then.index("T") - 2) :]
        == (now := iso(microseconds))[now.rindex("-", 0, now.index("T") - 2) :]
    )
