"""The rounds of joins of more than two streams: what new rows have joined to so far is shown to all nodes.

A round is a stage of the step's job. Each node joins what it is shown with the rows that it stores, and with
the new rows that it is going to, and sends what it finds on to all nodes. Its own new rows, and results that
need no more round, pass from round to round in its own hands, as do the rows of chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from weft.joins.multiway.join import MultiwayJoin
from weft.joins.multiway.ring import Flight
from weft.joins.multiway.stored import pack_tuples, unpack_tuples
from weft.joins.rows import Rows
from weft.joins.state import PARTS, Joins, JoinState, unpacked
from weft.joins.stored import pack_rows
from weft.spark import cache
from weft.spark.join_step import JoinStep, state_of
from weft.spark.payload import Parcel, from_batches, note, to_batches, wrap
from weft.spark.step import Carried
from weft.spark.tasks import one_batch, partition, tidy

FLYING = 1 << 20
"""Tags from here on are of joined rows: the number of the join, and the side that they began with."""

STARTS = 16
LANDED = STARTS - 1
"""In place of a side: results."""

WORK = -3
"""The tag of a note of what a round has done."""


@dataclass(frozen=True)
class RoundTask:
    """New rows and what they have joined to in, what that joins to with one node's rows out."""

    joins: Carried[Joins]
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
            flight = read_flight(parcels, state)
        else:
            flight = Flight.begin(dict(_rows(parcels, state)), dict(_rings(state)), node, nodes)
        yield from (p for p in parcels if _passes(p, state))
        for (number, side), rows in flight.own.items():
            packed = pack_rows(rows, state.chains[number].signs[side])
            yield from wrap(packed, bucket=node, tag=number * PARTS + side, origin=node)
        for number, join in _rings(state):
            last = len(join.sides) - 2
            for start, made in flight.fly(number, join, self.round) if self.round <= last else ():
                packed = pack_tuples(made)
                done = self.round == last
                tag = FLYING + number * STARTS + (LANDED if done else start)
                for to in (node,) if done else range(nodes):
                    yield from wrap(packed, bucket=to, tag=tag, origin=node)
        said = {"work": _work(state), "bad": sum(chain.counts.bad for chain in state.chains) - bad}
        yield note(said, bucket=node, origin=node, tag=WORK)
        cache.put_back(self.step.saved, node, state)


def read_flight(parcels: Sequence[Parcel], state: JoinState) -> Flight:
    """A later round: what a node has in hand, and what it is shown."""
    flight = Flight(own=dict(_rows(parcels, state)))
    for parcel in parcels:
        if parcel.tag >= FLYING:
            number, start = divmod(parcel.tag - FLYING, STARTS)
            tuples = unpack_tuples(one_batch(parcel.table))
            if start == LANDED:
                flight.results.setdefault(number, []).append(tuples)
            else:
                flight.probes.setdefault((number, start), []).append(tuples)
    return flight


def land(parcels: Sequence[Parcel], state: JoinState, rounds: int) -> Flight:
    """The last round: what is left becomes results."""
    flight = read_flight(parcels, state)
    for number, join in _rings(state):
        if len(join.sides) - 1 == rounds:
            flight.results[number] = [made for _, made in flight.fly(number, join, rounds - 1)]
    return flight


def ring_report(parcels: Sequence[Parcel], state: JoinState) -> dict[str, Any]:
    """What a node's rounds have done, and how many rows of each side it stores."""
    notes = [p.note for p in parcels if p.tag == WORK]
    return {
        "work": [*(done for n in notes for done in n["work"]), *_work(state)],
        "kept": {number: [len(slices) for slices in join.sides] for number, join in _rings(state)},
        "round_bad": sum(n["bad"] for n in notes),
    }


def _rings(state: JoinState) -> Iterator[tuple[int, MultiwayJoin]]:
    """The joins of more than two streams, with their numbers."""
    for number, chain in enumerate(state.chains):
        if isinstance(chain, MultiwayJoin):
            yield number, chain


def _rows(parcels: Sequence[Parcel], state: JoinState) -> Iterator[tuple[tuple[int, int], Rows]]:
    """The new rows of joins of more than two streams, by join and side."""
    rings = dict(_rings(state))
    lots: dict[int, list[pa.RecordBatch]] = {}
    for parcel in parcels:
        if 0 <= parcel.tag < FLYING and parcel.tag // PARTS in rings:
            lots.setdefault(parcel.tag, []).append(one_batch(parcel.table))
    for tag, batches in lots.items():
        number, side = divmod(tag, PARTS)
        rows = unpacked(rings[number], side, batches)
        if rows is not None:
            yield (number, side), rows


def _passes(parcel: Parcel, state: JoinState) -> bool:
    """Whether a parcel is of no concern to a round: notes, rows of chains, results."""
    if parcel.tag < FLYING:
        return parcel.tag < 0 or not isinstance(state.chains[parcel.tag // PARTS], MultiwayJoin)
    return (parcel.tag - FLYING) % STARTS == LANDED


def _work(state: JoinState) -> list[list[Any]]:
    """What each level has done: join, sides before, side, pairs, candidates, joined rows."""
    return [
        [number, sorted(bound), side, *asdict(done).values()]
        for number, join in _rings(state)
        for (bound, side), done in join.work.items()
    ]
