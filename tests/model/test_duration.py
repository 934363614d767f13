"""Durations: every spelling, exactness, and errors that say what to write instead."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import QueryError
from weft.model.duration import format_duration, parse_duration

SECOND, MINUTE, HOUR, DAY, WEEK = 10**6, 60 * 10**6, 3600 * 10**6, 86_400 * 10**6, 7 * 86_400 * 10**6

READ = {
    "10 us": 10,
    "10us": 10,
    "3 µs": 3,
    "3 μs": 3,
    "1 microsecond": 1,
    "7 microseconds": 7,
    "1000 ns": 1,
    "250 ms": 250_000,
    "1 millisecond": 1_000,
    "90s": 90 * SECOND,
    "1.5 s": 1_500_000,
    ".5 sec": 500_000,
    "0.000001 seconds": 1,
    "0 s": 0,
    "12 min": 12 * MINUTE,
    "5 minutes": 5 * MINUTE,
    "5 MINUTES": 5 * MINUTE,
    "1m": MINUTE,
    "1 hour 30 minutes": 90 * MINUTE,
    "1h30m": 90 * MINUTE,
    "30 minutes 1 hour": 90 * MINUTE,
    "2 hrs": 2 * HOUR,
    "1 day": DAY,
    "3 days": 3 * DAY,
    "2 weeks": 2 * WEEK,
    "1 week 1 us": WEEK + 1,
    "  5   min  ": 5 * MINUTE,
    "INTERVAL 5 MINUTES": 5 * MINUTE,
    "INTERVAL '5' MINUTE": 5 * MINUTE,
    "interval '5 minutes'": 5 * MINUTE,
    "INTERVAL '1' HOUR '30' MINUTE": 90 * MINUTE,
    "+5 min": 5 * MINUTE,
}


@pytest.mark.parametrize("text", READ)
def test_reads_every_spelling(text: str) -> None:
    assert parse_duration(text) == READ[text]


@pytest.mark.parametrize(
    ("delta", "microseconds"),
    [(datetime.timedelta(minutes=12), 12 * MINUTE), (datetime.timedelta(days=1, microseconds=1), DAY + 1)],
)
def test_reads_timedelta(delta: datetime.timedelta, microseconds: int) -> None:
    assert parse_duration(delta) == microseconds


def test_negative_only_where_asked() -> None:
    assert parse_duration("-5 min", "offset", negative=True) == -5 * MINUTE
    assert parse_duration(datetime.timedelta(seconds=-1), negative=True) == -SECOND
    assert parse_duration("INTERVAL '-5' MINUTE", negative=True) == -5 * MINUTE
    for value in ("-5 min", datetime.timedelta(seconds=-1)):
        with pytest.raises(QueryError, match="slide: a negative duration"):
            parse_duration(value, "slide")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "an empty duration", "'90 s'"),
        ("INTERVAL", "an empty duration", "'90 s'"),
        ("5", "a number without a unit", "'90 s'"),
        ("minutes", "cannot read 'minutes'", "'90 s'"),
        ("five minutes", "cannot read", "'90 s'"),
        ("5 mintes", "unknown unit 'mintes'", "did you mean 'minutes'?"),
        ("5 fortnights", "unknown unit 'fortnights'", "'90 s'"),
        ("1 month", "uses months, which vary in length", "'30 days'"),
        ("2 years", "uses years, which vary in length", "'30 days'"),
        ("1 quarter", "uses quarters, which vary in length", "'30 days'"),
        ("0.5 us", "finer than a microsecond", "whole microseconds"),
        ("1 ns", "finer than a microsecond", "whole microseconds"),
        ("-1 hour 30 min", "read in two ways", "sign before every number"),
        ("1 s 1 s", "names a unit twice", "add the numbers"),
        ("1e3 s", "unknown unit 'e'", "'90 s'"),
        ("5, min", "without a unit", "'90 s'"),
        ("INTERVAL '1:30' HOUR TO MINUTE", "without a unit", "'90 s'"),
        ("٣ s", "cannot read", "'90 s'"),
        ("9" * 5000 + " s", "without a unit", "'90 s'"),
    ],
)
def test_errors_say_what_and_what_to_do(text: str, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_duration(text, "range", negative=True)
    assert caught.value.message.startswith("range: ")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert len(str(caught.value)) < 250


def test_a_number_is_no_duration() -> None:
    with pytest.raises(QueryError, match="range: 5 has no unit"):
        parse_duration(5, "range")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 us"),
        (1_500, "1 ms 500 us"),
        (90 * SECOND, "1 min 30 s"),
        (12 * MINUTE, "12 min"),
        (90 * MINUTE, "1 h 30 min"),
        (DAY, "1 day"),
        (10 * DAY, "10 days"),
        (WEEK, "1 week"),
        (2 * WEEK, "2 weeks"),
        (-90 * MINUTE, "-1 h -30 min"),
    ],
)
def test_formats(microseconds: int, text: str) -> None:
    assert format_duration(microseconds) == text


@settings(deadline=None)
@given(st.integers(-(10**17), 10**17))
def test_what_is_written_is_read_back(microseconds: int) -> None:
    assert parse_duration(format_duration(microseconds), negative=True) == microseconds


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_an_error(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except QueryError as error:
        assert str(error)
