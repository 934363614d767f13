"""What one bucket of a stream of joins keeps: its share of every chain, in memory and in layers of files.

Each step adds a layer: the rows it brought, a file per side, and the pairs it found that have to wait. A file
is immutable; where layers are merged, the rows that no query can still need are left out of the new file.
State of other joins than those of now is carried over, from memory or from files, by `Transfer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from weft.engine.layers import MOST_LAYERS, how_many, read_file, write_file
from weft.engine.manifest import Layer
from weft.engine.program import Program
from weft.engine.versions import read_version
from weft.errors import CheckpointError
from weft.joins.chain import Chain
from weft.joins.lines import Layout, Line, Transfer, fitted
from weft.joins.member import MOST_SIDES, Member
from weft.joins.multiway.join import MultiwayJoin
from weft.joins.multiway.ring import Flight
from weft.joins.program import JoinProgram
from weft.joins.rows import Rows, concat
from weft.joins.sliced import Sliced
from weft.joins.stored import pack_rows, unpack_rows
from weft.joins.union import W
from weft.joins.waiting import move_waiting, pack_waiting, unpack_waiting
from weft.query import JoinQuery
from weft.query_json import canonical

PARTS = MOST_SIDES + 1
"""Kinds of files of joins that share their state: rows of each side, and results that wait."""

WAITING = MOST_SIDES

Marks = Mapping[str, int | None]
"""The watermark of each stream."""


@dataclass(frozen=True)
class Joins:
    """All joins of a stream: the programs of their chains, and what is read of each stream for them.

    ``lines`` say how each join of each chain came. ``results`` is the program of the queries over results,
    which are a stream of their own.
    """

    queries: tuple[JoinQuery, ...]
    programs: tuple[JoinProgram, ...]
    ends: tuple[Sequence[Sequence[int]], ...]
    times: Mapping[str, str]
    schemas: Mapping[str, pa.Schema]
    lines: tuple[tuple[Line, ...], ...]
    results: Program

    @property
    def version(self) -> int:
        """The version of the joins."""
        return self.results.version

    def renumbered(self, version: int) -> Joins:
        """The same joins as another version."""
        return replace(self, results=replace(self.results, version=version))

    @cached_property
    def members(self) -> dict[str, tuple[Member, Line]]:
        """The join behind each query, and how it came."""
        found: dict[str, tuple[Member, Line]] = {}
        for program, lines in zip(self.programs, self.lines):
            for member, line in zip(program.members, lines):
                found |= dict.fromkeys(member.answers, (member, line))
        return found

    @cached_property
    def layout(self) -> Layout:
        """What state looks like that is written with these joins."""
        chains = zip(self.programs, self.lines)
        return Layout(tuple((chain_key(p.members[0]), tuple(line.id for line in some)) for p, some in chains))

    @cached_property
    def feeds(self) -> dict[str, str]:
        """The ids of the joins whose results are aggregated, by their names in the chains."""
        both = ((m, line) for p, some in zip(self.programs, self.lines) for m, line in zip(p.members, some))
        return {m.name: line.id for m, line in both if m.aggregates}

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
        """Where each stream is read: the chain and its side."""
        found: dict[str, list[tuple[int, int]]] = {s: [] for s in self.streams}
        for number, program in enumerate(self.programs):
            for side, stream in enumerate(program.members[0].streams):
                found[stream].append((number, side))
        return found

    @property
    def rounds(self) -> int:
        """How many other sides a new row may have to meet, one after the other."""
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
        """How many rows and waiting pairs are kept."""
        return sum(c.state_rows + sum(p.times.size for p in c.union.waiting) for c in self.chains)

    @property
    def bytes(self) -> int:
        """About how much memory they take."""
        kept = [k.rows.table for c in self.chains for s in c.sides for runs in s.runs for k in runs]
        pairs = [p.table for c in self.chains for p in c.union.waiting]
        return sum(t.nbytes + 24 * t.num_rows for t in (*kept, *pairs))

    def step(
        self,
        arrived: Mapping[tuple[int, int], Sequence[pa.RecordBatch]],
        marks: Marks,
        buckets: int,
        flight: Flight | None = None,
    ) -> tuple[dict[str, pa.Table], Fresh]:
        """Take in the packed rows of each chain and side; the results, and what is new and has to be kept.

        ``flight`` is what joins of more than two streams have come to in their rounds, if there were any.
        """
        results: dict[str, pa.Table] = {}
        fresh = Fresh(self.chains)
        for number, chain in enumerate(self.chains):
            streams = chain.program.members[0].streams
            if isinstance(chain, MultiwayJoin):
                now = [marks[s] for s in streams]
                if flight is None:  # everything is here
                    lots = [
                        unpacked(chain, side, arrived.get((number, side), ())) for side in range(len(now))
                    ]
                    own = {side: rows for side, rows in enumerate(lots) if rows is not None}
                    results |= chain.join(lots, now)
                else:
                    own, found = flight.landed(number)
                    results |= chain.finish(own, found, now)
                fresh.add(number, own.items(), chain.fresh)
                continue
            new, stored = list[Rows | None](), list[Rows | None]()
            for side in range(2):
                rows = unpacked(chain, side, arrived.get((number, side), ()))
                mine = None if rows is None else _own(chain, rows, self.bucket, buckets)
                new.append(rows)
                stored.append(mine)
            results |= chain.join(new, [marks[s] for s in streams], stored)
            fresh.add(number, [(side, rows) for side, rows in enumerate(stored) if rows], chain.fresh)
        return results, fresh

    def catch_up(self, place: str, layers: Iterable[Layer], marks: Marks) -> None:
        """Take in layers that are not in it yet, and what time it was after them."""
        self._restore(read_layers(place, layers, self.joins, self.chains), marks)

    def moved(self, joins: Joins, marks: Marks) -> JoinState:
        """The same state for other joins; this one must not be used any more."""
        new = JoinState(joins, self.bucket)
        transfer = Transfer(self.joins.layout, joins.layout, joins.lines)
        found = Fresh(new.chains)
        for old, number, move in zip(self.chains, transfer.numbers, transfer.moves):
            if number is None or move is None:
                continue
            chain = new.chains[number]
            signs = [new.number(move.bits(before.bits)) for new, before in zip(chain.signs, old.signs)]
            rows = [
                (side, fitted(side, replace(some, signs=signs[side][some.signs]), chain))
                for side, slices in enumerate(old.sides)
                for _, runs in slices
                for some in (kept.living() for kept in runs)
            ]
            found.add(number, rows, [move_waiting(w, chain, move, signs) for w in old.union.waiting])
        new._restore(found, marks)
        return new

    def _restore(self, found: Fresh, marks: Marks) -> None:
        for number, chain in enumerate(self.chains):
            now = [marks[s] for s in chain.program.members[0].streams]
            chain.restore(found.rows[number], found.waiting[number], now)


class Fresh:
    """Rows and results that wait, on the way to files, by chain."""

    def __init__(self, chains: Sequence[Sliced[Any]]) -> None:
        self.chains = chains
        self.rows: list[list[tuple[int, Rows]]] = [[] for _ in chains]
        self.waiting: list[list[Any]] = [[] for _ in chains]

    def add(self, number: int, rows: Iterable[tuple[int, Rows]], waiting: Iterable[Any]) -> None:
        """More of one chain."""
        self.rows[number] += rows
        self.waiting[number] += waiting

    def __len__(self) -> int:
        return sum(len(r) for some in self.rows for _, r in some) + sum(
            w.times.size for some in self.waiting for w in some
        )

    def parts(self) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """What is still needed: the kind of file, the watermark until when, and what is in it."""
        for number, chain in enumerate(self.chains):
            for side, signs in enumerate(chain.signs):
                some = [chain.useful(side, rows) for s, rows in self.rows[number] if s == side]
                if some and len(rows := concat(some)):
                    until = int(chain.needed_until(side, rows).max())
                    yield number * PARTS + side, until, pack_rows(rows, signs)
            waiting = [w if chain.now is None else _due(w, chain.now) for w in self.waiting[number]]
            waiting = [w for w in waiting if w.times.size]
            if waiting:
                all = chain.union.concat(waiting)
                yield number * PARTS + WAITING, int(all.times.max()) + 1, pack_waiting(all, chain)


def add_layer(
    place: str,
    layers: Sequence[Layer],
    fresh: Fresh,
    bucket: int,
    step: tuple[int, str],
    now: int | None,
    joins: Joins,
) -> tuple[Layer, ...]:
    """The bucket's layers after a step (its seq and token); ``now`` is the least watermark of all streams."""
    seq, token = step
    kept = [layer for layer in layers if now is None or layer.needed_until > now]
    first = seq
    if len(kept) >= MOST_LAYERS and (taken := how_many(kept, len(fresh))):
        merged, kept = kept[-taken:], kept[:-taken]
        first = merged[0].first
        old = read_layers(place, merged, joins, fresh.chains)
        for number in range(len(fresh.chains)):
            fresh.add(number, old.rows[number], old.waiting[number])
    files, untils = [], []
    for part, until, batch in fresh.parts():
        newest = int(batch.column("_time").to_numpy().max())
        files.append(write_file(place, batch, (seq, bucket, part, token), newest))
        untils.append(until)
    if not files:
        return tuple(kept)
    return (*kept, Layer(first, seq, max(untils), tuple(files), joins.version))


