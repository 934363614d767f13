"""Chains split over buckets, their state in files: whatever is rebuilt when, the results are the same."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.join_cases import CONDITIONS, SCHEMA, SECOND, batches, joins, steps_of
from support.join_oracle import as_tuples, ordered
from weft.io.files import Chunk
from weft.local.join_run import JoinRun
from weft.model.instants import END_OF_TIME
from weft.operators.joins.clock import Clock
from weft.operators.joins.compile import JoinCompiler
from weft.operators.joins.packing import pack_rows
from weft.operators.joins.state import Joins, JoinState, buckets_of, splits
from weft.operators.watermark import TimeRules
from weft.planning.live import LivePlanner
from weft.store import join_layers as kept
from weft.store import layers as engine_layers
from weft.store.join_layers import add_layer, catch_up
from weft.store.manifest import Layer

LATENESS = 2 * SECOND


STREAMS = JoinCompiler({"a": SCHEMA, "b": SCHEMA}, {"a": "ts", "b": "ts"}, LivePlanner())


class Split:
    """What Spark's tasks do, one after the other; a bucket's state is held or rebuilt as told."""

    def __init__(self, joins: Joins, buckets: int, place: str) -> None:
        self.joins, self.buckets, self.place = joins, buckets, place
        self.marks: dict[str, int | None] = {"a": None, "b": None}
        self.layers: list[tuple[Layer, ...]] = [()] * buckets
        self.states = [JoinState(joins, bucket) for bucket in range(buckets)]
        self.seq = 0

    def step(
        self, tables: dict[str, pa.Table], rebuilt: bool, end: int | None = None
    ) -> dict[str, list[str]]:
        arrived: list[dict[tuple[int, int], list[pa.RecordBatch]]] = [{} for _ in range(self.buckets)]
        chains, before = self.joins.chains(), dict(self.marks)
        for stream, table in tables.items():
            clock = Clock("ts", TimeRules(LATENESS), self.marks[stream])
            timed, _ = clock.admit(Chunk(table), now=0)
            self.marks[stream] = clock.watermark
            for number, side in self.joins.sides[stream]:
                rows = chains[number].rows(side, timed)
                if rows is None:
                    continue
                homes = buckets_of(chains[number].program, rows, self.buckets)
                for bucket in range(self.buckets):
                    here = homes == bucket if splits(chains[number].program) else np.ones(len(rows), bool)
                    if here.any():
                        packed = pack_rows(rows.take(np.flatnonzero(here)), chains[number].signatures[side])
                        arrived[bucket].setdefault((number, side), []).append(packed)
        if end is not None:
            self.marks = dict.fromkeys(self.marks, end)
        self.seq += 1
        found: dict[str, list[str]] = {}
        for bucket in range(self.buckets):
            if rebuilt:
                self.states[bucket] = JoinState(self.joins, bucket)
                catch_up(self.states[bucket], self.place, self.layers[bucket], before)
            results, fresh = self.states[bucket].step(arrived[bucket], self.marks, self.buckets)
            known = [m for m in self.marks.values() if m is not None]
            now = min(known) if len(known) == 2 else None
            self.layers[bucket] = add_layer(
                self.place, self.layers[bucket], fresh, bucket, (self.seq, "t"), now, self.joins
            )
            for name, table in results.items():
                found.setdefault(name, []).extend(map(repr, as_tuples(table)))
        return {name: sorted(rows) for name, rows in found.items()}


@pytest.mark.slow
@given(data=st.data())
def test_every_step_gives_what_one_chain_gives(data: st.DataObject) -> None:
    a, b = data.draw(batches(0)), data.draw(batches(100))
    condition = data.draw(st.sampled_from(CONDITIONS))
    queries = data.draw(joins(condition))
    run = JoinRun(queries, "ts", "2 s")
    most = data.draw(st.integers(1, 16))
    with tempfile.TemporaryDirectory() as place:
        split = Split(STREAMS.joins(queries), data.draw(st.integers(1, 3)), place)
        kept.MAX_LAYERS = most
        try:
            for step in steps_of(a, b):
                whole = {name: ordered(as_tuples(t)) for name, t in run.step(step).items()}
                assert split.step(step, data.draw(st.booleans())) == whole
            whole = {name: ordered(as_tuples(t)) for name, t in run.close().items()}
            assert split.step({}, True, END_OF_TIME) == whole
        finally:
            kept.MAX_LAYERS = engine_layers.MAX_LAYERS
    assert all(layers == () for layers in split.layers), "nothing is needed after the end"
