"""Text to numbers, booleans, timestamps and dates, by the grammar of Spark's ANSI casts.

Text that does not follow the grammar is bad. Arrow's own parsers are tried first where all bytes
are of an alphabet on which both grammars agree; they are several times faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import (
    Result,
    as_mask,
    from_mask,
    from_values,
    good_or_null,
    only_where,
    valid_of,
    values_of,
)
from weft.expr.kernels.calendar import in_zone

if TYPE_CHECKING:
    from weft.expr.node import Node

_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
_INTEGER = r"^(?P<sign>[+-]?)0*(?P<digits>[0-9]+)$"
_DOUBLE = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?$"
_NAN_OR_INFINITY = r"^(?:[nN][aA][nN]|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)$"
_DAY = r"^(?P<minus>[+-]?)(?P<year>[0-9]{4,%d})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})%s)?)?$"
_DATE = _DAY % (7, r"(?:[ T](?s:.*))?")
_ZONE = r"(?: ?(?P<zone>Z|UTC|GMT|UT|[+-](?:[0-9]{1,2}(?::[0-9]{1,2})?|[0-9]{4})))?"
_OFFSET = r"^[+-](?:(?P<h>[0-9]{2})(?P<m>[0-9]{2})|(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2}))?)$"
_CLOCK = (
    r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})"
    rf"(?::(?P<second>[0-9]{{1,2}})(?P<fraction>\.[0-9]*)?{_ZONE})?)?)?"
)
_TIMESTAMP = _DAY % (6, _CLOCK)
_MICROS_PER_DAY = 86_400_000_000

Ints = npt.NDArray[np.int64]


def to_boolean(node: Node, arg: pa.Array) -> Result:
    """t, true, y, yes, 1 and their opposites, in any case."""
    text = pc.ascii_lower(_trimmed(arg))
    yes = pc.is_in(text, value_set=pa.array(["t", "true", "y", "yes", "1"]))
    no = pc.is_in(text, value_set=pa.array(["f", "false", "n", "no", "0"]))
    bad = pc.and_(pc.is_valid(arg), pc.invert(pc.or_(yes, no)))
    return good_or_null(_like(yes, arg), bad)


def to_bigint(node: Node, arg: pa.Array) -> Result:
    """An optional sign and digits."""
    if _only(arg, b"-0123456789"):
        try:
            return pc.cast(arg, pa.int64())
        except pa.ArrowInvalid:
            pass
    fields = pc.extract_regex(_trimmed(arg), _INTEGER)
    digits = pc.struct_field(fields, "digits")
    matched = pc.and_(pc.is_valid(fields), pc.less_equal(pc.utf8_length(digits), 19))
    size = values_of(pc.cast(pc.if_else(pc.fill_null(matched, False), digits, "0"), pa.uint64()))
    negative = as_mask(pc.equal(pc.struct_field(fields, "sign"), "-"))
    fits = size <= np.where(negative, np.uint64(2**63), np.uint64(2**63 - 1))
    values = np.where(negative, np.uint64(0) - size, size).view(np.int64)
    good = pc.and_(pc.fill_null(matched, False), from_mask(fits))
    return _checked(from_values(values, pa.int64(), valid_of(arg)), arg, good)


def to_double(node: Node, arg: pa.Array) -> Result:
    """Read a double as Java does, hexadecimal apart; nan, inf and infinity in any case."""
    if _only(arg, b"-.0123456789eE"):
        try:
            return pc.cast(arg, pa.float64())
        except pa.ArrowInvalid:
            pass
    text = _trimmed(arg)
    special = pc.match_substring_regex(text, _NAN_OR_INFINITY)
    good = pc.fill_null(pc.or_(special, pc.match_substring_regex(text, _DOUBLE)), False)
    plain = pc.if_else(pc.fill_null(special, False), text, pc.utf8_rtrim(text, "dDfF"))
    return _checked(pc.cast(pc.if_else(good, plain, "0"), pa.float64()), arg, good)


def to_date(node: Node, arg: pa.Array) -> Result:
    """``yyyy[-m[-d]]``; what follows a blank or a T is left out."""
    if _only(arg, b"-0123456789"):
        try:
            return pc.cast(arg, pa.date32())
        except pa.ArrowInvalid:
            pass
    days, good = _days(pc.extract_regex(_trimmed(arg), _DATE))
    good &= (days >= -(2**31)) & (days < 2**31)
    return _checked(from_values(days.astype(np.int32), pa.date32(), valid_of(arg)), arg, from_mask(good))


def to_timestamp(node: Node, arg: pa.Array) -> Result:
    """``yyyy[-m[-d[ h[:m[:s[.fraction][zone]]]]]]``; without a zone it is local time.

    Where local times are wanted, those of texts with a zone are local to the node's ``param``, else UTC.
    """
    if _only(arg, b"-0123456789 T:."):
        try:
            return in_zone(pc.cast(arg, pa.timestamp("us")), node.tz)
        except pa.ArrowInvalid:
            pass
    fields = pc.extract_regex(_trimmed(arg), _TIMESTAMP)
    days, good = _days(fields)
    hour, minute, second = (_number(fields, name, 0) for name in ("hour", "minute", "second"))
    good &= (hour < 24) & (minute < 60) & (second < 60)
    good &= np.abs(days) < 2**63 // _MICROS_PER_DAY - 1
    fraction = pc.utf8_slice_codeunits(pc.struct_field(fields, "fraction"), 1, 7)
    micros = _integers(pc.utf8_rpad(pc.fill_null(fraction, ""), 6, "0"), 0)
    micros += ((hour * 60 + minute) * 60 + second) * 1_000_000
    micros += np.where(good, days, 0) * _MICROS_PER_DAY
    offset, zoned, right = _offsets(pc.struct_field(fields, "zone"))
    local = from_values(micros, pa.timestamp("us"), valid_of(arg))
    result = in_zone(local, node.tz)
    if zoned.any():
        instants = from_values(micros - offset, pa.timestamp("us", node.tz or node.param), valid_of(arg))
        result = pc.if_else(from_mask(zoned), in_zone(instants, node.tz), result)
    return _checked(result, arg, from_mask(good & right))


def _days(fields: pa.StructArray) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Days since 1970-01-01 of the fields year, month, day, and where they are a date.

    Howard Hinnant's days_from_civil: years start in March, so that the leap day ends them.
    """
    year, month, day = _number(fields, "year", 1970), _number(fields, "month", 1), _number(fields, "day", 1)
    minus = as_mask(pc.equal(pc.struct_field(fields, "minus"), "-"))
    year = np.where(minus, -year, year)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    longest = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    good = (month >= 1) & (month <= 12) & (day >= 1)
    good &= day <= longest[np.where(good, month, 1)] + (leap & (month == 2))
    good &= as_mask(pc.is_valid(fields))
    year = year - (month <= 2)
    era, of_era = year // 400, year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468, good


