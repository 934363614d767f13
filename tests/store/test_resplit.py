"""State split again: nothing is lost or there twice, and which copy goes on of what has no keys."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from support.places import GOLDEN
from weft.errors import JobError
from weft.expr import hashing
from weft.operators.keys import KeyIndex
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.program import Origin, Program
from weft.store.layers import read_layer, rebuild
from weft.store.manifest import Layer
from weft.store.resplit import _copies, split_again
from weft.store.slice_store import SliceStore

CHECKPOINT = GOLDEN / "checkpoints" / "format-3-windows" / "checkpoint"
SCHEMA = {
    "ts": pa.timestamp("us", "UTC"),
    "symbol": pa.string(),
    "venue": pa.int32(),
    "level": pa.float64(),
    "day": pa.date32(),
}

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
FIRST, CAME = Origin(), Origin(since=50, latest_when_added=40)


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


@pytest.mark.parametrize("buckets", [1, 2, 5])
def test_what_a_checkpoint_holds_is_all_there_once_and_in_its_bucket(tmp_path: Path, buckets: int) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "checkpoint")
    store = SliceStore(str(tmp_path / "checkpoint"))
    last, version = store.last, store.version()
    assert last is not None
    assert version is not None
    schema = pa.schema({name: SCHEMA.get(name, pa.int64()) for name in version.types})
    assert {name: str(schema.field(name).type) for name in schema.names} == version.types

    def compiled(buckets: int) -> Program:
        return compile_plan(
            weft.plan(version.queries), schema, "ts", buckets=buckets, origins=version.origins
        )

    def held(layers: tuple[tuple[Layer, ...], ...], program: Program) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for bucket, some in enumerate(layers):
            for piece in rebuild(store.place, some, bucket, last.watermark, program).snapshot():
                found.setdefault(piece.grouping, []).extend(map(repr, piece.table.to_pylist()))
        return {grouping: sorted(rows) for grouping, rows in found.items()}

    files = set((tmp_path / "checkpoint" / "slices").iterdir())
    made = split_again(store, last, compiled(buckets))
    assert (made.buckets, len(made.layers), made.hash) == (buckets, buckets, hashing.NAME)
    assert made.token != last.token
    assert held(made.layers, compiled(buckets)) == held(last.layers, compiled(3))
    for bucket, layers in enumerate(made.layers):
        for piece in (
            p for layer in layers for p in read_layer(store.place, layer, bucket, compiled(buckets))
        ):
            grouping = compiled(buckets).groupings[piece.grouping]
            if grouping.keys:
                index = KeyIndex(grouping.key_types)
                group = index.encode(piece.table.columns[: len(grouping.keys)])
                assert set(index.buckets(group, buckets).tolist()) == {bucket}
    # Nothing is committed, and what was is untouched.
    again = SliceStore(store.place)
    assert again.last == last
    assert files <= set((tmp_path / "checkpoint" / "slices").iterdir())
