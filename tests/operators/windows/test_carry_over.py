"""State carried over from one set of queries to another: as if it had been made for the other all along."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support.seeds import seeded_numpy
from weft.model.instants import END_OF_TIME
from weft.model.query import Query
from weft.operators.predicates.signature import unpack
from weft.operators.windows.answer import final
from weft.operators.windows.carry_over import WindowCarryOver
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.layout import WindowLayout
from weft.operators.windows.prepare import partial
from weft.operators.windows.program import WindowProgram
from weft.operators.windows.state import State

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.string(), "x": pa.int64(), "y": pa.float64()})
QUERIES = [
    q.renamed(name)
    for name, q in zip(
        "abcdefgh",
        weft.sql(
            """
            SELECT k, sum(x) AS s, max(y) AS m FROM t [RANGE '4 s' SLIDE '2 s'] WHERE x > 3 GROUP BY k;
            SELECT k, count(*) AS n, min(k) AS low FROM t [RANGE '2 s'] GROUP BY k;
            SELECT k, avg(y) AS a, last(k) AS l FROM t [RANGE '4 s' SLIDE '2 s'] WHERE y < 0.5 GROUP BY k;
            SELECT sum(x) AS s FROM t [RANGE '6 s' SLIDE '2 s'] WHERE x > 3;
            SELECT approx_count_distinct(x) AS d FROM t [RANGE '2 s'];
            SELECT k, sum(y) AS s FROM t [ROWS 4 SLIDE 2] WHERE x > 3 GROUP BY k;
            SELECT k, count(*) AS n FROM t [ROWS 3 SLIDE 3] GROUP BY k;
            SELECT x, k, stddev_samp(y) AS d FROM t [RANGE '2 s'] WHERE y < 0.5 GROUP BY x, k
            """
        ),
    )
]


def program(queries: Sequence[Query], version: int = 1) -> WindowProgram:
    return compile_plan(weft.plan(queries), SCHEMA, "ts", version=version)


def table(rows: int = 60) -> pa.Table:
    chance = seeded_numpy(7)
    keys = [None if k == 3 else f"k{k}" for k in chance.integers(0, 4, rows)]
    times = pa.array(np.sort(chance.integers(0, 12, rows)) * 1_000_000).cast(pa.timestamp("us"))
    return pa.table(
        {"ts": times, "k": keys, "x": chance.integers(0, 8, rows), "y": chance.random(rows)}, schema=SCHEMA
    )


def state_of(made: WindowProgram, watermark: int | None) -> State:
    state, _ = final(State(made), partial(table(), made, None).pieces, watermark, made)
    return state


def answers(state: State, made: WindowProgram) -> dict[str, list[str]]:
    return {n: sorted(map(repr, t.to_pylist())) for n, t in final(state, [], END_OF_TIME, made)[1].items()}


@settings(max_examples=40, deadline=None)
@given(
    before=st.permutations(QUERIES).flatmap(lambda some: st.integers(1, 8).map(lambda n: some[:n])),
    after=st.permutations(QUERIES).flatmap(lambda some: st.integers(1, 8).map(lambda n: some[:n])),
    watermark=st.sampled_from([None, 0, 5_000_000]),
)
def test_what_both_have_is_answered_as_before(
    before: list[Query], after: list[Query], watermark: int | None
) -> None:
    old, new = program(before), program(after, version=2)
    expected = answers(state_of(old, watermark), old)
    shared = {q.name for q in before} & {q.name for q in after}
    layout = WindowLayout.from_dict(old.layout.to_dict())
    by_tables = State(new)
    for piece in state_of(old, watermark).snapshot():
        moved = WindowCarryOver(layout, new).piece(piece)
        if moved is not None:
            by_tables.absorb(moved)
    by_tables.advance(watermark)
    by_cells = WindowCarryOver(layout, new).state(state_of(old, watermark))
    for state in (by_cells, by_tables):
        found = answers(state, new)
        for name in shared:
            assert _close(found.get(name, []), expected.get(name, [])), name


def _close(found: list[str], expected: list[str]) -> bool:
    """The same rows; floats were added up in another order."""
    both = zip(found, expected)
    return len(found) == len(expected) and all(_rounded(a) == _rounded(b) for a, b in both)


def _rounded(row: str) -> str:
    return " ".join(
        f"{float(w):.9g}" if w.replace(".", "", 1).isdigit() else w for w in row.rstrip("}").split()
    )


def test_signatures_get_the_bits_of_the_new_numbers() -> None:
    old, new = program([QUERIES[1], QUERIES[0]]), program([QUERIES[2], QUERIES[0]], version=2)
    assert old.predicates == (None, new.predicates[1])
    (piece,) = partial(table(), old, None).pieces
    moved = WindowCarryOver(old.layout, new).piece(piece)
    assert moved is not None
    bits = unpack(moved.table.column("signature").cast(pa.binary()).to_pylist(), 2)
    assert not bits[:, 0].any(), "nobody looked at the new predicate then"
    assert bits[:, 1].all(), "what satisfies none of the predicates is dropped"
    assert 0 < moved.table.num_rows < piece.table.num_rows


def test_new_parts_begin_as_identity_and_old_ones_go() -> None:
    old, new = program([QUERIES[1]]), program([QUERIES[1].renamed("z"), QUERIES[2]], version=2)
    (piece,) = partial(table(), old, None).pieces
    moved = WindowCarryOver(old.layout, new).piece(piece)
    assert moved is not None
    names = [name for part in new.groupings[0].parts for name in part.column_names]
    assert moved.table.schema.names == ["key.k", "slice_start", "slice_end", "signature", *names]
    fresh = dict(zip(names, moved.table.columns[4:]))
    assert fresh["rows(*).n"].equals(piece.table.column("rows(*).n"))
    assert set(fresh["last(k).value"].to_pylist()) == {None}
    back = WindowCarryOver(new.layout, old).piece(moved)
    assert back is not None
    assert back.table.schema.names == piece.table.schema.names


def test_a_grouping_that_is_gone_is_dropped() -> None:
    old, new = program([QUERIES[0], QUERIES[3]]), program([QUERIES[0]], version=2)
    migration = WindowCarryOver(old.layout, new)
    pieces = partial(table(), old, None).pieces
    assert [migration.piece(p) is None for p in pieces] == [False, True]
    assert len(migration.state(state_of(old, None)).groupings) == 1


@pytest.mark.parametrize(("one", "other"), list(itertools.pairwise(QUERIES)))
def test_layouts_tell_queries_apart(one: Query, other: Query) -> None:
    assert program([one]).layout != program([other]).layout
    assert program([one]).layout == program([one.renamed("another")]).layout
