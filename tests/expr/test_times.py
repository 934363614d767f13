"""Timestamps and dates: parts, casts, literals, time zones."""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.expr_cases import call
from weft.errors import JobError
from weft.expr.evaluate import Evaluator
from weft.expr.types import read_zone
from weft.model.expression import Column, Expr, Literal
from weft.testing.brute_force.casts import BadValue, text_to_date, text_to_timestamp
from weft.testing.brute_force.expressions import evaluate_row

T, S, D, X = map(Column, "tsdx")
PARIS = ZoneInfo("Europe/Paris")
PARTS = ("year", "quarter", "month", "day", "dayofweek", "dayofyear", "hour", "minute", "second")
TIMES = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))


def values(expr: Expr, zone: str = "UTC", **columns: pa.Array) -> list[Any]:
    return Evaluator(pa.record_batch(columns), zone=zone).evaluate(expr).to_pylist()


ZONES_OF_RUNS = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # clocks skipped midnight
    "Australia/Lord_Howe",  # half an hour in summer, in the south
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Pacific/Apia",  # skipped a day
)
CHANGES = [
    dt.datetime(2024, 3, 31, 1),
    dt.datetime(2024, 10, 27, 1),
    dt.datetime(2024, 3, 10, 7),
    dt.datetime(2024, 11, 3, 6),
    dt.datetime(2018, 11, 4, 3),
    dt.datetime(2018, 2, 18, 2),
    dt.datetime(2024, 4, 6, 15),
    dt.datetime(2024, 10, 5, 15, 30),
    dt.datetime(2011, 12, 30, 10),
    dt.datetime(2060, 10, 31, 1),
]
NEAR_CHANGES = st.builds(
    lambda at, minutes: at + dt.timedelta(minutes=minutes, microseconds=minutes % 7),
    st.sampled_from(CHANGES),
    st.integers(-200, 200),
)
INSTANTS = st.lists(st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1)) | NEAR_CHANGES, min_size=1)


@settings(max_examples=60, deadline=None)
@given(st.lists(TIMES, min_size=1))
def test_parts_are_local(times: list[dt.datetime]) -> None:
    """Without a zone as they stand, with one, whichever it is, in that of the run."""
    naive = pa.array(times, pa.timestamp("us"))
    zoned = pa.array([t.replace(tzinfo=dt.UTC) for t in times], pa.timestamp("us", "Asia/Tokyo"))
    local = [t.replace(tzinfo=dt.UTC).astimezone(PARIS).replace(tzinfo=None) for t in times]
    for name in PARTS:
        as_they_stand = [evaluate_row(call(name, T), {"t": t}) for t in times]
        assert values(call(name, T), t=naive) == as_they_stand
        assert values(call(name, T), "Europe/Paris", t=naive) == as_they_stand
        assert values(call(name, T), t=zoned) == as_they_stand
        assert values(call(name, T), "Europe/Paris", t=zoned) == [
            evaluate_row(call(name, T), {"t": t}) for t in local
        ]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ZONES_OF_RUNS), st.sampled_from(ZONES_OF_RUNS), INSTANTS)
def test_whatever_depends_on_a_zone_is_that_of_the_run(
    zone: str, typed: str, times: list[dt.datetime]
) -> None:
    """However a column is typed, and where clocks change; the oracle asks zoneinfo row by row."""
    rows = [{"t": t.replace(tzinfo=dt.UTC), "x": t, "d": t.date(), "s": t.isoformat(" ")} for t in times]
    types = (
        ("t", pa.timestamp("us", typed)),
        ("x", pa.timestamp("us")),
        ("d", pa.date32()),
        ("s", pa.string()),
    )
    batch = pa.record_batch({name: pa.array([row[name] for row in rows], dtype) for name, dtype in types})
    some = times[0]
    expressions = [call(name, column) for name in PARTS for column in (T, X, D)]
    expressions += [call("cast", T, kind) for kind in ("string", "date", "bigint")]
    expressions += [call("cast", X, kind) for kind in ("string", "date", "bigint", "double")]
    expressions += [call("cast", call("cast", column, "timestamp"), "bigint") for column in (S, D, X)]
    expressions += [
        call("cast", call("cast", S, "timestamp"), "string"),
        call("hour", call("cast", S, "timestamp")),
    ]
    expressions += [call(name, column, some) for name in ("=", "<") for column in (T, X)]
    expressions += [call("<", T, some.isoformat(" ")), call("<", X, some.isoformat(" "))]
    expressions += [call("=", T, X), call("<", D, T), call("<", T, some.date()), call("in", T, some)]
    expressions += [call("=", T, some.replace(tzinfo=dt.UTC)), call("hour", call("greatest", T, some))]
    evaluator = Evaluator(batch, zone=zone)
    for expr in expressions:
        truth = [evaluate_row(expr, row, zone=zone) for row in rows]
        assert evaluator.evaluate(expr).to_pylist() == truth, f"{expr} in {zone}, typed {typed}"


