"""State of one bucket of a stream of joins: its share of every chain, in memory and in layers of files.

Each step adds a layer: the rows it brought, a file per side, and the pairs it found that have to wait. A file
is immutable; where layers are merged, the rows that no query can still need are left out of the new file.
State of other joins than those of now is carried over, from memory or from files, by `JoinCarryOver`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from weft.model.as_data import canonical
from weft.model.join import JoinQuery
from weft.operators.joins.chain import Chain
from weft.operators.joins.fitting import fitted
from weft.operators.joins.lineage import JoinCarryOver, JoinLayout, Lineage
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.multiway.rounds import Round
from weft.operators.joins.packing import pack_rows, unpack_rows
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows, concat
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.union import W
from weft.operators.joins.waiting import carry_waiting, pack_waiting
from weft.operators.windows.program import Program
from weft.planning.joins.member import MAX_SIDES, Member

PARTS_PER_CHAIN = MAX_SIDES + 1
"""Kinds of files of joins that share their state: rows of each side, and results that wait."""

WAITING_PART = MAX_SIDES
"""The kind of files with results that wait."""

Marks = Mapping[str, int | None]
"""The watermark of each stream."""


@dataclass(frozen=True)
class Joins:
    """All joins of a stream: the programs of their chains, and what is read of each stream for them.

    ``lineages`` say how each join of each chain came. ``results`` is the program of the queries over results,
    which are a stream of their own.
    """

    queries: tuple[JoinQuery, ...]
    programs: tuple[JoinProgram, ...]
    ends: tuple[Sequence[Sequence[int]], ...]
    times: Mapping[str, str]
    schemas: Mapping[str, pa.Schema]
    lineages: tuple[tuple[Lineage, ...], ...]
    results: Program

    @property
    def version(self) -> int:
        """The version of the joins."""
        return self.results.version

    def renumbered(self, version: int) -> Joins:
        """The same joins as another version."""
        return replace(self, results=replace(self.results, version=version))

    @cached_property
    def members(self) -> dict[str, tuple[Member, Lineage]]:
        """The join behind each query, and how it came."""
        members: dict[str, tuple[Member, Lineage]] = {}
        for program, lineages in zip(self.programs, self.lineages):
            for member, lineage in zip(program.members, lineages):
                members |= dict.fromkeys(member.answers, (member, lineage))
        return members

    @cached_property
    def layout(self) -> JoinLayout:
        """Return the layout of state that is written with these joins."""
        chains = zip(self.programs, self.lineages)
        return JoinLayout(
            tuple(
                (chain_key(p.members[0]), tuple(lineage.id for lineage in lineages)) for p, lineages in chains
            )
        )

    @cached_property
    def feeds(self) -> dict[str, str]:
        """The ids of the joins whose results are aggregated, by their names in the chains."""
        pairs = (
            (m, lineage)
            for p, lineages in zip(self.programs, self.lineages)
            for m, lineage in zip(p.members, lineages)
        )
        return {m.name: lineage.id for m, lineage in pairs if m.aggregates}

    def result_schema(self, name: str) -> pa.Schema:
        """The schema of a query's results."""
        member, _ = self.members[name]
        if member.aggregates:
            return self.results.result_schema(name)
        return next(p.results[name] for p in self.programs if name in p.results)

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams, in order of name."""
        return tuple(self.schemas)

    @cached_property
    def sides(self) -> dict[str, list[tuple[int, int]]]:
        """Return where each stream is read: the chain and its side."""
        places: dict[str, list[tuple[int, int]]] = {s: [] for s in self.streams}
        for number, program in enumerate(self.programs):
            for side, stream in enumerate(program.members[0].streams):
                places[stream].append((number, side))
        return places

    @property
    def rounds(self) -> int:
        """Return how many other sides a new row may have to meet, one after the other."""
        return max((len(program.sides) for program in self.programs), default=2) - 1

    def chains(self) -> list[Chain | MultiwayJoin]:
        """Empty states, of chains and of joins of more than two streams."""
        return [
            Chain(program, ends) if len(program.sides) == 2 else MultiwayJoin(program)
            for program, ends in zip(self.programs, self.ends)
        ]


class JoinState:
    """One bucket's share of the chains."""

    def __init__(self, joins: Joins, bucket: int) -> None:
        self.joins, self.bucket = joins, bucket
        self.chains = joins.chains()

    @property
    def rows(self) -> int:
        """Return how many rows and waiting pairs are kept."""
        return sum(c.state_rows + sum(p.times.size for p in c.union.waiting) for c in self.chains)

    @property
    def bytes(self) -> int:
        """About how much memory they take."""
        rows = [run.rows.table for c in self.chains for s in c.sides for runs in s.runs for run in runs]
        pairs = [p.table for c in self.chains for p in c.union.waiting]
        return sum(t.nbytes + 24 * t.num_rows for t in (*rows, *pairs))

    def step(
        self,
        arrived: Mapping[tuple[int, int], Sequence[pa.RecordBatch]],
        marks: Marks,
        buckets: int,
        last_round: Round | None = None,
    ) -> tuple[dict[str, pa.Table], Fresh]:
        """Take in the packed rows of each chain and side; the results, and what is new and has to be kept.

        ``last_round`` is what joins of more than two streams have come to in their rounds, if there were any.
        """
        results: dict[str, pa.Table] = {}
        fresh = Fresh(self.chains)
        for number, chain in enumerate(self.chains):
            streams = chain.program.members[0].streams
            if isinstance(chain, MultiwayJoin):
                now = [marks[s] for s in streams]
                if last_round is None:  # everything is here
                    lots = [
                        unpacked(chain, side, arrived.get((number, side), ())) for side in range(len(now))
                    ]
                    own = {side: rows for side, rows in enumerate(lots) if rows is not None}
                    results |= chain.join(lots, now)
                else:
                    own, joined = last_round.results_of(number)
                    results |= chain.finish(own, joined, now)
                fresh.add(number, own.items(), chain.fresh)
                continue
            new, stored = list[JoinRows | None](), list[JoinRows | None]()
            for side in range(2):
                rows = unpacked(chain, side, arrived.get((number, side), ()))
                own_rows = None if rows is None else _own(chain, rows, self.bucket, buckets)
                new.append(rows)
                stored.append(own_rows)
            results |= chain.join(new, [marks[s] for s in streams], stored)
            fresh.add(number, [(side, rows) for side, rows in enumerate(stored) if rows], chain.fresh)
        return results, fresh

    def carried_over(self, joins: Joins, marks: Marks) -> JoinState:
        """Return the same state for other joins; this one must not be used any more."""
        new = JoinState(joins, self.bucket)
        carry_over = JoinCarryOver(self.joins.layout, joins.layout, joins.lineages)
        fresh = Fresh(new.chains)
        for old, number, bits in zip(self.chains, carry_over.numbers, carry_over.carry_overs):
            if number is None or bits is None:
                continue
            chain = new.chains[number]
            numbers = [
                new.number(bits.bits(before.bits)) for new, before in zip(chain.signatures, old.signatures)
            ]
            rows = [
                (
                    side,
                    fitted(side, replace(rows_kept, signatures=numbers[side][rows_kept.signatures]), chain),
                )
                for side, slices in enumerate(old.sides)
                for _, runs in slices
                for rows_kept in (run.living() for run in runs)
            ]
            fresh.add(number, rows, [carry_waiting(w, chain, bits, numbers) for w in old.union.waiting])
        new.restore(fresh, marks)
        return new

    def restore(self, fresh: Fresh, marks: Marks) -> None:
        """Take in rows and waiting results, and what time it was after them."""
        for number, chain in enumerate(self.chains):
            now = [marks[s] for s in chain.program.members[0].streams]
            chain.restore(fresh.rows[number], fresh.waiting[number], now)


