"""State of one bucket of a stream of joins: its share of every chain, in memory and in layers of files.

Each step adds a layer: the rows it brought, a file per side, and the pairs it found that have to wait. A file
is immutable; where layers are merged, the rows that no query can still need are left out of the new file.
State of other joins than those of now is carried over, from memory or from files, by `JoinCarryOver`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from weft.model.as_data import canonical
from weft.model.join import JoinQuery
from weft.operators import contract
from weft.operators.contract import Kept
from weft.operators.joins.chain import Chain
from weft.operators.joins.lineage import JoinCarryOver, JoinLayout, Lineage
from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.multiway.rounds import Round
from weft.operators.joins.packing import pack_rows
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows, concat
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.union import W
from weft.operators.joins.waiting import carry_waiting, fitted, pack_waiting
from weft.operators.lookups.bind import BoundLookup
from weft.operators.windows.program import WindowProgram
from weft.planning.joins.member import Member

Marks: TypeAlias = contract.Marks

WAITING_NAME = "waiting"
"""The name of the part of a state with results that wait."""


@dataclass(frozen=True)
class Joins:
    """All joins of a stream: the programs of their chains, and what is read of each stream for them.

    ``lineages`` say how each join of each chain came. ``results`` is the program of the queries over results,
    which are a stream of their own. ``lookups`` bring columns of tables to the rows of each stream, before
    anything is evaluated over them; ``schemas`` have what they are looked up by.
    """

    queries: tuple[JoinQuery, ...]
    programs: tuple[JoinProgram, ...]
    ends: tuple[Sequence[Sequence[int]], ...]
    times: Mapping[str, str]
    schemas: Mapping[str, pa.Schema]
    lineages: tuple[tuple[Lineage, ...], ...]
    results: WindowProgram
    lookups: Mapping[str, tuple[BoundLookup, ...]] = field(default_factory=dict)

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
        return [self.chain(number) for number in range(len(self.programs))]

    def chain(self, number: int) -> Chain | MultiwayJoin:
        """Return the empty state of one chain, or of one join of more than two streams."""
        program = self.programs[number]
        return Chain(program, self.ends[number]) if len(program.sides) == 2 else MultiwayJoin(program)


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

    def add_state(self, number: int, chain: Sliced[Any]) -> None:
        """All that a chain keeps."""
        runs = ((side, run) for side, slices in enumerate(chain.sides) for _, runs in slices for run in runs)
        self.add(number, ((side, run.living()) for side, run in runs), chain.union.waiting)

    def restore(self, marks: Marks) -> None:
        """Let the chains take it in, and what time it was after it."""
        for number, chain in enumerate(self.chains):
            now = [marks[s] for s in chain.program.members[0].streams]
            chain.restore(self.rows[number], self.waiting[number], now)

    def __len__(self) -> int:
        return sum(len(r) for lots in self.rows for _, r in lots) + sum(
            w.times.size for lots in self.waiting for w in lots
        )

    def tables(self) -> Iterator[Kept]:
        """Yield what is still needed: a table for the rows of each side, and one for results that wait."""
        for number, chain in enumerate(self.chains):
            for side, side_signatures in enumerate(chain.signatures):
                lots = [chain.useful(side, rows) for s, rows in self.rows[number] if s == side]
                if lots and len(rows := concat(lots)):
                    until = int(chain.needed_until(side, rows).max())
                    table = pack_rows(rows, side_signatures.bits)
                    yield Kept(f"{number}.{side}", table, int(rows.times.max()), until)
            waiting = [w if chain.now is None else _due(w, chain.now) for w in self.waiting[number]]
            waiting = [w for w in waiting if w.times.size]
            if waiting:
                whole = chain.union.concat(waiting)
                newest = int(whole.times.max())
                yield Kept(f"{number}.{WAITING_NAME}", pack_waiting(whole, chain), newest, newest + 1)


def join_chains(
    chains: Sequence[Chain | MultiwayJoin],
    new: Mapping[tuple[int, int], JoinRows],
    marks: Marks,
    share: tuple[int, int],
    last_round: Round | None = None,
) -> tuple[dict[str, pa.Table], Fresh]:
    """Take in the new rows of each chain and side; the results, and what is new and has to be kept.

    ``share`` is the bucket and the number of buckets. ``last_round`` is what joins of more than two streams
    have come to in their rounds, if there were any.
    """
    results: dict[str, pa.Table] = {}
    fresh = Fresh(chains)
    for number, chain in enumerate(chains):
        now = [marks[s] for s in chain.program.members[0].streams]
        lots = [new.get((number, side)) for side in range(len(now))]
        if isinstance(chain, Chain):
            stored = [None if rows is None else _own(chain, rows, *share) for rows in lots]
            results |= chain.join(lots, now, stored)
            own = {side: rows for side, rows in enumerate(stored) if rows is not None}
        elif last_round is None:  # everything is here
            results |= chain.join(lots, now)
            own = {side: rows for side, rows in enumerate(lots) if rows is not None}
        else:
            own, joined = last_round.results_of(number)
            results |= chain.finish(own, joined, now)
        fresh.add(number, own.items(), chain.fresh)
    return results, fresh


def carried_over(
    joins: Joins, chains: Sequence[Sliced[Any]], to: Joins, to_chains: Sequence[Sliced[Any]]
) -> Fresh:
    """Return all that chains keep as state of other joins, of which ``to_chains`` are to take it in."""
    carry_over = JoinCarryOver(joins.layout, to.layout, to.lineages)
    fresh = Fresh(to_chains)
    for old, number, bits in zip(chains, carry_over.numbers, carry_over.carry_overs):
        if number is None or bits is None:
            continue
        chain = to_chains[number]
        numbers = [
            new.number(bits.bits(before.bits)) for new, before in zip(chain.signatures, old.signatures)
        ]
        rows = [
            (side, fitted(side, replace(rows_kept, signatures=numbers[side][rows_kept.signatures]), chain))
            for side, slices in enumerate(old.sides)
            for _, runs in slices
            for rows_kept in (run.living() for run in runs)
        ]
        fresh.add(number, rows, [carry_waiting(w, chain, bits, numbers) for w in old.union.waiting])
    return fresh


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


def _due(results: W, now: int) -> W:
    """The results that wait longer than this."""
    later = results.times >= now
    return results if later.all() else results.take(np.flatnonzero(later))
