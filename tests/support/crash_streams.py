"""Small streams to be disturbed: a few batches each, idle times, changes of queries, tables that change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import weft
from support.seeds import seeded_numpy
from weft.io.files import Chunk
from weft.local.readers import Read
from weft.runner.running_queries import RunningQueries

START = 1_704_067_200_000_000
"""The first of January 2024, in microseconds."""
SECOND = 1_000_000
BATCH_SPAN = 20 * SECOND
ROWS = 12
"""Rows of a batch."""

WINDOWS = """
-- name: sums
SELECT k, sum(x) AS total, count(*) AS n FROM a [RANGE '30 s' SLIDE '10 s'] GROUP BY k;
-- name: tops
SELECT k, max(x) AS top FROM a [RANGE '20 s'] WHERE x < 70 GROUP BY k
"""
JOINS = """
-- name: pairs
SELECT a.k, a.x, b.x AS y FROM a [RANGE '20 s'], b [RANGE '10 s'] WHERE a.k = b.k AND a.x < b.x;
-- name: near
SELECT a.k, b.k AS other FROM a [RANGE '10 s'], b [RANGE '10 s'] WHERE a.k = b.k AND a.x > 40
"""
MIX = """
-- name: sums
SELECT k, sum(x) AS total FROM a [RANGE '30 s' SLIDE '10 s'] GROUP BY k;
-- name: of_b
SELECT count(*) AS n FROM b [RANGE '20 s'];
-- name: pairs
SELECT a.k, a.x, b.x AS y FROM a [RANGE '20 s'], b [RANGE '10 s'] WHERE a.k = b.k AND a.x < b.x;
-- name: per_key
SELECT a.k, count(*) AS n, sum(b.x) AS total FROM a [RANGE '20 s'], b [RANGE '10 s'] WHERE a.k = b.k
GROUP BY a.k, window('20 s')
"""
LOOKUPS = """
-- name: named
SELECT c.label, sum(x) AS total, count(*) AS n FROM a [RANGE '30 s' SLIDE '10 s'] JOIN names c USING (k)
GROUP BY c.label
"""
ADDED = "-- name: added\nSELECT k, min(x) AS least FROM a [RANGE '20 s' SLIDE '10 s'] GROUP BY k"
OTHER_TOPS = "-- name: tops\nSELECT k, max(x) AS top FROM a [RANGE '20 s'] WHERE x < 30 GROUP BY k"

Change = Callable[[RunningQueries], None]


@dataclass(frozen=True)
class Moment:
    """A batch of every stream, or None while no row comes; changes asked for, and the table, before it."""

    batch: Mapping[str, pa.Table] | None
    change: Change | None = None
    table: pa.Table | None = None


@dataclass(frozen=True)
class SmallStream:
    """A stream and the queries over it; with ``late`` the rows that come too late are kept."""

    name: str
    sql: str
    moments: tuple[Moment, ...]
    lateness: int = 5 * SECOND
    late: bool = False

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each stream."""
        batch = next(moment.batch for moment in self.moments if moment.batch is not None)
        return {name: table.schema for name, table in batch.items()}

    @property
    def first_table(self) -> pa.Table | None:
        """The table as it is before the first batch."""
        return next((moment.table for moment in self.moments if moment.table is not None), None)


@dataclass
class ScriptedReader:
    """Batches of one stream; the position after a batch is its place among all moments.

    Before a batch is given, ``enter`` is called with its moment.
    """

    stream: SmallStream
    name: str
    enter: Callable[[Moment], None]
    bounded: bool = False

    @property
    def schema(self) -> pa.Schema:
        return self.stream.schemas[self.name]

    def reads(self, columns: Any, position: int | None) -> Iterator[Read | None]:
        for number, moment in enumerate(self.stream.moments):
            if number >= (position or 0):
                self.enter(moment)
                batch = moment.batch
                yield None if batch is None else Read(Chunk(batch[self.name]), number + 1)

    def position_for_next_run(self, position: int) -> int:
        return position


def _rows(random: np.random.Generator, batch: int, ahead: int = 0) -> pa.Table:
    """Return rows of one batch, somewhat out of order, some of them late."""
    first = batch * BATCH_SPAN // SECOND
    seconds = random.integers(first - 4, first + 20, ROWS) + ahead
    seconds[-1] = max(first - 30, 0)
    return pa.table(
        {
            "ts": pa.array(START + seconds * SECOND, pa.timestamp("us")),
            "k": pa.array(random.choice(["a", "b", "c"], ROWS)),
            "x": pa.array(random.random(ROWS) * 100),
        }
    )


def _batches(names: str, count: int, seed: int) -> list[Moment]:
    random = seeded_numpy(seed)
    return [Moment({name: _rows(random, number) for name in names}) for number in range(count)]


def _table(*labels: str) -> pa.Table:
    return pa.table({"k": ["a", "b", "c"], "label": list(labels)})


def _to(text: str | None, name: str) -> Change:
    """Return what asks for a query, or for its end, unless a run before was asked for the same."""

    def change(running: RunningQueries) -> None:
        now = {query.name: query for query in running.program.queries}
        query = None if text is None else weft.sql(text)[0]
        if query is None:
            if name in now:
                running.drop(name)
        elif name not in now:
            running.add(query)
        elif now[name] != query:
            running.replace(query)

    return change


def _changes() -> list[Moment]:
    moments = _batches("a", 4, 5)
    changes = {1: _to(ADDED, "added"), 2: _to(OTHER_TOPS, "tops"), 3: _to(None, "sums")}
    return [Moment(moment.batch, changes.get(n)) for n, moment in enumerate(moments)]


def _lookups() -> list[Moment]:
    tables = [_table("x", "y", "x"), _table("y", "y", "z"), _table("x", "x", "z")]
    return [Moment(moment.batch, table=t) for moment, t in zip(_batches("a", 3, 4), tables)]


def _with_pauses(moments: list[Moment], *after: int) -> list[Moment]:
    """Let no row come after some of the batches."""
    return [m for n, moment in enumerate(moments) for m in (moment, *([Moment(None)] * (n in after)))]


STREAMS = {
    stream.name: stream
    for stream in (
        SmallStream("windows", WINDOWS, tuple(_batches("a", 3, 1))),
        SmallStream("joins", JOINS, tuple(_batches("ab", 2, 2))),
        SmallStream("mix", MIX, tuple(_batches("ab", 2, 3))),
        SmallStream("lookups", LOOKUPS, tuple(_lookups())),
        SmallStream("changes", WINDOWS, tuple(_changes())),
        SmallStream("pauses", WINDOWS, tuple(_with_pauses(_batches("a", 3, 6), 0, 1)), late=True),
    )
}
