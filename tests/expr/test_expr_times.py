"""Timestamps and dates: parts, casts, literals, time zones."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from cast_oracle import BadValue, text_to_date, text_to_timestamp
from expr_cases import call
from expr_oracle import evaluate_row
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.errors import QueryError
from weft.expr import Evaluator
from weft.query import Column, Expr, Literal

T, S, D, X = map(Column, "tsdx")
PARIS = ZoneInfo("Europe/Paris")
PARTS = ("year", "quarter", "month", "day", "dayofweek", "dayofyear", "hour", "minute", "second")
TIMES = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))


def values(expr: Expr, **columns: pa.Array) -> list[Any]:
    return Evaluator(pa.record_batch(columns)).evaluate(expr).to_pylist()


@settings(max_examples=60, deadline=None)
@given(st.lists(TIMES, min_size=1))
def test_parts_are_local(times: list[dt.datetime]) -> None:
    """Without a zone in UTC, with one in it."""
    naive = pa.array(times, pa.timestamp("us"))
    zoned = pa.array([t.replace(tzinfo=dt.UTC) for t in times], pa.timestamp("us", "Europe/Paris"))
    local = [t.replace(tzinfo=dt.UTC).astimezone(PARIS).replace(tzinfo=None) for t in times]
    for name in PARTS:
        assert values(call(name, T), t=naive) == [evaluate_row(call(name, T), {"t": t}) for t in times]
        assert values(call(name, T), t=zoned) == [evaluate_row(call(name, T), {"t": t}) for t in local]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))))
def test_parts_of_dates(days: list[dt.date]) -> None:
    array = pa.array(days, pa.date32())
    for name in PARTS:
        assert values(call(name, D), d=array) == [evaluate_row(call(name, D), {"d": d}) for d in days]
    assert values(call("cast", D, "string"), d=array) == [d.isoformat() for d in days]
    assert values(call("cast", call("cast", D, "timestamp"), "date"), d=array) == days


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units(unit: str) -> None:
    ticks = pa.array([0, -1, 1_700_000_000], pa.timestamp(unit))
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert values(call("cast", T, "bigint"), t=ticks) == [t // per_second for t in (0, -1, 1_700_000_000)]
    assert Evaluator(pa.record_batch({"t": ticks})).evaluate(T).type == pa.timestamp("us")


def test_times_beyond_microseconds_are_bad() -> None:
    evaluator = Evaluator(
        pa.record_batch({"t": pa.array([2**62, -(2**63) + 1, 5, None], pa.timestamp("ms"))})
    )
    assert evaluator.evaluate(call("cast", T, "double")).to_pylist() == [None, None, 0.005, None]
    assert evaluator.bad == 2


def test_literals_are_local_to_the_column() -> None:
    noon = dt.datetime(2024, 7, 1, 12)
    naive = pa.array([noon], pa.timestamp("us"))
    paris = pa.array([noon.replace(tzinfo=PARIS)], pa.timestamp("us", "Europe/Paris"))
    for column in (naive, paris):
        for literal in (noon, "2024-07-01 12:00:00", "2024-07-01T12:00"):
            assert values(call("=", T, literal), t=column) == [True]
            assert values(call("in", T, literal), t=column) == [True]
            assert values(call("=", literal, T), t=column) == [True]
        assert values(call(">", T, dt.date(2024, 7, 1)), t=column) == [True]
        assert values(call("=", call("cast", T, "date"), "2024-07-01"), t=column) == [True]
        assert values(call("cast", T, "string"), t=column) == ["2024-07-01 12:00:00"]
    instant = Literal(dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC), "timestamp")
    assert values(call("=", T, instant), t=paris) == [True]
    assert values(call("=", T, "2024-07-01 10:00:00Z"), t=paris) == [True]
    assert values(call("=", T, Literal("2024-07-01 12:00", "timestamp")), t=paris) == [True]


def test_text_is_local_time_of_the_stream() -> None:
    paris = pa.array([dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "Europe/Paris"))
    text = pa.array(["2024-07-01 12:00:00", "2024-07-01 10:00:00Z", "2024-07-01 13:30:00+03:30"])
    assert values(call("=", T, call("cast", S, "timestamp")), t=paris, s=text) == [True] * 3


def test_clocks_that_change() -> None:
    """A local time that comes twice is the first, one that is skipped lies as much after the gap."""
    text = pa.array(
        ["2024-10-27 02:30:00", "2024-03-31 02:30:00", "2024-03-31 03:30:00", "2060-07-01 12:00:00"]
    )
    stamps = pa.array([None] * 4, pa.timestamp("us", "Europe/Paris"))
    expected = [
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC),
        dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC),
        dt.datetime(2060, 7, 1, 10, tzinfo=dt.UTC),
    ]
    found = values(call("cast", S, "timestamp"), s=text, t=stamps)
    assert [t.astimezone(dt.UTC) for t in found] == expected


def test_zones_meet_as_instants() -> None:
    instant = dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)
    paris = pa.array([instant], pa.timestamp("us", "Europe/Paris"))
    tokyo = pa.array([instant], pa.timestamp("us", "Asia/Tokyo"))
    assert values(call("=", T, X), t=paris, x=tokyo) == [True]
    naive = pa.array([dt.datetime(2024, 7, 1, 12)], pa.timestamp("us"))
    assert values(call("=", T, X), t=paris, x=naive) == [True]
    assert values(call("coalesce", X, T), t=paris, x=tokyo) == [instant]
    assert values(call("greatest", T, X), t=paris, x=tokyo) == [instant]


def test_fixed_offsets_and_unknown_zones() -> None:
    instant = dt.datetime(2050, 7, 1, 10, tzinfo=dt.UTC)
    assert values(call("hour", T), t=pa.array([instant], pa.timestamp("us", "+02:30"))) == [12]
    nowhere = pa.array([instant], pa.timestamp("us", "Nowhere/Land"))
    with pytest.raises(QueryError, match=r"column 't' is timestamp\[us, tz=Nowhere/Land\].*time zone data"):
        values(call("hour", T), t=nowhere)


def test_numbers_are_seconds() -> None:
    zoned = pa.timestamp("us", "UTC")
    times = pa.array([dt.datetime(1969, 12, 31, 23, 59, 58, 500_000), None], zoned)
    assert values(call("cast", T, "bigint"), t=times) == [-2, None]
    assert values(call("cast", T, "double"), t=times) == [-1.5, None]
    evaluator = Evaluator(pa.record_batch({"x": [-1.5, 1e300, float("nan"), None], "t": pa.nulls(4, zoned)}))
    found = evaluator.evaluate(call("cast", X, "timestamp"))
    assert found.type == zoned
    assert found.to_pylist() == [dt.datetime(1969, 12, 31, 23, 59, 58, 500_000, dt.UTC), None, None, None]
    assert evaluator.bad == 2
    evaluator = Evaluator(pa.record_batch({"x": [60, 2**62, None]}))
    assert evaluator.evaluate(call("cast", X, "timestamp")).to_pylist() == [
        dt.datetime(1970, 1, 1, 0, 1),
        None,
        None,
    ]
    assert evaluator.bad == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(TIMES))
def test_timestamps_to_text_and_back(times: list[dt.datetime]) -> None:
    array = pa.array(times, pa.timestamp("us"))
    text = values(call("cast", T, "string"), t=array)
    assert text == [evaluate_row(call("cast", T, "string"), {"t": t}) for t in times]
    assert values(call("cast", S, "timestamp"), s=pa.array(text, pa.string())) == times


NUMBER = st.integers(0, 70).map(str) | st.integers(0, 70).map("{:02}".format)
ZONES = st.sampled_from(
    ["", "Z", " Z", "UTC", "+01:00", "-3:30", "+18:00", "+19:00", "+1:75", "+02", " +0230"]
)
WRITTEN = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["2024", "1900", "0001", "9999", "203"]),
    *(NUMBER, NUMBER, st.sampled_from([" ", "T", "  ", "x"]), NUMBER, NUMBER, NUMBER),
    st.sampled_from(["", ".", ".5", ".123456789", ".1x"]),
    ZONES,
)
SHORT = [
    "2024",
    "2024-1",
    "2024-1-5",
    "2024-01-05 ",
    "2024-01-05 3",
    "2024-01-05 3:4",
    "2024-01-05T",
    "",
    " 2024 ",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(WRITTEN))
@example(SHORT)
@example(["2023-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "2024-04-31", "2024-00-01", "2024-01-00"])
@example(["2024-01-05 24:00:00", "2024-01-05 03:60:00", "2024-01-05 03:04+01:00", "2024-01-05Z", "20240105"])
def test_text_to_timestamps(data: list[str]) -> None:
    def read(text: str) -> dt.datetime | None:
        try:
            found = text_to_timestamp(text.strip())
            return found.astimezone(dt.UTC).replace(tzinfo=None) if found.tzinfo else found
        except BadValue:
            return None

    assert values(call("cast", S, "timestamp"), s=pa.array(data, pa.string())) == [read(t) for t in data]


@settings(max_examples=200, deadline=None)
@given(st.lists(WRITTEN))
@example(SHORT)
def test_text_to_dates(data: list[str]) -> None:
    def read(text: str) -> dt.date | None:
        try:
            return text_to_date(text.strip())
        except BadValue:
            return None

    assert values(call("cast", S, "date"), s=pa.array(data, pa.string())) == [read(t) for t in data]


def test_years_beyond_four_digits() -> None:
    text = pa.array(["12024-01-05 00:00:00", "+2024-01-05"])
    found = Evaluator(pa.record_batch({"s": text})).evaluate(
        call("cast", call("cast", S, "timestamp"), "string")
    )
    assert found.to_pylist() == ["+12024-01-05 00:00:00", "2024-01-05 00:00:00"]
