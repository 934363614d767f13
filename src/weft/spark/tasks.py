"""The two kinds of task of a job, each around one of the engine's two functions.

A map task reads rows and runs ``partial``; a bucket task gathers the partials of one bucket and runs
``final``. Every map task sends every bucket a note of what it saw, so that all buckets come to the same
watermark, and answer what is due, also in a step that brought them no row.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext

from weft.io.files import Chunk
from weft.operators.blame import Failed, blaming, using
from weft.operators.times import Seen
from weft.operators.windows.answer import final
from weft.operators.windows.prepare import partial
from weft.operators.windows.program import Program
from weft.operators.windows.sharing import SharingChoice, total
from weft.operators.windows.state import Piece, State, one_piece_each
from weft.runner.memory import keep_memory
from weft.spark import cache
from weft.spark.broadcast import ShippedTables
from weft.spark.payload import LATE_TAG, NOTE, REJECTED_TAG, Parcel, from_batches, note, to_batches, wrap
from weft.spark.step import ShippedProgram, Step
from weft.store.layers import add_layer

MERGE_AFTER = 1 << 20
"""Partials that a map task gathers before it merges them."""


SLOW_COLLECTION_SECONDS = 0.003


class Input(Protocol):
    """The input of a map task: the batches that Spark hands over, or files of its own."""

    def chunks(self, batches: Iterator[pa.RecordBatch], task: int, program: Program) -> Iterator[Chunk]:
        """The task's rows, in large chunks."""
        ...


