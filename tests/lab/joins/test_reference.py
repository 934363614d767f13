"""The chain one row at a time: the run of table 5.1, and the same results as both others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import weft
from lab.joins.reference import Entry, ReferenceChain, Row
from support.join_cases import SCHEMA, SECOND, join
from support.join_oracle import as_tuples, oracle, ordered

# Table 5.1: time, arrival, running slice, state of slice 1, queue, state of slice 2, output; newest first.
TABLE = """
1  | a1 | J1 | a1       |             |       |
2  | a2 | J1 | a2 a1    |             |       |
3  | a3 | J1 | a3 a2 a1 |             |       |
4  | b1 | J1 | a3 a2    | b1 a1       |       | a2b1 a3b1
5  | b2 | J1 | a3       | b2 a2 b1 a1 |       | a3b2
6  |    | J2 | a3       | b2 a2 b1    | a1    |
7  |    | J2 | a3       | b2 a2       | a1    | a1b1
8  | a4 | J1 | a4 a3    | b2 a2       | a1    |
9  |    | J2 | a4       | a3 b2       | a2 a1 |
10 |    | J2 | a4       | a3          | a2 a1 | a1b2 a2b2
"""


def test_table_5_1() -> None:
    """The table's windows include their ends (figure 5.2): w1 = 2 keeps ages up to 2, so it ends at 3."""
    chain = ReferenceChain([(3, 3), (5, 5)], lambda a, b: True)
    first, second = chain.slices
    for line in TABLE.strip().splitlines():
        time, arrival, running, one, queue, two, output = (cell.strip() for cell in line.split("|"))
        if time == "9":
            first.purge(0, 8)  # no b comes that could purge a3: it is a4 of second 8 that does, a self-purge
        if arrival:
            # A one-way join: rows of A are only kept, rows of B only probe.
            row = Row(int(arrival[0] == "b"), int(time), arrival)
            first.queue.append(Entry(row, probe=row.side == 1))
        (first if running == "J1" else second).run()
        assert [r.value for r in reversed(first.states[0])] == one.split(), time
        assert [e.row.value for e in reversed(second.queue)] == queue.split(), time
        assert [r.value for r in reversed(second.states[0])] == two.split(), time
        assert [f"{r.left.value}{r.right.value}" for _, r in chain.take()] == output.split(), time


times = st.lists(st.integers(0, 20), min_size=1, max_size=25, unique=True)


@given(
    times=times,
    windows=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=3),
    data=st.data(),
)
def test_three_ways_to_the_same_results(
    times: list[int], windows: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Windows of each side ascending, so that one chain of binary slices serves all."""
    ascending = list(zip(sorted(w[0] for w in windows), sorted(w[1] for w in windows)))
    rows = [
        Row(data.draw(st.integers(0, 1)), t * SECOND, (n, data.draw(st.integers(0, 2))))
        for n, t in enumerate(sorted(times))
    ]
    ends = [(a * SECOND, b * SECOND) for a, b in ascending]
    chain = ReferenceChain(ends, lambda a, b: a[1] == b[1])
    for row in rows:
        chain.push(row)
    found = list(chain.take())
    assert [r.time for _, r in found] == sorted(r.time for _, r in found)
    streams = {name: table_of(rows, side) for side, name in enumerate("ab")}
    queries = [join(f"q{n}", "a.x = b.x", "", pair) for n, pair in enumerate(ascending)]
    batched = weft.run(queries, streams, time="ts")
    for number, query in enumerate(queries):
        # Query i has the results of slices 1 to i (theorem 5).
        mine = [result(r.left, r.right) for at, r in found if at <= number]
        assert ordered(mine) == ordered(oracle(query, streams)) == ordered(as_tuples(batched[query.name]))


def result(left: Row, right: Row) -> tuple[Any, ...]:
    return max(left.time, right.time), left.value[0], right.value[0], left.value[1] + right.value[1]


def table_of(rows: list[Row], side: int) -> pa.Table:
    mine = [row for row in rows if row.side == side]
    return pa.table(
        {
            "ts": pa.array([r.time for r in mine], pa.timestamp("us")),
            "k": pa.nulls(len(mine), pa.string()),
            "x": pa.array([r.value[1] for r in mine], pa.int64()),
            "y": pa.nulls(len(mine), pa.float64()),
            "n": pa.array([r.value[0] for r in mine], pa.int64()),
        },
        schema=SCHEMA,
    )


def test_lineage_ends_a_row_s_way() -> None:
    chain = ReferenceChain([(2, 2), (9, 9)], lambda a, b: True)
    for row in [Row(0, 1, "a1", lineage=0), Row(0, 2, "a2"), Row(1, 8, "b1")]:
        chain.push(row)
    assert [(r.left.value, r.right.value) for _, r in chain.take()] == [("a2", "b1")]
    assert chain.state_rows == 2