class Fresh:
    """Rows and results that wait, on the way to files, by chain."""

    def __init__(self, chains: Sequence[Sliced[Any]]) -> None:
        self.chains = chains
        self.rows: list[list[tuple[int, JoinRows]]] = [[] for _ in chains]
        self.waiting: list[list[Any]] = [[] for _ in chains]

    def add(self, number: int, rows: Iterable[tuple[int, JoinRows]], waiting: Iterable[Any]) -> None:
        """More of one chain."""
        self.rows[number] += rows
        self.waiting[number] += waiting

    def __len__(self) -> int:
        return sum(len(r) for lots in self.rows for _, r in lots) + sum(
            w.times.size for lots in self.waiting for w in lots
        )

    def parts(self) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Yield what is still needed: the kind of file, the watermark until when, and what is in it."""
        for number, chain in enumerate(self.chains):
            for side, side_signatures in enumerate(chain.signatures):
                lots = [chain.useful(side, rows) for s, rows in self.rows[number] if s == side]
                if lots and len(rows := concat(lots)):
                    until = int(chain.needed_until(side, rows).max())
                    yield number * PARTS_PER_CHAIN + side, until, pack_rows(rows, side_signatures)
            waiting = [w if chain.now is None else _due(w, chain.now) for w in self.waiting[number]]
            waiting = [w for w in waiting if w.times.size]
            if waiting:
                whole = chain.union.concat(waiting)
                until = int(whole.times.max()) + 1
                yield number * PARTS_PER_CHAIN + WAITING_PART, until, pack_waiting(whole, chain)


def chain_key(member: Member) -> str:
    """A text that joins share which can be in one chain, and no others."""
    return json.dumps([*member.streams, *map(canonical, member.conditions)])


def buckets_of(program: JoinProgram, rows: JoinRows, buckets: int) -> np.ndarray:
    """The bucket that keeps each row: by what has to be equal, else by time; every process says the same."""
    words = (rows.values if splits(program) else rows.times).astype(np.uint64)
    words = (words ^ (words >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return ((words >> np.uint64(33)) % np.uint64(buckets)).astype(np.int64)


def splits(program: JoinProgram) -> bool:
    """Return whether rows of different buckets cannot join; elsewhere all new rows probe every bucket."""
    return not program.access.by_time and not program.access.width


def _own(chain: Chain, rows: JoinRows, bucket: int, buckets: int) -> JoinRows | None:
    """The rows that a bucket keeps, of all that probe it."""
    if splits(chain.program):
        return rows
    own_places = np.flatnonzero(buckets_of(chain.program, rows, buckets) == bucket)
    return rows.take(own_places) if own_places.size else None


def unpacked(chain: Sliced[Any], side: int, batches: Sequence[pa.RecordBatch]) -> JoinRows | None:
    """Rows of one side, of several packed lots."""
    if not batches:
        return None
    schema = chain.program.schemas[side]
    return concat([unpack_rows(b, chain.signatures[side], schema) for b in batches])


def _due(results: W, now: int) -> W:
    """The results that wait longer than this."""
    later = results.times >= now
    return results if later.all() else results.take(np.flatnonzero(later))
