"""Which copy of a grouping without keys goes on where several buckets become one."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import weft
from weft.engine.compile import compile_plan
from weft.engine.program import Origin, Program
from weft.engine.resplit import _copies
from weft.errors import JobError

QUERIES = """
-- name: a
SELECT count(*) AS n FROM s [RANGE '4 s'];
-- name: b
SELECT sum(x) AS s FROM s [RANGE '6 s'];
-- name: c
SELECT x, count(*) AS n FROM s [RANGE '6 s'] GROUP BY x;
-- name: d
SELECT count(*) AS n FROM s [ROWS 4]
"""
FIRST, CAME = Origin(), Origin(since=50, joined=40)


def program(buckets: int, **origins: Origin) -> Program:
    schema = pa.schema({"ts": pa.timestamp("us"), "x": pa.int64()})
    return compile_plan(weft.plan(weft.sql(QUERIES)), schema, "ts", buckets=buckets, origins=origins)


def copies(buckets: int, before: int, **origins: Origin) -> dict[str, dict[int, int]]:
    found = _copies(program(buckets, **origins), before)
    return {f"{axis} {' '.join(keys)}".strip(): taken for (axis, keys, *_), taken in found.items()}


def at(bucket: int, origin: Origin = FIRST) -> Origin:
    return replace(origin, bucket=bucket)


def test_a_copy_moves_with_its_queries() -> None:
    both = {"a": at(4), "b": at(1), "d": at(2)}
    assert copies(3, 5, **both) == {"time": {1: 4}, "time x": {}, "waiting": {2: 2}, "rows": {2: 2}}
    assert copies(8, 5, **both) == {"time": {4: 4, 1: 1}, "time x": {}, "waiting": {2: 2}, "rows": {2: 2}}


def test_queries_that_shared_a_bucket_each_take_it_along() -> None:
    # Numbers 1 and 4 were one bucket of three, and are two of five.
    assert copies(5, 3, a=at(4), b=at(1, CAME), d=at(0))["time"] == {4: 1, 1: 1}


def test_of_several_the_one_that_has_everything_goes_on() -> None:
    assert copies(1, 3, a=at(2), b=at(1, CAME), d=at(0))["time"] == {0: 2}
    assert copies(1, 3, a=at(2, CAME), b=at(1), d=at(0))["time"] == {0: 1}


def test_none_has_everything() -> None:
    came = {"a": at(2, CAME), "b": at(1, CAME), "d": at(0)}
    with pytest.raises(
        JobError, match=r"in buckets 1, 2, none of which has all of it.* together in 1; leave"
    ):
        copies(1, 3, **came)
    assert copies(2, 3, **came)["time"] == {0: 2, 1: 1}
