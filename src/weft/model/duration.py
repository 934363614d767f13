"""Durations: the one place where text such as ``'12 min'`` becomes integer microseconds, and back."""

from __future__ import annotations

import datetime
import difflib
import re
from fractions import Fraction

from weft.errors import QueryError

_MICROSECOND = datetime.timedelta(microseconds=1)

# Microseconds in a unit and its spellings; format_duration writes the first for one, the second for more.
_UNITS: tuple[tuple[Fraction, tuple[str, ...]], ...] = (
    (Fraction(7 * 86_400_000_000), ("week", "weeks", "w")),
    (Fraction(86_400_000_000), ("day", "days", "d")),
    (Fraction(3_600_000_000), ("h", "h", "hour", "hours", "hr", "hrs")),
    (Fraction(60_000_000), ("min", "min", "minute", "minutes", "mins", "m")),
    (Fraction(1_000_000), ("s", "s", "second", "seconds", "sec", "secs")),
    (Fraction(1_000), ("ms", "ms", "millisecond", "milliseconds", "millis", "msec", "msecs")),
    (Fraction(1), ("us", "us", "microsecond", "microseconds", "micros", "usec", "usecs", "µs", "μs")),
    (Fraction(1, 1_000), ("ns", "ns", "nanosecond", "nanoseconds", "nanos")),
)
_MICROSECONDS = {spelling: size for size, spellings in _UNITS for spelling in spellings}
_VARIABLE = {
    spelling: unit
    for unit, spellings in (
        ("month", ("month", "months", "mon", "mons")),
        ("quarter", ("quarter", "quarters")),
        ("year", ("year", "years", "yr", "yrs", "y")),
    )
    for spelling in spellings
}

_INTERVAL = re.compile(r"\s*interval\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})\s*(?P<unit>[^\W\d_]*)"
)
_EXAMPLES = "write for example '90 s', '12 min' or '1 hour 30 minutes'"


def parse_duration(
    value: str | datetime.timedelta, setting: str = "duration", *, negative: bool = False
) -> int:
    """Return a duration in microseconds; ``setting`` names it in errors, ``negative`` lets it be below zero.

    >>> parse_duration("1 hour 30 minutes")
    5400000000
    >>> parse_duration("1.5 s"), parse_duration("INTERVAL '5' MINUTE"), parse_duration("10us")
    (1500000, 300000000, 10)
    """
    if isinstance(value, datetime.timedelta):
        total = value // _MICROSECOND
    elif isinstance(value, str):
        total = _parse_text(value, setting)
    else:
        raise QueryError(f"{setting}: {value!r} has no unit", hint=_EXAMPLES)
    if total < 0 and not negative:
        raise QueryError(f"{setting}: a negative duration, {str(value)!r}", hint="leave out the minus sign")
    return total


def parse_optional(value: str | datetime.timedelta | None, setting: str) -> int | None:
    """Return a duration in microseconds; None where none is given.

    >>> parse_optional("2 s", "lateness"), parse_optional(None, "lateness")
    (2000000, None)
    """
    return None if value is None else parse_duration(value, setting)


def parse_trigger(trigger: str) -> int | None:
    """Microseconds between two batches; None for "available now", which takes what is there and ends.

    >>> parse_trigger("5 s"), parse_trigger("available-now")
    (5000000, None)
    """
    if re.sub(r"[^a-z]", "", trigger.lower()) == "availablenow":
        return None
    return parse_duration(trigger, "trigger")


def format_duration(microseconds: int) -> str:
    """The shortest exact text that parse_duration reads back as the same number.

    >>> format_duration(5_400_000_000), format_duration(720_000_000), format_duration(1_500)
    ('1 h 30 min', '12 min', '1 ms 500 us')
    """
    if microseconds == 0:
        return "0 s"
    sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    terms = []
    for size, (one, many, *_) in _UNITS[:-1]:
        count, left = divmod(rest, int(size))
        # Weeks only where they come out even: '10 days' reads better than '1 week 3 days'.
        if count and not (one == "week" and left):
            terms.append(f"{sign}{count} {one if count == 1 else many}")
            rest = left
    return " ".join(terms)


def format_length(length: int, rows: bool) -> str:
    """A window's range or slide, in time or in rows.

    >>> format_length(720_000_000, rows=False), format_length(1000, rows=True), format_length(1, rows=True)
    ('12 min', '1,000 rows', '1 row')
    """
    return f"{length:,} row{'s' * (length != 1)}" if rows else format_duration(length)


def _parse_text(text: str, setting: str) -> int:
    quoted = _quote(text)
    interval = _INTERVAL.fullmatch(text)
    body = (interval[1] if interval else text).replace("'", " ").strip()
    if not body:
        raise QueryError(f"{setting}: an empty duration", hint=_EXAMPLES)
    total, at, signs, units = Fraction(0), 0, [], []
    while at < len(body):
        term = _TERM.match(body, at)
        if term is None:
            raise QueryError(f"{setting}: cannot read {quoted} as a duration", hint=_EXAMPLES)
        unit = _unit(term["unit"], quoted, setting)
        if unit in units:
            raise QueryError(f"{setting}: {quoted} names a unit twice", hint="add the numbers up")
        count = Fraction(term["number"]) * unit
        total += -count if term["sign"] == "-" else count
        units.append(unit)
        signs.append(term["sign"])
        at = term.end()
    if "-" in signs and len(set(signs)) > 1:
        # SQL reads '-1 hour 30 minutes' as -30 minutes, most people as -90.
        raise QueryError(
            f"{setting}: {quoted} can be read in two ways", hint="put the sign before every number"
        )
    if total.denominator != 1:
        raise QueryError(f"{setting}: {quoted} is finer than a microsecond", hint="use whole microseconds")
    return int(total)


def _unit(unit: str, quoted: str, setting: str) -> Fraction:
    name = unit.lower()
    if name in _MICROSECONDS:
        return _MICROSECONDS[name]
    if name in _VARIABLE:
        raise QueryError(
            f"{setting}: {quoted} uses {_VARIABLE[name]}s, which vary in length",
            hint="use days, as in '30 days'",
        )
    if not name:
        raise QueryError(f"{setting}: {quoted} has a number without a unit", hint=_EXAMPLES)
    close = difflib.get_close_matches(name, _MICROSECONDS, n=1)
    raise QueryError(
        f"{setting}: unknown unit {unit!r} in {quoted}",
        hint=f"did you mean {close[0]!r}?" if close else _EXAMPLES,
    )


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