@dataclass(frozen=True)
class MapTask:
    """Rows in, partials out."""

    program: ShippedProgram[Program]
    step: Step
    input: Input
    tables: ShippedTables

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the rows of one partition."""
        return tidy(to_batches(self._parcels(batches)))

    def _parcels(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        began = time.perf_counter()
        program, origin = self.program.unpack(), partition()
        seen, clock = Seen(), self.step.clock
        skipped: list[str] = []
        pieces = _GatheredPieces(program)
        choices: list[SharingChoice] = []
        failed = self.step.failed(program)
        lookups = self.tables.unpack(program)
        for chunk in self.input.chunks(batches, origin, program):
            partials = partial(
                chunk.table,
                program,
                clock.watermark,
                self.step.buckets,
                lookups,
                self.step.keep_late,
                clock.limit,
                chunk.origins,
                failed,
            )
            if failed:
                break
            seen += partials.seen + Seen(rows=chunk.bad, bad=chunk.bad)
            skipped += chunk.skipped
            with blaming(program, failed):
                pieces.add(partials.pieces)
            choices += partials.choices
            late = {LATE_TAG: partials.late, REJECTED_TAG: chunk.rejected} if self.step.keep_late else {}
            for tag, rows in late.items():
                if rows is not None:
                    yield from wrap(rows, bucket=origin % self.step.buckets, tag=tag, origin=origin)
        merged: list[Piece] = []
        if not failed:
            with blaming(program, failed):
                merged = pieces.merged()
        report: dict[str, Any] = {"seen": asdict(seen), "skipped": skipped, "failed": as_messages(failed)}
        report["seconds"] = time.perf_counter() - began
        report["choices"] = [asdict(choice) for choice in total(choices)]
        for bucket in range(self.step.buckets):
            yield note(report, bucket=bucket, origin=origin)
        for piece in merged:
            yield from wrap(piece.table, bucket=piece.bucket, tag=piece.grouping, origin=origin)


@dataclass(frozen=True)
class BucketTask:
    """Partials in, results out; the state is kept in the slice store if there is one."""

    program: ShippedProgram[Program]
    step: Step

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Called by Spark with the parcels of one bucket."""
        return tidy(to_batches(self._parcels(batches)))

    def _parcels(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        program, bucket, step = self.program.unpack(), partition(), self.step
        stopwatch = Stopwatch()
        # In a fixed order, so that a step made again gives the same floats to the last bit.
        parcels = sorted(from_batches(batches), key=lambda p: (p.tag, p.origin))
        notes = [p.note for p in parcels if p.tag == NOTE]
        seen = sum((Seen(**n["seen"]) for n in notes), Seen())
        pieces = [Piece(bucket, p.tag, one_batch(p.table)) for p in parcels if p.tag >= 0]
        yield from (p for p in parcels if p.tag in (LATE_TAG, REJECTED_TAG))
        messages = {name: message for n in notes for name, message in n["failed"].items()}
        if messages:
            yield note({"failed": messages}, bucket=bucket, origin=bucket)
            return
        watermark = step.watermark_after(seen)
        stopwatch.lap("gather")
        state, source = State(program, bucket), "new"
        failed = step.failed(program)
        if step.saved:
            with blaming(program, failed):
                pieces = one_piece_each(pieces, program)
            state, source = cache.load(step.saved, bucket, step.clock.watermark, program)
        stopwatch.lap("load")
        spent: Counter[int] = Counter()
        state, results = final(state, pieces, watermark, program, spent, failed)
        stopwatch.lap("final")
        report: dict[str, Any] = {"seen": asdict(seen), "state": source, "watermark": watermark}
        report["heard"] = step.clock.heard_after(seen.latest)
        report["skipped"] = [name for n in notes for name in n["skipped"]]
        report["choices"] = [choice for n in notes for choice in n["choices"]]
        report["map"] = max((n["seconds"] for n in notes), default=0.0)
        report["partial"] = sum(n["seconds"] for n in notes)
        report["trees"] = [round(spent[tree] / 1e9, 6) for tree in range(len(program.trees))]
        if step.saved:
            named = (step.saved.seq, f"{step.saved.token}-{attempt()}")
            before = step.saved.layers[bucket] if step.saved.layers else ()
            written = [*pieces, *state.counted_pieces]
            if not failed:
                with blaming(program, failed):
                    layers = add_layer(step.saved.place, before, written, state, named, watermark, program)
                    report["layers"] = [asdict(layer) for layer in layers]
            if not failed and not state.failed:
                cache.save(step.saved, bucket, state)
        stopwatch.lap("save")
        report |= {"rows": state.rows, "bytes": state.bytes, "seconds": stopwatch.laps}
        report["results"] = sum(table.nbytes for table in results.values())
        report["failed"] = as_messages(using(program, state.failed) | (failed or {}))
        yield note(report, bucket=bucket, origin=bucket)
        if step.largest is None or report["results"] <= step.largest:
            for number, query in enumerate(program.queries):
                if query.name in results:
                    yield from wrap(results[query.name], bucket=bucket, tag=number, origin=bucket)


def as_messages(failed: Failed | None) -> dict[str, str]:
    """Errors of queries as a note has them."""
    return {name: str(error) for name, error in (failed or {}).items()}


class _GatheredPieces:
    """Pieces, merged whenever the new ones outgrow what had been merged."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.pieces: list[Piece] = []
        self.new = self.settled = 0

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self.pieces.append(piece)
            self.new += piece.table.num_rows
        if self.new > max(MERGE_AFTER, self.settled):
            self.pieces = self.merged()
            self.new, self.settled = 0, sum(p.table.num_rows for p in self.pieces)

    def merged(self) -> list[Piece]:
        return one_piece_each(self.pieces, self.program)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    if len(table.to_batches()) > 1:
        table = table.unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


class Stopwatch:
    """Seconds between laps, by name."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """A lap ends."""
        now = time.perf_counter()
        self.laps[name], self._last = now - self._last, now


def partition() -> int:
    """The number of this task's partition."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def attempt() -> int:
    """The number of this attempt at a task."""
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def tidy(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep memory for the next tasks, and Spark's ``gc.collect()`` after one from walking through all of it.

    What imports and compiled kernels brought lives as long as the worker. Once collecting takes long,
    what is left after it is set aside for good; only garbage in cycles would stay, and that is gone by then.
    """
    keep_memory()
    yield from batches
    began = time.perf_counter()
    gc.collect()
    if time.perf_counter() - began > SLOW_COLLECTION_SECONDS:
        gc.freeze()
