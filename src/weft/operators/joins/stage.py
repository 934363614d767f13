"""The stage of joins: all joins of streams, behind the operator contract.

Rows are made ready for the chains: selections evaluated, codes looked up, those that can join nothing left
out. Where a chain's condition has an equality, a row goes to the bucket of its code; elsewhere it goes to all
buckets, probes what each has kept, and is kept by one. Joins of more than two streams need rounds, in which
buckets show each other what new rows have joined to so far. Results that are aggregated are rows of the
stream ``joined``, which window queries read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from weft.model.instants import BEGINNING_OF_TIME
from weft.model.join import RESULT_TIME
from weft.operators.contract import (
    ArrivedRows,
    Exactness,
    Failed,
    Instant,
    Kept,
    Marks,
    Missed,
    Note,
    Piece,
    Prepared,
)
from weft.operators.joins.adapt import rows_report
from weft.operators.joins.bucket import JoinsState
from weft.operators.joins.clock import Admission, OrderedRows, judge_rows
from weft.operators.joins.intake import RowIntake
from weft.operators.joins.lineage import JoinLayout
from weft.operators.joins.pieces import ReadyRows, merge_pieces, pack_piece, unpack_piece
from weft.operators.joins.state import Joins, buckets_of, splits
from weft.operators.joins.tables import compact_tables, translate_table
from weft.operators.joins.tuner import JoinsTuner
from weft.operators.late import AHEAD_REASON
from weft.operators.lookups.bind import BoundLookup
from weft.operators.times import one_batch
from weft.planning.joins.orders import Orders
from weft.planning.joins.rates import ChainCosts, calibrated
from weft.planning.plan import JOINED

JOINS = "joins"
"""The name of the stage."""

LATE_REASON = "late for the joins of its stream"
UNTIMED_REASON = "no event time"

__all__ = ["JOINED", "JOINS", "JoinsStage", "JoinsState"]


@dataclass(frozen=True, eq=False)
class JoinsStage:
    """All joins of one version.

    ``orders`` are the join orders of each join of more than two streams (empty: not measured yet); ``shape``
    and ``costs`` say how chains are sliced.
    """

    joins: Joins
    orders: tuple[Orders | None, ...] = ()
    shape: str | float = "mem-opt"
    costs: ChainCosts = field(default_factory=calibrated)

    @property
    def name(self) -> str:
        """Return the name of the stage."""
        return JOINS

    @property
    def version(self) -> int:
        """Return the version of the joins."""
        return self.joins.version

    @property
    def strict(self) -> bool:
        """Return whether a value that cannot be computed is an error."""
        return self.joins.results.strict

    @property
    def inputs(self) -> Mapping[str, pa.Schema]:
        """The columns that are read of each stream."""
        return self.joins.schemas

    @property
    def lookups(self) -> Mapping[str, Sequence[BoundLookup]]:
        """The tables that rows of each stream look up."""
        return self.joins.lookups

    @property
    def keys(self) -> Mapping[str, Sequence[str]]:
        """No column is best read as a dictionary: rows are kept as they are."""
        return {}

    @property
    def outputs(self) -> Mapping[str, pa.Schema]:
        """The stream of results that are aggregated, if any are."""
        return {JOINED: self.joins.results.schema} if self.joins.feeds else {}

    @property
    def results(self) -> Mapping[str, pa.Schema]:
        """The columns of each join's results, but of those that are aggregated."""
        members = ((p, member) for p in self.joins.programs for member in p.members)
        return {m.name: program.results[m.name] for program, m in members if not m.aggregates}

    @property
    def layout(self) -> Note:
        """The chains, each with the ids of its joins in the order of their bits."""
        return {"chains": self.joins.layout.to_data()}

    @property
    def rounds(self) -> int:
        """Return how many exchanges there are before the step, in which the last side is met."""
        return self.joins.rounds - 1

    def to_data(self) -> dict[str, Any]:
        """Return how each join came, and where slices end, as plain data."""
        joins = self.joins
        return {
            "lines": [[lineage.to_data() for lineage in chain] for chain in joins.lineages],
            "ends": [[list(side) for side in ends] for ends in joins.ends],
        }

    def exact_from(self, query: str) -> Exactness:
        """Return from when on all results of a join are there."""
        _, lineage = self.joins.members[query]
        since = None if lineage.since == BEGINNING_OF_TIME else lineage.since
        zone = self.results[query].field(RESULT_TIME).type.tz
        return Exactness(since, len(lineage.ids) > 1, zone)

    def renumbered(self, version: int) -> JoinsStage:
        """Return the same joins as another version."""
        return replace(self, joins=self.joins.renumbered(version))

    def followed_by(self, joins: Joins) -> JoinsStage:
        """Return the stage of other joins, with the orders of those that stay."""
        before = dict(zip((p.members[0].key for p in self.joins.programs), self.orders))
        orders = tuple(before.get(program.members[0].key) for program in joins.programs)
        return replace(self, joins=joins, orders=orders)

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
        """Make rows of one stream ready for the chains that read it, and address them."""
        joins, bad = self.joins, 0
        table = rows.table.select(self.inputs[stream].names)
        if rows.lookups.indexes:
            batch, bad = rows.lookups.extend(one_batch(table), self.strict, joins.results.zone)
            table = pa.Table.from_batches([batch])
        judged = judge_rows(table, joins.times[stream], marks.get(stream), rows.limit, rows.origins)
        chains = {number: RowIntake(joins.programs[number]) for number, _ in joins.sides[stream]}
        pieces: list[Piece] = []
        for number, side in joins.sides[stream]:
            pieces += _addressed(chains[number], number, side, judged.rows, buckets)
        no_rows: dict[str, Any] = {"sides": []}
        note: Note = {
            "came": [
                rows_report(chains[number]) if number in chains else no_rows
                for number in range(len(joins.programs))
            ],
            "bad": bad + sum(chain.counts.bad for chain in chains.values()),
        }
        return Prepared(pieces, judged.seen, _missed(judged) if keep_missed else None, judged.late, note)

    def merge(self, pieces: Sequence[Piece], failed: Failed | None = None) -> Sequence[Piece]:
        """Return one piece for each bucket and part."""
        return merge_pieces(pieces)

    def pack(self, piece: Piece) -> pa.RecordBatch:
        """Return the content of a piece for another process."""
        return pack_piece(piece)

    def unpack(self, bucket: int, part: str, batch: pa.RecordBatch) -> Piece:
        """Return the piece behind ``pack``."""
        return unpack_piece(bucket, part, batch, self.joins.programs)

    def state(self, bucket: int, buckets: int) -> JoinsState:
        """Return the empty state of one bucket of so many."""
        return JoinsState(self, bucket, buckets)

    def compact(self, kept: Sequence[Kept], marks: Marks, failed: Failed | None = None) -> Sequence[Kept]:
        """Return tables as one for each part, without what no query needs after the marks."""
        return compact_tables(kept, self.joins, marks)

    def translate(self, layout: Note, kept: Kept) -> Kept | None:
        """Return a table of another version as one of this; None where no join needs it."""
        return translate_table(kept, JoinLayout.from_data(layout["chains"]), self.joins)

    def needed_until(self, layout: Note, part: str, newest: Instant, until: Instant) -> Instant:
        """Return ``until``: joins that come later need no row for longer than those it counts for."""
        return until

    def marks_out(self, marks: Marks) -> Marks:
        """Return the time before which all results are there: the least mark of all streams."""
        own_marks = [marks.get(stream) for stream in self.joins.streams]
        known = [mark for mark in own_marks if mark is not None]
        least = min(known) if known and len(known) == len(own_marks) else None
        return dict.fromkeys(self.outputs, least)

    def closing(self, latest: Marks, marks: Marks) -> Marks:
        """Return marks after all rows so far: no result waits for a stream that is behind."""
        streams = self.joins.streams
        times = [time for stream in streams if (time := latest.get(stream)) is not None]
        if not times:
            return {stream: marks.get(stream) for stream in streams}
        known = [mark for stream in streams if (mark := marks.get(stream)) is not None]
        return dict.fromkeys(streams, max([max(times) + 1, *known]))

    def tuner(self) -> JoinsTuner:
        """Return what measures rates and selectivities, and slices and orders joins anew by them."""
        return JoinsTuner(self.joins.programs, self.shape, self.costs)

    def sliced(self, ends: Sequence[Sequence[Sequence[int]]], orders: Sequence[Orders | None]) -> JoinsStage:
        """Return the same joins, with slices that end there, in these orders."""
        return replace(self, joins=replace(self.joins, ends=tuple(ends)), orders=tuple(orders))


def _addressed(chain: RowIntake, number: int, side: int, timed: OrderedRows, buckets: int) -> Iterator[Piece]:
    """The rows of one side of a chain that each bucket has to see."""
    rows, part = chain.rows(side, timed), f"{number}.{side}"
    if rows is None:
        return
    bits = chain.signatures[side].bits
    if buckets == 1 or not splits(chain.program):
        content = ReadyRows(rows, bits)
        yield from (Piece(bucket, part, content) for bucket in range(buckets))
        return
    homes = buckets_of(chain.program, rows, buckets)
    for bucket in np.unique(homes).tolist():
        yield Piece(bucket, part, ReadyRows(rows.take(np.flatnonzero(homes == bucket)), bits))


def _missed(judged: Admission) -> Missed:
    """The rows that are late, have no time, or are ahead of the clock."""
    reasons = np.full(judged.seen.rows, "", dtype=object)
    kinds = ((judged.ahead, AHEAD_REASON), (judged.late, LATE_REASON), (judged.untimed, UNTIMED_REASON))
    for mask, reason in kinds:
        if mask.size:
            reasons[mask] = reason
    places = np.flatnonzero(reasons.astype(np.bool_))
    return Missed(places, reasons[places].tolist())