def read_layers(place: str, layers: Iterable[Layer], joins: Joins, chains: Sequence[Sliced[Any]]) -> Fresh:
    """What layers hold; CheckpointError where a file is missing or damaged."""
    found = Fresh(chains)
    transfers: dict[int, Transfer] = {}
    for layer in layers:
        if layer.version not in transfers:
            layout = joins.layout if layer.version == joins.version else read_layout(place, layer.version)
            transfers[layer.version] = Transfer(layout, joins.layout, joins.lines)
        transfer = transfers[layer.version]
        for file in layer.files:
            number, part = divmod(file.grouping, PARTS)
            to, move = transfer.numbers[number], transfer.moves[number]
            if to is None or move is None:
                continue
            chain, batch = chains[to], read_file(place, file)
            if part < WAITING:
                rows = unpack_rows(batch, chain.signs[part], chain.program.schemas[part], move)
                found.add(to, [(part, fitted(part, rows, chain))], [])
            else:
                found.add(to, [], [unpack_waiting(batch, chain, move)])
    return found


def read_layout(place: str, version: int) -> Layout:
    """What state looks like that was written under a version."""
    joins = read_version(place, version).joins
    if joins is None:
        raise CheckpointError(f"version {version} of checkpoint '{place}' is not of joins")
    return Layout.from_data(joins["layout"])


