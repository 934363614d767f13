"""Joins for the laws of the operator contract: of two and of three streams, aggregated or not, late, null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import weft
from support import join_cases, multiway_cases
from support.contract_cases import CaseStep, ContractCase, plain_rows
from support.join_cases import SCHEMA, SECOND, batches
from weft.model.join import JoinQuery
from weft.operators.contract import ArrivedRows, Kept
from weft.operators.joins.compile import JoinCompiler, StreamPosition
from weft.operators.joins.stage import JoinsStage
from weft.planning.live import LivePlanner

STREAMS = "abc"
COMPILER = JoinCompiler(dict.fromkeys(STREAMS, SCHEMA), dict.fromkeys(STREAMS, "ts"), LivePlanner())

AGGREGATED = (
    "SELECT count(*) AS n FROM a [RANGE '5 s'], b [RANGE '{}'] WHERE a.k = b.k GROUP BY window('2 s')",
    "SELECT sum(a.x) AS s FROM a [RANGE '5 s'], b [RANGE '{}'] WHERE a.k = b.k GROUP BY window('4 s', '2 s')",
    "SELECT a.k, max(b.x) AS m FROM a [RANGE '5 s'], b [RANGE '{}'] WHERE a.k = b.k AND a.x > 1 "
    "GROUP BY window('3 s'), a.k",
)


FOUR_SIDES = (
    "SELECT p.n, q.n AS m, b.n AS o, c.n AS s FROM a p [RANGE '2 s'], a q [RANGE '3 s'], b [RANGE '4 s'], "
    "c [RANGE '5 s'] WHERE p.k = q.k AND q.x = b.x AND abs(b.x - c.x) < 2"
)
"""A join of more rounds than those of three streams, one of which it reads twice."""


def read_join(text: str, name: str) -> JoinQuery:
    """The join behind a text."""
    (query,) = weft.sql(text)
    assert isinstance(query, JoinQuery)
    return query.renamed(name)


def comparable(kept: Kept) -> list[tuple[Any, ...]]:
    """The rows of a table as text: NaN is equal to itself.

    The place of a pair of one time is either of two that mean the same; it follows from the times.
    """
    names = [name for name in kept.table.schema.names if name != "_place"]
    return [(repr(row),) for row in plain_rows(replace(kept, table=kept.table.select(names)))]


@st.composite
def queries(draw: st.DrawFn, three: bool, prefix: str = "q") -> list[JoinQuery]:
    """Joins of two and, maybe, of three streams on few conditions, so that some of them share a chain."""
    pairs = draw(st.lists(st.sampled_from(join_cases.CONDITIONS), min_size=1, max_size=2))
    joins = [join for n, c in enumerate(pairs) for join in draw(join_cases.joins(c, f"{prefix}p{n}_", 2))]
    if three:
        condition = draw(st.sampled_from(multiway_cases.CONDITIONS))
        joins += draw(multiway_cases.joins(condition, f"{prefix}t", 2))
        if draw(st.booleans()):
            joins.append(read_join(FOUR_SIDES, f"{prefix}f"))
    for n, text in enumerate(draw(st.lists(st.sampled_from(AGGREGATED), max_size=2))):
        joins.append(read_join(text.format(draw(st.sampled_from(["3 s", "8 s"]))), f"{prefix}g{n}"))
    return joins


@st.composite
def steps(draw: st.DrawFn, streams: Sequence[str]) -> tuple[CaseStep, ...]:
    """Rows of some streams, step by step, of one or two tasks each; the last steps may have none."""
    tables = {name: draw(batches(100 * place)) for place, name in enumerate(streams)}
    lateness = draw(st.sampled_from([0, 1, 4, 20])) * SECOND
    taken, marks = [], dict[str, int | None].fromkeys(streams)
    for number in range(max(2, *map(len, tables.values())) + draw(st.integers(0, 1))):
        arrivals: list[tuple[str, ArrivedRows]] = []
        for name in streams:
            rows = tables[name][number] if number < len(tables[name]) else SCHEMA.empty_table()
            cut = draw(st.integers(0, rows.num_rows))
            tasks = [rows.slice(0, cut), rows.slice(cut)] if draw(st.booleans()) else [rows]
            arrivals += [(name, ArrivedRows(task)) for task in tasks]
            marks[name] = max(
                (time for time in (marks[name], _lagged(rows, lateness)) if time is not None), default=None
            )
        taken.append(CaseStep(tuple(arrivals), dict(marks)))
    return tuple(taken)


def _lagged(rows: pa.Table, lateness: int) -> int | None:
    times = [time for time in rows.column("ts").cast(pa.int64()).to_pylist() if time is not None]
    return max(times) - lateness if times else None


def latest(taken: Sequence[CaseStep]) -> int | None:
    """The latest time of all rows of some steps."""
    times = (_lagged(rows.table, 0) for step in taken for _, rows in step.arrivals)
    return max((time for time in times if time is not None), default=None)


@st.composite
def covered(draw: st.DrawFn, query: JoinQuery) -> JoinQuery:
    """The same join once more, with ranges that are as long or shorter."""
    sides = tuple(
        replace(side, range=min(side.range, draw(st.sampled_from([1, 2, 100])) * SECOND))
        for side in query.sides
    )
    return replace(query, sides=sides).renamed(f"{query.name}_again")


@st.composite
def changed_joins(draw: st.DrawFn, joins: Sequence[JoinQuery]) -> list[JoinQuery]:
    """Other joins of the same streams: some dropped, some added, some of which a running join covers."""
    stay = [query for query in joins if draw(st.integers(0, 3))]
    for query in joins:
        if draw(st.integers(0, 2)) == 0:
            stay.append(draw(covered(query)))
    streams = {stream for query in joins for stream in query.streams}
    if streams != {stream for query in stay for stream in query.streams} or draw(st.booleans()):
        stay += draw(queries("c" in streams, "r"))
    return stay


@st.composite
def cases(draw: st.DrawFn) -> ContractCase:
    """A case of the contract's laws."""
    first = draw(queries(draw(st.booleans())))
    joins = COMPILER.joins(first, version=1)
    taken = draw(steps(joins.streams))
    change_after = draw(st.integers(0, len(taken)))
    before = taken[:change_after]
    marks = before[-1].marks if before else dict.fromkeys(joins.streams)
    at = StreamPosition(latest(before), marks)
    changed = COMPILER.joins(draw(changed_joins(first)), 2, joins, at)
    buckets = draw(st.integers(1, 3))
    return ContractCase(JoinsStage(joins), buckets, taken, change_after, JoinsStage(changed), comparable)
