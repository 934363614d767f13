"""One bucket of the stage of joins: its share of every chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from weft.operators.contract import Failed, Kept, Marks, Note, Piece, Prepared, Stepped
from weft.operators.joins.chain import Chain
from weft.operators.joins.feeds import feed_rows
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.multiway.rounds import Round, nodes_of
from weft.operators.joins.pieces import FOUND, PROBE, PartName, ReadyRows
from weft.operators.joins.rows import JoinRows, concat
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.state import Fresh, buckets_of, carried_over, join_chains, splits
from weft.operators.joins.tables import read_tables
from weft.planning.joins.orders import choose_orders
from weft.planning.plan import JOINED

if TYPE_CHECKING:
    from weft.operators.joins.stage import JoinsStage


class JoinsState:
    """The share of the chains that one bucket of ``buckets`` keeps."""

    def __init__(self, stage: JoinsStage, bucket: int, buckets: int) -> None:
        self.stage, self.bucket, self.buckets = stage, bucket, buckets
        self.chains = stage.joins.chains()
        self.marks: Marks = dict.fromkeys(stage.joins.streams)
        self._set_orders()

    @property
    def rows(self) -> int:
        """Return how many rows and waiting results are kept."""
        return sum(c.state_rows + sum(w.times.size for w in c.union.waiting) for c in self.chains)

    @property
    def bytes(self) -> int:
        """Return about how much memory they take."""
        rows = [run.rows.table for c in self.chains for s in c.sides for runs in s.runs for run in runs]
        waiting = [w.table for c in self.chains for w in c.union.waiting]
        return sum(t.nbytes + 24 * t.num_rows for t in (*rows, *waiting))

    def relay(self, pieces: Sequence[Piece], round_number: int) -> Prepared:
        """Make a round of joins of more than two streams: joined rows meet the rows that are kept here.

        What they come to is shown to all buckets. New rows that are to be kept here, results that need no
        more round, and rows of chains stay in this bucket's hands.
        """
        multiway = dict(self._multiway())
        if self.buckets == 1 or not multiway:  # everything is here
            return Prepared(pieces)
        bad, sent = self._bad(), [p for p in pieces if self._stays(p, round_number)]
        self._forget_work()
        current = self._round(pieces, round_number)
        if round_number == 0:
            for (number, side), rows in current.own.items():
                content = ReadyRows(rows, multiway[number].signatures[side].bits)
                sent.append(Piece(self.bucket, f"{number}.{side}", content))
        for number, join in multiway.items():
            last = len(join.sides) - 2
            for start, tuples in current.probe(number, join, round_number) if round_number <= last else ():
                if round_number == last:
                    sent.append(Piece(self.bucket, f"{number}.{FOUND}", tuples))
                else:
                    part = f"{number}.{PROBE}.{start}"
                    sent += [Piece(bucket, part, tuples) for bucket in range(self.buckets)]
        return Prepared(sent, note={"work": self._work(), "bad": self._bad() - bad})

    def step(
        self, pieces: Sequence[Piece], marks: Marks, failed: Failed | None = None, *, keep: bool = True
    ) -> Stepped:
        """Take in rows, join them, and give the results that no later row can precede."""
        joins = self.stage.joins
        bad, counts = self._bad(), [(chain.counts.near, chain.counts.joined) for chain in self.chains]
        self._forget_work()
        self.marks = {stream: marks.get(stream) for stream in joins.streams}
        last = self._last_round(pieces)
        alone = [n for n, chain in enumerate(self.chains) if last is None or isinstance(chain, Chain)]
        new = self._rows(pieces, alone)
        results, fresh = join_chains(self.chains, new, self.marks, (self.bucket, self.buckets), last)
        feeds = {feed: results.pop(name) for name, feed in joins.feeds.items() if name in results}
        outputs = {JOINED: feed_rows(feeds, joins.results.schema)} if feeds else {}
        note: Note = {
            "bad": self._bad() - bad,
            "pairs": [
                [self._all_pairs(chain, chain.counts.near - near), chain.counts.joined - joined]
                for chain, (near, joined) in zip(self.chains, counts)
            ],
            "work": self._work(),
            "kept": {str(n): [len(slices) for slices in c.sides] for n, c in enumerate(self.chains)},
        }
        return Stepped(results, outputs, tuple(fresh.tables()) if keep else (), note)

    def absorb(self, kept: Iterable[Kept]) -> None:
        """Take in tables of rows and waiting results."""
        read_tables(kept, self.stage.joins, self.chains).restore(self.marks)

    def advance(self, marks: Marks) -> None:
        """Forget rows that no result after the marks needs, and results that had gone out by then."""
        self.marks = {stream: marks.get(stream) for stream in self.stage.joins.streams}
        Fresh(self.chains).restore(self.marks)

    def snapshot(self) -> Sequence[Kept]:
        """Return all rows that a query can still need, and all results that wait."""
        contents = Fresh(self.chains)
        for number, chain in enumerate(self.chains):
            contents.add_state(number, chain)
        return tuple(contents.tables())

    def moved(self, stage: JoinsStage) -> JoinsState:
        """Return this state for other joins, or for the same in other slices and orders."""
        before, joins = self.stage.joins, stage.joins
        if before.layout == joins.layout and before.programs == joins.programs:
            for chain, ends in zip(self.chains, joins.ends):
                if isinstance(chain, Chain) and [s.ends for s in chain.sides] != [list(e) for e in ends]:
                    chain.reshape(ends)
            self.stage = stage
            self._set_orders()
            return self
        new = JoinsState(stage, self.bucket, self.buckets)
        new.marks = {stream: self.marks.get(stream) for stream in joins.streams}
        carried_over(before, self.chains, joins, new.chains).restore(new.marks)
        return new

    def split(self, buckets: int) -> Sequence[JoinsState]:
        """Return this state as those of more buckets: each row and each waiting result is in one of them."""
        joins, states = self.stage.joins, []
        shares = buckets // self.buckets
        for share in range(shares):
            state = JoinsState(self.stage, self.bucket + share * self.buckets, buckets)
            contents = carried_over(joins, self.chains, joins, state.chains)
            for number, chain in enumerate(state.chains):
                contents.rows[number] = [
                    (side, rows.take(np.flatnonzero(self._shares(chain, side, rows, shares) == share)))
                    for side, rows in contents.rows[number]
                ]
                contents.waiting[number] = [
                    w.take(np.flatnonzero(w.times % shares == share)) for w in contents.waiting[number]
                ]
            state.marks = dict(self.marks)
            contents.restore(state.marks)
            states.append(state)
        return states

    def forget_carried(self) -> None:
        """Let go the indices of kept rows."""
        for chain in self.chains:
            for slices in chain.sides:
                for run in (run for runs in slices.runs for run in runs):
                    run.rows.forget_indices()

    def read(self, query: str) -> pa.Table:
        """Return the results of a query that wait: there would be no others if the streams ended now."""
        schema = self.stage.results[query]
        for chain in self.chains:
            if query in chain.program.results and (results := chain.pending(query)) is not None:
                return results
        return schema.empty_table()

    def _multiway(self) -> Iterator[tuple[int, MultiwayJoin]]:
        """The joins of more than two streams, with their numbers."""
        for number, chain in enumerate(self.chains):
            if isinstance(chain, MultiwayJoin):
                yield number, chain

    def _set_orders(self) -> None:
        """Take the join orders of the stage; where it has none, those that are best as far as is known."""
        orders = self.stage.orders or (None,) * len(self.chains)
        for number, join in self._multiway():
            unknown = [0.0] * len(join.sides)
            join.orders = orders[number] or choose_orders(join.levels, unknown, {})

    def _rows(self, pieces: Sequence[Piece], numbers: Iterable[int]) -> dict[tuple[int, int], JoinRows]:
        """The new rows of some chains, by chain and side."""
        lots: dict[tuple[int, int], list[JoinRows]] = {}
        chosen = set(numbers)
        for piece in pieces:
            part = PartName.read(piece.part)
            if not part.kind and part.chain in chosen:
                rows = piece.content.signed(self.chains[part.chain].signatures[part.side])
                lots.setdefault((part.chain, part.side), []).append(rows)
        return {key: rows[0] if len(rows) == 1 else concat(rows) for key, rows in lots.items()}

    def _round(self, pieces: Sequence[Piece], round_number: int) -> Round:
        """The rows of joins of more than two streams that this bucket has in hand, and those it is shown."""
        multiway = dict(self._multiway())
        new = self._rows(pieces, multiway)
        if round_number == 0:
            return Round.begin(new, multiway, self.bucket, self.buckets)
        current = Round(own=new)
        for piece in pieces:
            part = PartName.read(piece.part)
            if part.kind == PROBE:
                current.probes.setdefault((part.chain, part.side), []).append(piece.content)
            elif part.kind == FOUND:
                current.results.setdefault(part.chain, []).append(piece.content)
        return current

    def _last_round(self, pieces: Sequence[Piece]) -> Round | None:
        """Make the last round, in which what is left becomes results; None where everything is here."""
        multiway, round_number = dict(self._multiway()), self.stage.rounds
        if self.buckets == 1 or not multiway:
            return None
        current = self._round(pieces, round_number)
        for number, join in multiway.items():
            if len(join.sides) - 2 == round_number:
                current.results[number] = [t for _, t in current.probe(number, join, round_number)]
        return current

    def _stays(self, piece: Piece, round_number: int) -> bool:
        """Return whether a piece is of no concern to a round, and stays as it is."""
        part = PartName.read(piece.part)
        if part.kind:
            return part.kind == FOUND
        return round_number > 0 or isinstance(self.chains[part.chain], Chain)

    def _shares(self, chain: Sliced[Any], side: int, rows: JoinRows, shares: int) -> np.ndarray:
        """The share of the bucket, split into so many, that each row belongs to."""
        if isinstance(chain, Chain):
            return buckets_of(chain.program, rows, self.buckets * shares) // self.buckets
        return nodes_of(chain.program, side, rows.times, shares)

    def _all_pairs(self, chain: Sliced[Any], near: int) -> int:
        """Pairs near enough in time: where rows are split by code, a bucket sees one share of one share."""
        return near * self.buckets if splits(chain.program) else near

    def _bad(self) -> int:
        return sum(chain.counts.bad for chain in self.chains)

    def _forget_work(self) -> None:
        for _, join in self._multiway():
            join.work = {}

    def _work(self) -> list[list[Any]]:
        """List the work of each level: join, sides before, side, pairs, candidates, joined rows."""
        return [
            [number, sorted(bound), side, *asdict(done).values()]
            for number, join in self._multiway()
            for (bound, side), done in join.work.items()
        ]
