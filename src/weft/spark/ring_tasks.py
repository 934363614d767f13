"""The rounds of joins of more than two streams: what new rows have joined to so far is shown to all nodes.

A round is a stage of the step's job. Each node joins what it is shown with the rows that it stores, and with
the new rows that it is going to, and sends what it finds on to all nodes. Its own new rows, and results that
need no more round, pass from round to round in its own hands, as do the rows of chains. A node is a bucket:
the papers' word for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.multiway.packing import pack_tuples, unpack_tuples
from weft.operators.joins.multiway.rounds import Round
from weft.operators.joins.packing import pack_rows
from weft.operators.joins.rows import JoinRows
from weft.operators.joins.state import PARTS_PER_CHAIN, Joins, JoinState, unpacked
from weft.spark import cache
from weft.spark.join_step import JoinStep, state_of
from weft.spark.payload import Parcel, from_batches, note, to_batches, wrap
from weft.spark.step import ShippedProgram
from weft.spark.tasks import one_batch, partition, tidy

FIRST_PROBE_TAG = 1 << 20
"""Tags from here on are of joined rows: the number of the join, and the side that they began with."""

MAX_STARTS = 16
RESULT_START = MAX_STARTS - 1
"""In place of a side: results."""

WORK_TAG = -3
"""The tag of a note of what a round has done."""


@dataclass(frozen=True)
class RoundTask:
    """New rows and what they have joined to in, what that joins to with one node's rows out."""

    joins: ShippedProgram[Joins]
    step: JoinStep
    round: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one node."""
        return tidy(to_batches(self._parcels(batches)))

    def _parcels(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        joins, node, nodes = self.joins.unpack(), partition(), self.step.buckets
        parcels = sorted(from_batches(batches), key=lambda p: (p.tag, p.origin))
        state, _ = state_of(joins, self.step, node)
        bad = sum(chain.counts.bad for chain in state.chains)
        if self.round:
            current = read_round(parcels, state)
        else:
            current = Round.begin(dict(_rows(parcels, state)), dict(_multiway_joins(state)), node, nodes)
        yield from (p for p in parcels if _passes(p, state))
        for (number, side), rows in current.own.items():
            packed = pack_rows(rows, state.chains[number].signatures[side])
            yield from wrap(packed, bucket=node, tag=number * PARTS_PER_CHAIN + side, origin=node)
        for number, join in _multiway_joins(state):
            last = len(join.sides) - 2
            for start, tuples in current.probe(number, join, self.round) if self.round <= last else ():
                packed = pack_tuples(tuples)
                done = self.round == last
                tag = FIRST_PROBE_TAG + number * MAX_STARTS + (RESULT_START if done else start)
                for to in (node,) if done else range(nodes):
                    yield from wrap(packed, bucket=to, tag=tag, origin=node)
        report = {"work": _work(state), "bad": sum(chain.counts.bad for chain in state.chains) - bad}
        yield note(report, bucket=node, origin=node, tag=WORK_TAG)
        cache.restore(self.step.saved, node, state)


def read_round(parcels: Sequence[Parcel], state: JoinState) -> Round:
    """Read a later round: the rows that a node has in hand, and those that it is shown."""
    current = Round(own=dict(_rows(parcels, state)))
    for parcel in parcels:
        if parcel.tag >= FIRST_PROBE_TAG:
            number, start = divmod(parcel.tag - FIRST_PROBE_TAG, MAX_STARTS)
            tuples = unpack_tuples(one_batch(parcel.table))
            if start == RESULT_START:
                current.results.setdefault(number, []).append(tuples)
            else:
                current.probes.setdefault((number, start), []).append(tuples)
    return current


def last_round(parcels: Sequence[Parcel], state: JoinState, rounds: int) -> Round:
    """Make the last round, in which what is left becomes results."""
    current = read_round(parcels, state)
    for number, join in _multiway_joins(state):
        if len(join.sides) - 1 == rounds:
            current.results[number] = [tuples for _, tuples in current.probe(number, join, rounds - 1)]
    return current


def rounds_report(parcels: Sequence[Parcel], state: JoinState) -> dict[str, Any]:
    """Report the work of a node's rounds, and how many rows of each side it stores."""
    notes = [p.note for p in parcels if p.tag == WORK_TAG]
    return {
        "work": [*(done for n in notes for done in n["work"]), *_work(state)],
        "kept": {number: [len(slices) for slices in join.sides] for number, join in _multiway_joins(state)},
        "round_bad": sum(n["bad"] for n in notes),
    }


def _multiway_joins(state: JoinState) -> Iterator[tuple[int, MultiwayJoin]]:
    """The joins of more than two streams, with their numbers."""
    for number, chain in enumerate(state.chains):
        if isinstance(chain, MultiwayJoin):
            yield number, chain


def _rows(parcels: Sequence[Parcel], state: JoinState) -> Iterator[tuple[tuple[int, int], JoinRows]]:
    """The new rows of joins of more than two streams, by join and side."""
    joins = dict(_multiway_joins(state))
    lots: dict[int, list[pa.RecordBatch]] = {}
    for parcel in parcels:
        if 0 <= parcel.tag < FIRST_PROBE_TAG and parcel.tag // PARTS_PER_CHAIN in joins:
            lots.setdefault(parcel.tag, []).append(one_batch(parcel.table))
    for tag, batches in lots.items():
        number, side = divmod(tag, PARTS_PER_CHAIN)
        rows = unpacked(joins[number], side, batches)
        if rows is not None:
            yield (number, side), rows


def _passes(parcel: Parcel, state: JoinState) -> bool:
    """Return whether a parcel is of no concern to a round: notes, rows of chains, results."""
    if parcel.tag < FIRST_PROBE_TAG:
        return parcel.tag < 0 or not isinstance(state.chains[parcel.tag // PARTS_PER_CHAIN], MultiwayJoin)
    return (parcel.tag - FIRST_PROBE_TAG) % MAX_STARTS == RESULT_START


def _work(state: JoinState) -> list[list[Any]]:
    """List the work of each level: join, sides before, side, pairs, candidates, joined rows."""
    return [
        [number, sorted(bound), side, *asdict(done).values()]
        for number, join in _multiway_joins(state)
        for (bound, side), done in join.work.items()
    ]