def test_an_hour_that_comes_twice_has_two_instants() -> None:
    """02:30 in Berlin on 2024-10-27, of summer and of winter: conditions on them are not one."""
    first, second = (dt.datetime(2024, 10, 27, hour, 30, tzinfo=dt.UTC) for hour in (0, 1))
    times = pa.array([first, second], pa.timestamp("us", "UTC"))
    evaluator = Evaluator(pa.record_batch({"t": times}), zone="Europe/Berlin")
    assert evaluator.evaluate(call("hour", T)).to_pylist() == [2, 2]
    for name in ("in", "="):
        assert evaluator.evaluate(call(name, T, first)).to_pylist() == [True, False]
        assert evaluator.evaluate(call(name, T, second)).to_pylist() == [False, True]


def test_local_times_of_a_stream_without_instants() -> None:
    """Numbers, and text that names a zone, are instants that become local times of the run's zone."""
    columns = {"x": pa.array([0]), "s": pa.array(["2024-07-01 10:00:00Z"])}
    assert values(call("hour", call("cast", X, "timestamp")), "Asia/Tokyo", **columns) == [9]
    assert values(call("cast", call("cast", S, "timestamp"), "string"), "Europe/Berlin", **columns) == [
        "2024-07-01 12:00:00"
    ]
    assert values(call("cast", call("cast", X, "timestamp"), "bigint"), "Asia/Tokyo", **columns) == [0]


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


def in_paris(expr: Expr, **columns: pa.Array) -> list[Any]:
    return values(expr, "Europe/Paris", **columns)


def test_literals_are_local_to_the_run() -> None:
    noon = dt.datetime(2024, 7, 1, 12)
    naive = pa.array([noon], pa.timestamp("us"))
    paris = pa.array([noon.replace(tzinfo=PARIS)], pa.timestamp("us", "Europe/Paris"))
    for column in (naive, paris):
        for literal in (noon, "2024-07-01 12:00:00", "2024-07-01T12:00"):
            assert in_paris(call("=", T, literal), t=column) == [True]
            assert in_paris(call("in", T, literal), t=column) == [True]
            assert in_paris(call("=", literal, T), t=column) == [True]
        assert in_paris(call(">", T, dt.date(2024, 7, 1)), t=column) == [True]
        assert in_paris(call("=", call("cast", T, "date"), "2024-07-01"), t=column) == [True]
        assert in_paris(call("cast", T, "string"), t=column) == ["2024-07-01 12:00:00"]
    instant = Literal(dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC), "timestamp")
    assert in_paris(call("=", T, instant), t=paris) == [True]
    assert in_paris(call("=", T, "2024-07-01 10:00:00Z"), t=paris) == [True]
    assert in_paris(call("=", T, Literal("2024-07-01 12:00", "timestamp")), t=paris) == [True]


def test_text_is_local_time_of_the_stream() -> None:
    paris = pa.array([dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)] * 3, pa.timestamp("us", "Europe/Paris"))
    text = pa.array(["2024-07-01 12:00:00", "2024-07-01 10:00:00Z", "2024-07-01 13:30:00+03:30"])
    assert in_paris(call("=", T, call("cast", S, "timestamp")), t=paris, s=text) == [True] * 3


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
    found = in_paris(call("cast", S, "timestamp"), s=text, t=stamps)
    assert [t.astimezone(dt.UTC) for t in found] == expected


def test_zones_meet_as_instants() -> None:
    instant = dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)
    paris = pa.array([instant], pa.timestamp("us", "Europe/Paris"))
    tokyo = pa.array([instant], pa.timestamp("us", "Asia/Tokyo"))
    assert in_paris(call("=", T, X), t=paris, x=tokyo) == [True]
    naive = pa.array([dt.datetime(2024, 7, 1, 12)], pa.timestamp("us"))
    assert in_paris(call("=", T, X), t=paris, x=naive) == [True]
    assert in_paris(call("coalesce", X, T), t=paris, x=tokyo) == [instant]
    assert in_paris(call("greatest", T, X), t=paris, x=tokyo) == [instant]


def test_fixed_offsets_and_unknown_zones() -> None:
    instant = dt.datetime(2050, 7, 1, 10, tzinfo=dt.UTC)
    nowhere = pa.array([instant], pa.timestamp("us", "Nowhere/Land"))
    assert values(call("hour", T), "+02:30", t=nowhere) == [12]
    assert values(call("cast", "2050-07-01 12:30:00", "timestamp"), "+02:30", t=nowhere) == [instant]
    for zone, name in (("Z", "UTC"), ("Etc/GMT", "UTC"), ("+0530", "+05:30"), ("UTC-3", "-03:00")):
        assert read_zone(zone) == name
    with pytest.raises(JobError, match=r"unknown time zone 'Europe/Berln'; did you mean 'Europe/Berlin'\?"):
        read_zone("Europe/Berln")
    with pytest.raises(JobError, match=r"unknown time zone '\+25:00'; write it as in 'Europe/Berlin' or"):
        read_zone("+25:00")


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