def chain_key(member: Member) -> str:
    """A text that joins share which can be in one chain, and no others."""
    return json.dumps([*member.streams, *map(canonical, member.conditions)])


def buckets_of(program: JoinProgram, rows: Rows, buckets: int) -> np.ndarray:
    """The bucket that keeps each row: by what has to be equal, else by time; every process says the same."""
    words = (rows.values if splits(program) else rows.times).astype(np.uint64)
    words = (words ^ (words >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return ((words >> np.uint64(33)) % np.uint64(buckets)).astype(np.int64)


def splits(program: JoinProgram) -> bool:
    """Whether rows of different buckets cannot join; elsewhere all new rows probe every bucket."""
    return not program.access.by_time and not program.access.width


def _own(chain: Chain, rows: Rows, bucket: int, buckets: int) -> Rows | None:
    """The rows that a bucket keeps, of all that probe it."""
    if splits(chain.program):
        return rows
    mine = np.flatnonzero(buckets_of(chain.program, rows, buckets) == bucket)
    return rows.take(mine) if mine.size else None


def unpacked(chain: Sliced[Any], side: int, batches: Sequence[pa.RecordBatch]) -> Rows | None:
    """Rows of one side, of several packed lots."""
    if not batches:
        return None
    schema = chain.program.schemas[side]
    return concat([unpack_rows(b, chain.signs[side], schema) for b in batches])


def _due(found: W, now: int) -> W:
    """The results that wait longer than this."""
    later = found.times >= now
    return found if later.all() else found.take(np.flatnonzero(later))
