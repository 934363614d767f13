"""The two kinds of task of a job of joins.

A map task reads rows of the streams and makes them ready for the chains: selections evaluated, codes looked
up, those that can join nothing left out. Where a chain's condition has an equality, a row goes to the bucket
of its code; elsewhere it goes to all buckets, probes what each has kept, and is kept by one. A bucket task
joins, and keeps its share of every chain. Where results are aggregated, it also runs ``partial`` over them,
and the bucket tasks of window queries follow behind a second shuffle.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from weft.io.files import Chunk
from weft.operators.blame import Failed
from weft.operators.joins.adapt import rows_report
from weft.operators.joins.clock import OrderedRows, admit
from weft.operators.joins.feeds import feed_rows
from weft.operators.joins.packing import pack_rows
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.state import PARTS_PER_CHAIN, Joins, buckets_of, splits
from weft.operators.times import Seen
from weft.operators.watermark import SOLE_PARTITION
from weft.operators.windows.prepare import partial
from weft.operators.windows.sharing import total
from weft.spark import cache
from weft.spark.join_step import JoinStep, state_of
from weft.spark.payload import NOTE, Parcel, from_batches, note, to_batches, wrap
from weft.spark.ring_tasks import FIRST_PROBE_TAG, last_round, rounds_report
from weft.spark.step import ShippedProgram
from weft.spark.tasks import BucketTask, Stopwatch, as_messages, attempt, one_batch, partition, tidy
from weft.store.join_layers import add_layer


class JoinInput(Protocol):
    """The input of a map task."""

    def chunks(
        self, batches: Iterator[pa.RecordBatch], task: int, joins: Joins
    ) -> Iterator[tuple[str, Chunk]]:
        """The task's rows, with the stream that they are of."""
        ...


