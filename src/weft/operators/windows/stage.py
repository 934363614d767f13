"""Windows behind the operator contract: the window queries of a stream as a stage, and one bucket of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from weft.model.instants import BEGINNING_OF_TIME, END_OF_TIME
from weft.operators.blame import PartsFailed, blaming
from weft.operators.contract import (
    ArrivedRows,
    Exactness,
    Failed,
    Instant,
    Kept,
    Marks,
    Note,
    Piece,
    Prepared,
    Stepped,
)
from weft.operators.lookups.bind import BoundLookup, key_columns
from weft.operators.windows.answer import closing_time, final
from weft.operators.windows.carry_over import LatestCarryOver, WindowCarryOver
from weft.operators.windows.copies import copies_of
from weft.operators.windows.lifetime import latest_end, still_needed
from weft.operators.windows.pieces import WindowPiece
from weft.operators.windows.prepare import partials_of
from weft.operators.windows.program import Origin, WindowProgram
from weft.operators.windows.state import BucketCells, GroupingState, one_piece_each


@dataclass(frozen=True)
class WindowsStage:
    """The window queries of one stream, its only input; a part of the state is a grouping, by its number."""

    name: str
    stream: str
    program: WindowProgram

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to tasks: what can be computed again is not."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def version(self) -> int:
        """The version of the queries."""
        return self.program.version

    @property
    def strict(self) -> bool:
        """Return whether a value that cannot be computed stops the run."""
        return self.program.strict

    @cached_property
    def inputs(self) -> Mapping[str, pa.Schema]:
        """The columns that are read of the stream."""
        schema = self.program.schema
        return {self.stream: pa.schema([schema.field(name) for name in self.program.columns])}

    @cached_property
    def keys(self) -> Mapping[str, Sequence[str]]:
        """The columns that rows are grouped or looked up by."""
        keys = key_columns(self.program.lookups).union(*(g.keys for g in self.program.groupings))
        return {self.stream: sorted(keys)}

    @property
    def outputs(self) -> Mapping[str, pa.Schema]:
        """Return nothing: no later stage reads results of windows."""
        return {}

    @cached_property
    def results(self) -> Mapping[str, pa.Schema]:
        """The columns of each query's results."""
        return {query.name: self.program.result_schema(query.name) for query in self.program.queries}

    @property
    def lookups(self) -> Mapping[str, Sequence[BoundLookup]]:
        """The tables that are looked up."""
        return {self.stream: self.program.lookups}

    @cached_property
    def layout(self) -> Note:
        """The layout of the state, as plain data."""
        return self.program.layout.to_dict()

    @property
    def rounds(self) -> int:
        """Return 0: pieces go straight to their buckets."""
        return 0

    def prepare(
        self,
        stream: str,
        rows: ArrivedRows,
        marks: Marks,
        buckets: int,
        *,
        keep_missed: bool = False,
        failed: Failed | None = None,
    ) -> Prepared:
        """Aggregate rows into partials, a piece for each bucket and grouping."""
        partials = partials_of(rows, self.program, self.mark_of(marks), buckets, keep_missed, failed)
        choices = [asdict(choice) for choice in partials.choices]
        late = partials.late_mask
        return Prepared(partials.pieces, partials.seen, partials.missed, late, {"choices": choices})

    def merge(self, pieces: Sequence[Piece], failed: Failed | None = None) -> Sequence[Piece]:
        """Return one piece for each bucket and grouping."""
        with blaming(self.program, failed):
            return one_piece_each(list(map(WindowPiece.of, pieces)), self.program)
        return pieces

    def pack(self, piece: Piece) -> pa.RecordBatch:
        """Return the partials, which are in Arrow's form as they are."""
        return piece.content

    def unpack(self, bucket: int, part: str, batch: pa.RecordBatch) -> Piece:
        """Return the piece behind ``pack``."""
        return WindowPiece(bucket, int(part), batch)

    def state(self, bucket: int, buckets: int) -> WindowsState:
        """Return the empty state of one bucket of so many."""
        return WindowsState(self, BucketCells(self.program, bucket), buckets)

    def compact(self, tables: Sequence[Kept], marks: Marks, failed: Failed | None = None) -> Sequence[Kept]:
        """Return one table for each grouping, equal cells combined, without those that no window needs."""
        merged = BucketCells(self.program)
        for table in tables:
            merged.absorb(_piece(merged, table))
        merged.answered = self.mark_of(marks)
        with blaming(self.program, failed):
            compacted = self.tables_of(merged)
            if merged.failed:
                raise PartsFailed(merged.failed)
            return compacted
        return tables

    def tables_of(self, state: BucketCells) -> list[Kept]:
        """Return what a state holds and some window still needs, a table for each grouping."""
        return still_needed(state.snapshot(), None, self.program)

    def translate(self, layout: Note, table: Kept) -> Kept | None:
        """Return a table of another version's layout as one of this; None where no query needs it."""
        piece = self._carry_overs.of(layout).piece(WindowPiece(0, int(table.part), table.table))
        tables = [] if piece is None else still_needed([piece], None, self.program)
        return tables[0] if tables else None

    def needed_until(self, layout: Note, part: str, newest: Instant, until: Instant) -> Instant:
        """Return the mark until which a table of another version's layout is needed by these queries."""
        number = self._carry_overs.of(layout).numbers[int(part)]
        return BEGINNING_OF_TIME if number is None else latest_end(self.program.groupings[number], newest)

    def copies(self, before: int) -> dict[str, dict[int, int]]:
        """Return by part without keys the buckets that have it whole, and the one of ``before`` that each
        takes it over from."""
        return {str(number): homes for number, homes in copies_of(self.program, before).items()}

    @cached_property
    def _carry_overs(self) -> LatestCarryOver:
        return LatestCarryOver(self.program)

    def marks_out(self, marks: Marks) -> Marks:
        """Return nothing: there are no outputs."""
        return {}

    def closing(self, latest: Marks, marks: Marks) -> Marks:
        """Return the mark that closes every window that can hold a row up to the latest."""
        time, mark = latest.get(self.stream), self.mark_of(marks)
        if time is None:
            return {self.stream: mark}
        until = closing_time(self.program, time)
        return {self.stream: until if mark is None else max(mark, until)}

    def exact_from(self, query: str) -> Exactness:
        """Return from which window on a query has all rows."""
        origin, zone = self.program.by_name[query].origin, self.program.time_type.tz
        if origin.since == BEGINNING_OF_TIME:
            return Exactness(None, False, zone)
        return Exactness(origin.since, origin.since <= origin.latest_when_added, zone)

    def renumbered(self, version: int) -> WindowsStage:
        """Return the same stage as another version."""
        return replace(self, program=replace(self.program, version=version))

    def tuner(self) -> WindowsTuner:
        """Return what watches the steps of this stage."""
        return WindowsTuner()

    def mark_of(self, marks: Marks) -> Instant | None:
        """Return the mark of the only input."""
        return marks.get(self.stream)

    def to_data(self) -> dict[str, Any]:
        """Return the origins of the queries, as plain data."""
        return {
            "origins": {
                # "joined" is the format's word.
                entry.query.name: {
                    "since": entry.origin.since,
                    "joined": entry.origin.latest_when_added,
                    "bucket": entry.origin.bucket,
                }
                for entry in self.program.entries
            }
        }

    @staticmethod
    def origins(data: Mapping[str, Any]) -> dict[str, Origin]:
        """Return the origins behind ``to_data``, by query."""
        return {
            name: Origin(origin["since"], origin["joined"], origin.get("bucket"))
            for name, origin in data["origins"].items()
        }


