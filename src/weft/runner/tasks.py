"""The three bodies of a step's tasks: prepare rows, relay between buckets, step a bucket.

A map task prepares the rows of every stream for every stage that reads it, and sends every bucket a note of
what it saw, so that all buckets come to the same marks and answer what is due, also in a step that brought
them no row. Where joins of several streams need it, buckets show each other what rows have joined to so far.
A bucket task steps all stages of its level; what they give to stages behind them is prepared there, and goes
to the bucket tasks of the next level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from time import perf_counter
from typing import Any

import pyarrow as pa

from weft.io.files import Chunk
from weft.operators.contract import Failed, Marks, Piece, Stage, State
from weft.operators.times import Seen
from weft.runner.late import late_names
from weft.runner.parcels import Parcel, ParcelKind
from weft.runner.prepare import PreparedRows, StepLookups, prepare_chunk
from weft.runner.program import Program
from weft.runner.request import StateReference, StepRequest
from weft.runner.state_cache import load_state, restore_state, save_state
from weft.store.answers import MISSED_ROWS, RESULT_ROWS, UNREAD_ROWS, write_answers
from weft.store.stage_layers import Attempt, add_layer

MERGE_AFTER_ROWS = 1 << 20
"""Rows of pieces that a map task gathers before it merges them."""


def prepare_rows(
    program: Program,
    request: StepRequest,
    chunks: Iterable[tuple[str, Chunk]],
    lookups: StepLookups,
    origin: int,
) -> Iterator[Parcel]:
    """Prepare the rows of one map task; every bucket gets a note of them."""
    began, failed = perf_counter(), request.failed(program)
    seen: dict[str, Seen] = {}
    skipped: list[str] = []
    gathered = {stage.name: GatheredPieces(stage) for stage in program.stages}
    notes: dict[str, list[Any]] = {}
    tables = late_names(list(program.schemas))
    home = origin % request.buckets
    for stream, chunk in chunks:
        rows = prepare_chunk(
            program,
            request.time,
            stream,
            chunk,
            lambda _: request.buckets,
            lookups,
            keep_missed=request.keep_missed,
        )
        if rows.failed:
            failed = blame(failed, rows.failed)
            break
        seen[stream] = seen.get(stream, Seen()) + rows.seen + Seen(rows=chunk.bad, bad=chunk.bad)
        skipped += chunk.skipped
        for name, pieces in rows.pieces.items():
            gathered[name].add(pieces, failed)
        for name, note in rows.notes.items():
            notes.setdefault(name, []).append(note)
        if request.keep_missed:
            if rows.missed is not None:
                yield Parcel(home, ParcelKind.MISSED, "", tables[stream].late, origin, rows.missed)
            if chunk.rejected is not None:
                yield Parcel(home, ParcelKind.REJECTED, "", tables[stream].rejected, origin, chunk.rejected)
    sent = [] if failed else [(n, p) for n, pieces in gathered.items() for p in pieces.merged(failed)]
    report = {
        "seen": {stream: asdict(counts) for stream, counts in seen.items()},
        "skipped": skipped,
        "failed": as_messages(failed),
        "seconds": perf_counter() - began,
    }
    for bucket in range(request.buckets):
        # What stages say of the rows is for the driver: one bucket takes it along.
        content = report | {"notes": notes if bucket == home else {}}
        yield Parcel(bucket, ParcelKind.ROWS, "", "", origin, content)
    for name, piece in () if failed else sent:
        yield Parcel(piece.bucket, ParcelKind.PIECE, name, piece.part, origin, piece)


def relay(
    program: Program, request: StepRequest, round_number: int, bucket: int, parcels: Iterable[Parcel]
) -> Iterator[Parcel]:
    """Let the stages that need it exchange what they have; all else passes by."""
    ordered = sorted(parcels, key=lambda p: p.place)
    for stage in program.stages:
        own = [p for p in ordered if p.kind is ParcelKind.PIECE and p.stage == stage.name]
        if round_number >= stage.rounds:
            yield from own
            continue
        state = _state_of(request, stage, bucket)
        shown = state.relay([p.content for p in own], round_number)
        for piece in shown.pieces:
            yield Parcel(piece.bucket, ParcelKind.PIECE, stage.name, piece.part, bucket, piece)
        yield Parcel(bucket, ParcelKind.RELAYED, stage.name, str(round_number), bucket, dict(shown.note))
        if request.saved is not None:
            restore_state(request.saved, state)
    yield from (p for p in ordered if p.kind is not ParcelKind.PIECE)


def run_bucket(
    program: Program,
    request: StepRequest,
    level: int,
    bucket: int,
    parcels: Iterable[Parcel],
    attempt: str,
) -> Iterator[Parcel]:
    """Step all stages of a level in one bucket, write what is new and what was answered, and report.

    ``attempt`` tells the files of two attempts at this task apart.
    """
    return _BucketTask(program, request, level, bucket, attempt).run(parcels)


class _BucketTask:
    """One bucket of one level on its way through a step."""

    def __init__(self, program: Program, request: StepRequest, level: int, bucket: int, attempt: str) -> None:
        self.program, self.request, self.level, self.bucket = program, request, level, bucket
        self.stages = program.levels[level]
        self.failed = request.failed(program)
        self.attempt = attempt
        self.stopwatch = Stopwatch()
        self.tables: dict[tuple[str, str], list[pa.Table]] = {}
        self.given: list[Parcel] = []
        self.report: dict[str, Any] = {"bucket": bucket, "level": level, "failed": {}}

    def run(self, parcels: Iterable[Parcel]) -> Iterator[Parcel]:
        # In a fixed order, so that a step made again gives the same floats to the last bit.
        ordered = sorted(parcels, key=lambda p: p.place)
        passing = [p for p in ordered if p.kind in (ParcelKind.REPORT, ParcelKind.RESULT)]
        yield from passing
        marks = self._marks(ordered, passing)
        if not self.report["failed"]:
            for parcel in ordered:
                if parcel.kind in (ParcelKind.MISSED, ParcelKind.REJECTED):
                    kind = MISSED_ROWS if parcel.kind is ParcelKind.MISSED else UNREAD_ROWS
                    self.tables.setdefault((kind, parcel.part), []).append(parcel.content)
            self.stopwatch.lap("gather")
            self._step(ordered, marks)
            yield from self._finish()
        yield Parcel(self.bucket, ParcelKind.REPORT, "", str(self.level), self.bucket, self.report)
        yield from self.given

    def _marks(self, ordered: Sequence[Parcel], passing: Sequence[Parcel]) -> Mapping[str, Marks]:
        """Return the marks of all stages after the step, and note in the report what rows came."""
        if self.level:
            before = next(p.content for p in passing if p.kind is ParcelKind.REPORT)
            self.report["failed"] = before["failed"]
            return before.get("marks", {})  # type: ignore[no-any-return]
        notes = [p.content for p in ordered if p.kind is ParcelKind.ROWS]
        seen = add_seen(note["seen"] for note in notes)
        streams = self.request.time.streams_after(seen)
        marks = self.request.time.marks_after(self.program.stages, streams)
        self.report |= {
            "failed": {name: message for note in notes for name, message in note["failed"].items()},
            "seen": {stream: asdict(counts) for stream, counts in seen.items()},
            "streams": {name: {"mark": s.mark, "heard": dict(s.heard)} for name, s in streams.items()},
            "marks": marks,
            "skipped": [name for note in notes for name in note["skipped"]],
            "map": max((note["seconds"] for note in notes), default=0.0),
            "partial": sum(note["seconds"] for note in notes),
            "came": _gathered(note["notes"] for note in notes),
        }
        return marks

    def _step(self, ordered: Sequence[Parcel], marks: Mapping[str, Marks]) -> None:
        """Step every stage of this level; what it gives to those behind it is prepared."""
        request, stages = self.request, dict[str, Any]()
        notes: dict[str, Any] = {}
        for stage in self.stages:
            own = [p for p in ordered if p.stage == stage.name]
            state, source = self._load(stage)
            self.stopwatch.lap("load")
            pieces = [p.content for p in own if p.kind is ParcelKind.PIECE]
            stepped = state.step(pieces, marks[stage.name], self.failed, keep=request.saved is not None)
            relayed = [p.content for p in own if p.kind is ParcelKind.RELAYED]
            notes[stage.name] = [*relayed, dict(stepped.note)]
            self.stopwatch.lap("final")
            for name, table in stepped.answers.items():
                self.tables.setdefault((RESULT_ROWS, name), []).append(table)
            for name, table in stepped.outputs.items():
                self._pass_on(name, table)
            stages[stage.name] = {"state": source, "rows": state.rows, "bytes": state.bytes}
            if request.saved is not None and not self.failed:
                layers = self._layers(request.saved, stage, state, stepped.fresh, marks[stage.name])
                stages[stage.name]["layers"] = [asdict(layer) for layer in layers]
                if not self.failed:
                    save_state(request.saved, state)
            self.stopwatch.lap("save")
        self.report |= {"stages": stages, "notes": notes}

    def _load(self, stage: Stage) -> tuple[State, str]:
        request = self.request
        if request.saved is None:
            return stage.state(self.bucket, request.buckets), "new"
        marks = request.time.marks_of(stage)
        return load_state(request.saved, stage, self.bucket, request.buckets, marks)

    def _layers(
        self, saved: StateReference, stage: Stage, state: State, fresh: Sequence[Any], marks: Marks
    ) -> Sequence[Any]:
        attempt = Attempt(saved.seq, f"{saved.token}-{self.attempt}")
        before = saved.of(stage.name, self.bucket)
        return add_layer(saved.place, stage, state, fresh, before, attempt, marks, failed=self.failed)

    def _pass_on(self, stream: str, table: pa.Table) -> None:
        """Prepare rows that a stage gives for those behind it."""
        request = self.request
        rows: PreparedRows = prepare_chunk(
            self.program,
            request.time,
            stream,
            Chunk(table),
            lambda _: request.buckets,
            StepLookups(),
            keep_missed=False,
        )
        if rows.failed:
            self.failed = blame(self.failed, rows.failed)
            return
        given = self.report.setdefault("given", {}).setdefault(stream, [])
        given.append({"late": rows.seen.late, "bad": rows.seen.bad, "notes": dict(rows.notes)})
        for name, pieces in rows.pieces.items():
            for piece in pieces:
                self.given.append(
                    Parcel(piece.bucket, ParcelKind.PIECE, name, piece.part, self.bucket, piece)
                )

    def _finish(self) -> Iterator[Parcel]:
        """Write the answers, or send them where there is no store, and complete the report."""
        tables = {place: pa.concat_tables(lots) for place, lots in self.tables.items()}
        counts: dict[str, int] = {}
        for (kind, name), table in tables.items():
            if kind == RESULT_ROWS:
                counts[name] = table.num_rows
        size, saved = sum(table.nbytes for table in tables.values()), self.request.saved
        self.report |= {"results": counts, "result_bytes": size, "failed": as_messages(self.failed)}
        if saved is None:
            if self.request.largest is None or size <= self.request.largest:
                for (_, name), table in tables.items():
                    yield Parcel(self.bucket, ParcelKind.RESULT, "", name, self.bucket, table)
        elif not self.failed:
            token = f"{saved.token}-{self.attempt}"
            file = write_answers(saved.place, saved.seq, self.bucket, token, tables)
            self.report["answers"] = None if file is None else asdict(file)
        self.stopwatch.lap("answers")
        self.report["seconds"] = self.stopwatch.laps


def _state_of(request: StepRequest, stage: Stage, bucket: int) -> State:
    if request.saved is None:
        return stage.state(bucket, request.buckets)
    marks = request.time.marks_of(stage)
    return load_state(request.saved, stage, bucket, request.buckets, marks).state


class GatheredPieces:
    """Pieces of one stage, merged whenever the new ones outgrow what had been merged."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.pieces: list[Piece] = []
        self.new = self.settled = 0

    def add(self, pieces: Iterable[Piece], failed: Failed | None) -> None:
        """Take in pieces of one chunk."""
        for piece in pieces:
            self.pieces.append(piece)
            self.new += len(piece.content)
        if self.new > max(MERGE_AFTER_ROWS, self.settled):
            self.pieces = self.merged(failed)
            self.new, self.settled = 0, sum(len(piece.content) for piece in self.pieces)

    def merged(self, failed: Failed | None) -> list[Piece]:
        """Return the pieces as few."""
        return list(self.stage.merge(self.pieces, failed)) if self.pieces else []


class Stopwatch:
    """Seconds between laps, by name; laps of one name are added up."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        """End a lap."""
        now = perf_counter()
        self.laps[name], self._last = self.laps.get(name, 0.0) + now - self._last, now


def add_seen(counts: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, Seen]:
    """Return the counts of several tasks, by stream, added up."""
    total: dict[str, Seen] = {}
    for by_stream in counts:
        for stream, seen in by_stream.items():
            total[stream] = total.get(stream, Seen()) + Seen(**seen)
    return total


def blame(failed: Failed | None, more: Failed) -> Failed:
    """Return the queries that cannot be answered with more of them; the first of these is raised where that
    fails the whole."""
    if failed is None:
        raise next(iter(more.values()))
    return {**failed, **more}


def as_messages(failed: Failed | None) -> dict[str, str]:
    """Return errors of queries as a report has them."""
    return {name: str(error) for name, error in (failed or {}).items()}


def _gathered(notes: Iterable[Mapping[str, Sequence[Any]]]) -> dict[str, list[Any]]:
    lots: dict[str, list[Any]] = {}
    for by_stage in notes:
        for stage, own in by_stage.items():
            lots.setdefault(stage, []).extend(own)
    return lots