@dataclass(frozen=True)
class JoinMapTask:
    """Rows in, rows made ready out."""

    joins: ShippedProgram[Joins]
    step: JoinStep
    input: JoinInput

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the rows of one partition."""
        return tidy(to_batches(self._parcels(batches)))

    def _parcels(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        began = time.perf_counter()
        joins, origin = self.joins.unpack(), partition()
        chains = joins.chains()
        seen = {stream: Seen() for stream in joins.streams}
        skipped: list[str] = []
        for stream, chunk in self.input.chunks(batches, origin, joins):
            mark, limit = self.step.marks[stream], self.step.clock.limit
            timed, counts = admit(chunk.table, joins.times[stream], mark, limit)
            seen[stream] += counts + Seen(rows=chunk.bad, bad=chunk.bad)
            skipped += chunk.skipped
            for number, side in joins.sides[stream]:
                yield from self._shares(chains[number], side, timed, number * PARTS_PER_CHAIN + side, origin)
        report = {
            "seen": {s: asdict(counts) for s, counts in seen.items()},
            "bad": sum(chain.counts.bad for chain in chains),
            "came": list(map(rows_report, chains)),
            "skipped": skipped,
            "seconds": time.perf_counter() - began,
        }
        for bucket in range(self.step.buckets):
            yield note(report, bucket=bucket, origin=origin)

    def _shares(
        self, chain: Sliced[Any], side: int, timed: OrderedRows, tag: int, origin: int
    ) -> Iterator[Parcel]:
        """The rows of one side of a chain that each bucket has to see."""
        rows = chain.rows(side, timed)
        if rows is None:
            return
        if not splits(chain.program):
            packed = pack_rows(rows, chain.signatures[side])
            for bucket in range(self.step.buckets):
                yield from wrap(packed, bucket=bucket, tag=tag, origin=origin)
            return
        homes = buckets_of(chain.program, rows, self.step.buckets)
        for bucket in np.unique(homes).tolist():
            share = pack_rows(rows.take(np.flatnonzero(homes == bucket)), chain.signatures[side])
            yield from wrap(share, bucket=bucket, tag=tag, origin=origin)


@dataclass(frozen=True)
class JoinBucketTask:
    """Rows made ready in, results out; the state is kept in the slice store."""

    joins: ShippedProgram[Joins]
    step: JoinStep

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one bucket."""
        return tidy(to_batches(self._parcels(batches)))

    def _parcels(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        joins, bucket, step = self.joins.unpack(), partition(), self.step
        stopwatch, saved = Stopwatch(), self.step.saved
        # In a fixed order, so that a step made again gives the same results in the same order.
        parcels = sorted(from_batches(batches), key=lambda p: (p.tag, p.origin))
        notes = [p.note for p in parcels if p.tag == NOTE]
        seen = {stream: sum((Seen(**n["seen"][stream]) for n in notes), Seen()) for stream in joins.streams}
        arrived: dict[tuple[int, int], list[pa.RecordBatch]] = {}
        for parcel in parcels:
            if 0 <= parcel.tag < FIRST_PROBE_TAG:
                arrived.setdefault(divmod(parcel.tag, PARTS_PER_CHAIN), []).append(one_batch(parcel.table))
        marks = step.marks_after(seen)
        stopwatch.lap("gather")
        state, source = state_of(joins, step, bucket)
        stopwatch.lap("load")
        bad = sum(chain.counts.bad for chain in state.chains)
        pairs = [(chain.counts.near, chain.counts.joined) for chain in state.chains]
        last = last_round(parcels, state, joins.rounds) if joins.rounds > 1 else None
        results, fresh = state.step(arrived, marks, step.buckets, last)
        stopwatch.lap("join")
        now = (
            None
            if None in marks.values()
            else min((m for m in marks.values() if m is not None), default=None)
        )
        before = saved.layers[bucket] if saved.layers else ()
        named = (saved.seq, f"{saved.token}-{attempt()}")
        layers = add_layer(saved.place, before, fresh, bucket, named, now, joins)
        cache.save(saved, bucket, state)
        stopwatch.lap("save")
        report: dict[str, Any] = {
            "seen": asdict(sum(seen.values(), Seen(bad=sum(n["bad"] for n in notes)))),
            "watermark": now,
            "watermarks": marks,
            "heard": step.heard_after(seen),
            "state": source,
            "skipped": [name for n in notes for name in n["skipped"]],
            "choices": [],
            "map": max((n["seconds"] for n in notes), default=0.0),
            "layers": [asdict(layer) for layer in layers],
            "bad": sum(chain.counts.bad for chain in state.chains) - bad,
            "came": [n["came"] for n in notes] if bucket == 0 else [],
            "pairs": [
                (_all_pairs(chain, chain.counts.near - near, step.buckets), chain.counts.joined - found)
                for chain, (near, found) in zip(state.chains, pairs)
            ],
            "rows": state.rows,
            "bytes": state.bytes,
            "seconds": stopwatch.laps,
        }
        if last is not None:
            report |= rounds_report(parcels, state)
        feeds = {feed: results.pop(name) for name, feed in joins.feeds.items() if name in results}
        parcels = [note(report, bucket=bucket, origin=bucket)]
        for number, query in enumerate(joins.queries):
            if query.name in results:
                parcels += wrap(results[query.name], bucket=bucket, tag=number, origin=bucket)
        if not joins.results.entries:
            yield from parcels
            return
        yield from map(passed, parcels)
        yield from self._partials(joins, feeds, now, bucket)

    def _partials(
        self, joins: Joins, feeds: Mapping[str, pa.Table], now: int | None, bucket: int
    ) -> Iterator[Parcel]:
        """The partials of the results that are aggregated, and a note of how far results have come."""
        began = time.perf_counter()
        rows = feed_rows(feeds, joins.results.schema)
        failed = None if joins.results.strict else Failed()
        partials = partial(rows, joins.results, self.step.results, self.step.buckets, failed=failed)
        seen = replace(partials.seen, max_time=now, latest={} if now is None else {SOLE_PARTITION: now})
        report: dict[str, Any] = {"seen": asdict(seen), "skipped": [], "failed": as_messages(failed)}
        report["choices"] = [asdict(choice) for choice in total(partials.choices)]
        report["seconds"] = time.perf_counter() - began
        for to in range(self.step.buckets):
            yield note(report, bucket=to, origin=bucket)
        for piece in () if failed else partials.pieces:
            yield from wrap(piece.table, bucket=piece.bucket, tag=piece.grouping, origin=bucket)


def _all_pairs(chain: Sliced[Any], near: int, buckets: int) -> int:
    """Pairs near enough in time: where rows are split by code, a bucket sees one share of one share."""
    return near * buckets if splits(chain.program) else near


@dataclass(frozen=True)
class ResultsTask:
    """Partials of results in, answers of the queries over them out; what joins gave passes by."""

    answer: BucketTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one bucket."""
        parcels = list(from_batches(batches))
        yield from to_batches(p for p in parcels if p.tag <= PASSED_NOTE_TAG)
        yield from self.answer(to_batches(p for p in parcels if p.tag > PASSED_NOTE_TAG))


PASSED_NOTE_TAG = -16
"""The tag of a note that passes by; those of results are below it."""


def passed(parcel: Parcel) -> Parcel:
    """Return a parcel that passes by the tasks behind; of one that does, the parcel as it was.

    >>> [passed(Parcel(0, tag, 0, None)).tag for tag in (-1, 0, 1)]
    [-16, -17, -18]
    >>> [passed(passed(Parcel(0, tag, 0, None))).tag for tag in (-1, 0, 1)]
    [-1, 0, 1]
    """
    return replace(parcel, tag=PASSED_NOTE_TAG - 1 - parcel.tag)
