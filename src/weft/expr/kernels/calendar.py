"""Parts of dates and timestamps: local time is that of the type's zone, which is the run's."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Result, as_mask, from_values, valid_of, values_of
from weft.expr.types import is_utc, zone_rules

if TYPE_CHECKING:
    from weft.expr.node import Node

_EPOCH = datetime.datetime(1970, 1, 1)
_QUARTER = 900_000_000
_AFTER_2037 = 2_145_916_800_000_000
_YEAR_9999 = 253_370_764_800_000_000


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
    if is_utc(arg.type.tz):
        return arg.view(pa.timestamp("us"))
    later, offset = _later_offsets(arg, zone_rules(arg.type.tz), is_local=False)
    if not later.any():
        return pc.local_timestamp(arg)
    ticks = np.where(later, values_of(arg) + offset, values_of(pc.local_timestamp(arg)))
    return from_values(ticks, pa.timestamp("us"), valid_of(arg))


def in_zone(arg: pa.Array, tz: str | None) -> pa.Array:
    """Timestamps in another zone: local time stays where there was no zone, else the instant does.

    A local time that comes twice is the first; one that a change of clocks skips is as much later.
    """
    if tz is None:
        return local(arg)
    if arg.type.tz is not None or is_utc(tz):
        return arg.view(pa.timestamp("us", tz))
    instant = pc.assume_timezone(arg, tz, ambiguous="earliest", nonexistent="latest")
    ticks, instants = values_of(arg), values_of(instant)
    skipped = values_of(pc.local_timestamp(instant)) != ticks
    if skipped.any():
        before = from_values(instants - 1, instant.type, None)
        instants = np.where(
            skipped, ticks - values_of(pc.local_timestamp(before)) + values_of(before), instants
        )
    later, offset = _later_offsets(arg, zone_rules(tz), is_local=True)
    return from_values(np.where(later, ticks - offset, instants), instant.type, valid_of(arg))


def _later_offsets(
    arg: pa.Array, zone: ZoneInfo | None, is_local: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The rows after 2037, for which Arrow knows no summer time, and microseconds east of UTC in them.

    Clocks change at quarters of an hour, so one look-up per quarter is enough.
    """
    ticks = values_of(arg)
    later = ticks >= _AFTER_2037 if zone else np.zeros(len(ticks), np.bool_)
    if arg.null_count:
        later &= as_mask(pc.is_valid(arg))
    offset = np.zeros(len(ticks), np.int64)
    if zone and later.any():
        quarters, places = np.unique(np.minimum(ticks[later], _YEAR_9999) // _QUARTER, return_inverse=True)
        offset[later] = np.array([_offset(int(q), zone, is_local) for q in quarters], np.int64)[places]
    return later, offset


def _offset(quarter: int, zone: ZoneInfo, is_local: bool) -> int:
    moment = _EPOCH + quarter * datetime.timedelta(minutes=15)
    moment = moment.replace(tzinfo=zone) if is_local else moment.replace(tzinfo=datetime.UTC).astimezone(zone)
    return (moment.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
