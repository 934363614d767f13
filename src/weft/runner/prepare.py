"""Rows of a stream prepared for every stage that reads it: read once, whatever the number of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from weft.io.files import Chunk
from weft.operators.contract import ArrivedRows, Failed, Instant, Missed, Note, Piece, Stage
from weft.operators.lookups.index import NO_LOOKUPS, Lookups
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import Seen, one_batch, read_times
from weft.operators.watermark import latest_times
from weft.operators.windows.missed import MissedMasks, missed_rows
from weft.operators.windows.sharing import SharingChoice
from weft.runner.clock import StepTime
from weft.runner.late import rows_missed
from weft.runner.program import Program


@dataclass(frozen=True)
class StepLookups:
    """The lookup tables of one step, by stage and stream."""

    by_stage: Mapping[tuple[str, str], Lookups] = field(default_factory=dict)

    @classmethod
    def of(cls, tables: LookupTables, program: Program) -> StepLookups:
        """Return the lookups of a program, of tables as they are now."""
        tables.refresh(program.lookups)
        return cls(
            {
                (stage.name, stream): tables.lookups(bound)
                for stage in program.stages
                for stream, bound in stage.lookups.items()
                if bound
            }
        )

    def get(self, stage: str, stream: str) -> Lookups:
        """Return the lookups of a stage for a stream."""
        return self.by_stage.get((stage, stream), NO_LOOKUPS)


@dataclass
class PreparedRows:
    """Rows of one stream prepared for all stages: pieces and notes by stage, counts, and, where asked for,
    the rows that missed something. Where queries ``failed`` the rest is to be thrown away."""

    stream: str
    seen: Seen = field(default_factory=Seen)
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    notes: dict[str, Note] = field(default_factory=dict)
    missed: pa.Table | None = None
    failed: Failed = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def choices(self) -> list[SharingChoice]:
        """The sharing of the rows, group-by by group-by."""
        return [SharingChoice.from_dict(c) for note in self.notes.values() for c in note.get("choices", ())]


def prepare_chunk(
    program: Program,
    time: StepTime,
    stream: str,
    chunk: Chunk,
    buckets: Callable[[Stage], int],
    lookups: StepLookups,
    *,
    keep_missed: bool,
) -> PreparedRows:
    """Prepare rows of a stream, a source's or an earlier stage's, for every stage that reads it."""
    began, prepared = perf_counter(), PreparedRows(stream)
    limit = time.limit(stream) if stream in program.schemas else None
    stages = [stage for stage in program.stages if stream in stage.inputs]
    late = np.zeros(0, np.bool_)
    missed: list[tuple[Missed, Instant | None]] = []
    if not stages:
        prepared.seen, uncounted = rows_unread(chunk, program.times[stream], limit)
        missed.append((uncounted, None))
    for number, stage in enumerate(stages):
        rows = ArrivedRows(chunk.table, limit, chunk.origins, lookups.get(stage.name, stream))
        marks = time.marks_of(stage)
        failed = None if program.strict else prepared.failed
        result = stage.prepare(stream, rows, marks, buckets(stage), keep_missed=keep_missed, failed=failed)
        if prepared.failed:
            return prepared
        prepared.pieces[stage.name], prepared.notes[stage.name] = list(result.pieces), result.note
        if result.late.size:
            late = result.late if not late.size else late | result.late
        if result.missed is not None:
            missed.append((result.missed, marks[stream]))
        # Rows, times and partitions are the stream's: all stages have counted the same.
        seen, bad = prepared.seen if number else result.seen, result.seen.bad + result.note.get("bad", 0)
        prepared.seen = replace(seen, bad=prepared.seen.bad + bad)
    if len(stages) > 1:
        prepared.seen = replace(prepared.seen, late=int(np.count_nonzero(late)))
    if keep_missed:
        prepared.missed = rows_missed(chunk.table, program.schemas[stream], missed, program.reads.get(stream))
    prepared.seconds = perf_counter() - began
    return prepared


def rows_unread(chunk: Chunk, time: str, limit: int | None) -> tuple[Seen, Missed]:
    """Return the counts of rows that no query reads, and those that have no time or are ahead."""
    batch = one_batch(chunk.table.select([time]))
    times, usable = read_times(batch.column(0))
    latest = latest_times(times, usable, chunk.origins, limit)
    timed = times[usable] if usable.size else times
    ahead = timed[timed > limit] if limit is not None else timed[:0]
    seen = Seen(
        times.size,
        0,
        times.size - timed.size,
        0,
        max(latest.values(), default=None),
        ahead.size,
        int(ahead.max()) if ahead.size else None,
        latest,
    )
    untimed = ~usable if usable.size else np.zeros(times.size, np.bool_)
    is_ahead = ~untimed & (times > limit) if limit is not None else np.zeros(times.size, np.bool_)
    masks = MissedMasks(untimed, None, None, is_ahead)
    return seen, missed_rows((), times, masks, None)
