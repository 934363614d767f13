"""Parts of dates and timestamps, and time zones: local time is that of the type's zone, else UTC."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Result, from_values, valid_of, values_of
from weft.expr.node import Node
from weft.expr.types import is_utc


def part(function: Callable[[pa.Array], pa.Array]) -> Callable[[Node, pa.Array], Result]:
    """The kernel that takes a part of local time."""

    def kernel(node: Node, arg: pa.Array) -> Result:
        return pc.cast(function(local(arg)), pa.int64())

    return kernel


def day_of_week(local: pa.Array) -> pa.Array:
    """1 for Sunday to 7 for Saturday."""
    return pc.day_of_week(local, count_from_zero=False, week_start=7)


def local(arg: pa.Array) -> pa.Array:
    """Timestamps as their local time, without a zone; anything else as it is."""
    if not pa.types.is_timestamp(arg.type) or arg.type.tz is None:
        return arg
    return arg.view(pa.timestamp("us")) if is_utc(arg.type.tz) else pc.local_timestamp(arg)


def in_zone(arg: pa.Array, tz: str | None) -> pa.Array:
    """Timestamps as timestamps of another zone: local time stays where there was no zone, else the instant.

    A local time that comes twice is the first; one that a change of clocks skips is as much later.
    """
    if tz is None:
        return local(arg)
    if arg.type.tz is not None or is_utc(tz):
        return arg.view(pa.timestamp("us", tz))
    instant = pc.assume_timezone(arg, tz, ambiguous="earliest", nonexistent="latest")
    skipped = pc.not_equal(pc.local_timestamp(instant), arg)
    if not skipped.true_count:
        return instant
    before = from_values(values_of(instant) - 1, instant.type, valid_of(instant))
    offset = values_of(pc.local_timestamp(before)) - values_of(before)
    moved = from_values(values_of(arg) - offset, instant.type, valid_of(arg))
    return pc.if_else(skipped, moved, instant)