def _offsets(zone: pa.Array) -> tuple[Ints, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Microseconds east of UTC, whether there is a zone, and whether it is one (at most 18 hours)."""
    zoned = pc.fill_null(pc.not_equal(zone, ""), False)
    parts = pc.extract_regex(zone, _OFFSET)
    hour = _number(parts, "h", 0) + _number(parts, "hour", 0)
    minute = _number(parts, "m", 0) + _number(parts, "minute", 0)
    minus = pc.fill_null(pc.starts_with(zone, "-"), False)
    size = (hour * 60 + minute) * 60_000_000
    right = (minute < 60) & (size <= 18 * 3_600_000_000)
    return np.where(as_mask(minus), -size, size), as_mask(zoned), right


def _number(fields: pa.StructArray, name: str, missing: int) -> Ints:
    return _integers(pc.struct_field(fields, name), missing)


def _integers(text: pa.Array, missing: int) -> Ints:
    given = pc.fill_null(pc.not_equal(text, ""), False)
    return values_of(pc.cast(pc.if_else(given, text, str(missing)), pa.int64())).astype(np.int64)


def _trimmed(arg: pa.Array) -> pa.Array:
    return pc.utf8_trim(arg, _BLANKS)


def _only(arg: pa.Array, alphabet: bytes) -> bool:
    """Return whether all bytes are of the alphabet: a hint, since bytes outside the slice count, too."""
    data = arg.buffers()[2]
    if data is None or not len(data):
        return False
    allowed = np.zeros(256, np.bool_)
    allowed[np.frombuffer(alphabet, np.uint8)] = True
    return bool(allowed[np.frombuffer(data, np.uint8)].all())


def _like(result: pa.Array, arg: pa.Array) -> pa.Array:
    return only_where(result, pc.is_valid(arg)) if arg.null_count else result


def _checked(result: pa.Array, arg: pa.Array, good: Any) -> Result:
    return good_or_null(_like(result, arg), pc.and_(pc.is_valid(arg), pc.invert(good)))