class WindowsTuner:
    """Nothing is decided anew: what to share is chosen for every batch by its own rows."""

    def learn(self, notes: Sequence[Note]) -> None:
        """Take in the notes of one step."""

    def tuned(self, stage: WindowsStage) -> WindowsStage | None:
        """Return None: the stage is best as it is."""
        return None


class WindowsState:
    """One of so many buckets of a stage: its cells, and the mark up to which windows have been answered."""

    def __init__(self, stage: WindowsStage, cells: BucketCells, buckets: int) -> None:
        self.stage, self.cells, self.buckets = stage, cells, buckets

    @property
    def bucket(self) -> int:
        """Return its number."""
        return self.cells.bucket

    @property
    def rows(self) -> int:
        """Return how many cells and waiting rows are kept."""
        return self.cells.rows

    @property
    def bytes(self) -> int:
        """Return how much memory they take."""
        return self.cells.bytes

    def relay(self, pieces: Sequence[Piece], round_number: int) -> Prepared:
        """Return nothing: there are no rounds."""
        return Prepared(())

    def step(
        self, pieces: Sequence[Piece], marks: Marks, failed: Failed | None = None, *, keep: bool = True
    ) -> Stepped:
        """Absorb pieces, move to the mark, and answer the windows that it has passed.

        Where the state is stored, pieces are merged first, so that it is the same, to the last bit, as one
        that is loaded from what is stored of them.
        """
        program, mark = self.stage.program, self.stage.mark_of(marks)
        errors: Failed | None = None if failed is None else {}
        spent: Counter[int] = Counter()
        own = list(map(WindowPiece.of, self.stage.merge(pieces, errors) if keep else pieces))
        _, answers = final(self.cells, own, mark, program, spent, errors)
        fresh: Sequence[Kept] = ()
        if failed is not None and errors:
            failed |= errors
        elif keep:
            fresh = still_needed([*own, *self.cells.counted_pieces], mark, program)
        seconds = [round(spent[tree] / 1e9, 6) for tree in range(len(program.trees))]
        return Stepped(answers, fresh=fresh, note={"trees": seconds})

    def absorb(self, tables: Iterable[Kept]) -> None:
        """Take in tables of this layout."""
        for table in tables:
            self.cells.absorb(_piece(self.cells, table))

    def advance(self, marks: Marks) -> None:
        """Forget what no window after the mark needs."""
        self.cells.advance(self.stage.mark_of(marks))

    def snapshot(self) -> Sequence[Kept]:
        """Return all that is kept, a table for each grouping."""
        return self.stage.tables_of(self.cells)

    def moved(self, stage: WindowsStage) -> WindowsState:
        """Return this state for another version; where groupings are the same, cells stay as they are."""
        old, new = self.stage.program, stage.program
        if (old.layout, old.groupings) == (new.layout, new.groupings):
            self.cells.program = new
            return WindowsState(stage, self.cells, self.buckets)
        # What is dead by now must not come to life for a longer window, which it is not all of.
        self.cells.forget_dead()
        return WindowsState(stage, WindowCarryOver(old.layout, new).state(self.cells), self.buckets)

    def split(self, buckets: int) -> Sequence[WindowsState]:
        """Return this state as those of more buckets; what has no keys stays in its own."""
        return [WindowsState(self.stage, cells, buckets) for cells in self.cells.split(self.buckets, buckets)]

    def forget_carried(self) -> None:
        """Nothing is carried."""

    def read(self, query: str) -> pa.Table:
        """Return what a query would answer if the stream ended now, from a copy of the cells it needs."""
        entry = self.stage.program.by_name[query]
        alone = replace(self.stage.program, entries=(entry,))
        copy = BucketCells(alone, self.bucket)
        copy.answered = self.cells.answered
        for number in (entry.grouping, alone.groupings[entry.grouping].fed_by):
            if number is None:
                continue
            held = self.cells.groupings[number]
            if held.rows:
                copy.absorb(WindowPiece(self.bucket, number, held.table()))
            if isinstance(held, GroupingState):
                copy.inherit({(number, *where): error for where, error in held.failed.items()})
        _, answers = final(copy, (), END_OF_TIME, alone)
        return answers.get(query, self.stage.results[query].empty_table())


def _piece(state: BucketCells, table: Kept) -> WindowPiece:
    return WindowPiece(state.bucket, int(table.part), table.table)
