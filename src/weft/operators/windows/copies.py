"""Copies of what has no keys: which bucket has a grouping whole, when there come to be other buckets.

Of a grouping without keys, every bucket that answers a query of it has a copy of its own, from when the first
of these queries came.
"""

from __future__ import annotations

from weft.errors import JobError
from weft.model.instants import BEGINNING_OF_TIME
from weft.operators.windows.program import Axis, WindowProgram


def copies_of(program: WindowProgram, before: int) -> dict[int, dict[int, int]]:
    """Return by grouping without keys the buckets that have it, and the one of ``before`` buckets that each
    takes it over from.

    Where several become one, it must be one that has everything; JobError where none does.
    """
    olds: dict[int, dict[int, dict[int, bool]]] = {
        number: {} for number, grouping in enumerate(program.groupings) if not grouping.keys
    }
    for entry in program.entries:
        if entry.origin.bucket is None or entry.bucket is None:
            continue
        old, complete = entry.origin.bucket % before, entry.origin.since == BEGINNING_OF_TIME
        for number in (entry.grouping, program.groupings[entry.grouping].fed_by):
            if number is not None:
                copies = olds[number].setdefault(entry.bucket, {})
                # Queries that count rows in one grouping came together.
                copies[old] = (
                    complete or copies.get(old, False) or program.groupings[number].axis is Axis.ROWS
                )
    return {
        number: {bucket: _one_of(copies, program) for bucket, copies in by_bucket.items()}
        for number, by_bucket in olds.items()
    }


def _one_of(olds: dict[int, bool], program: WindowProgram) -> int:
    """Return the one of several copies that has everything, or the only one."""
    for old, complete in olds.items():
        if complete or len(olds) == 1:
            return old
    raise JobError(
        f"queries without GROUP BY that came while the stream ran have their state in buckets "
        f"{', '.join(map(str, sorted(olds)))}, none of which has all of it, so that they cannot be brought "
        f"together in {program.buckets}; leave buckets= out, or give more"
    )
