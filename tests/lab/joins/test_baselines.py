"""Every way to run the same joins gives the same results; they differ in what they keep."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.joins.baselines import STRATEGIES, Parts, push_down
from lab.joins.clock import Clock
from support.join_cases import CONDITIONS, SCHEMA, SECOND, admitted, batches, join, joins
from support.join_oracle import as_tuples, oracle, ordered
from weft.errors import JobError
from weft.io.files import Chunk
from weft.model.instants import END_OF_TIME
from weft.planning.joins.member import Member, member

TIMES = {"a": "ts", "b": "ts"}
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}


def feed(parts: Parts, members: list[Member], steps: list[tuple[pa.Table, pa.Table]]) -> dict[str, list[Any]]:
    clocks = [Clock("ts"), Clock("ts")]
    results: dict[str, list[Any]] = {m.name: [] for m in members}
    for step in steps:
        timed = [clock.admit(Chunk(table), now=0)[0] for clock, table in zip(clocks, step)]
        for name, table in parts.step(timed, [c.watermark for c in clocks]).items():
            results[name] += as_tuples(table)
    for name, table in parts.step([None, None], [END_OF_TIME, END_OF_TIME]).items():
        results[name] += as_tuples(table)
    return results


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@given(data=st.data())
def test_every_strategy_equals_all_pairs(strategy: str, data: st.DataObject) -> None:
    queries = data.draw(joins(data.draw(st.sampled_from(CONDITIONS))))
    members = [member(q) for q in queries]
    a, b = data.draw(batches(0)), data.draw(batches(100))
    steps = list(zip(a, b))
    a, b = [s[0] for s in steps], [s[1] for s in steps]
    results = feed(STRATEGIES[strategy](members, SCHEMAS, TIMES), members, steps)
    kept = {"a": pa.concat_tables(admitted(a, 0)), "b": pa.concat_tables(admitted(b, 0))}
    for query in queries:
        assert ordered(results[query.name]) == ordered(oracle(query, kept))
        assert [r[0] for r in results[query.name]] == sorted(r[0] for r in results[query.name])


def test_what_each_keeps() -> None:
    """Four rows a second, half of A selected; q1 takes all for 5 s, q2 the selected for 20 s.

    state-slice  A: 5 s * 4 + 15 s * 2   B: 20 s * 4
    isolated     A: 5 s * 4 + 20 s * 2   B: 5 s * 4 + 20 s * 4
    pull-up      A: 20 s * 4             B: 20 s * 4
    push-down    A: 20 s * 2 + 5 s * 2   B: 20 s * 4 + 5 s * 4
    """
    rows = 200
    table = pa.table(
        {
            "ts": pa.array([n * SECOND // 4 for n in range(rows)], pa.timestamp("us")),
            "k": ["p"] * rows,
            "x": [2 * (n % 2) for n in range(rows)],
            "y": [0.0] * rows,
            "n": list(range(rows)),
        },
        schema=SCHEMA,
    )
    members = [
        member(join("q1", "a.k = b.k", "", (5, 5))),
        member(join("q2", "a.k = b.k", "a.x > 1", (20, 20))),
    ]
    kept = {}
    for name, strategy in STRATEGIES.items():
        parts, clocks = strategy(members, SCHEMAS, TIMES), [Clock("ts"), Clock("ts")]
        timed = [clock.admit(Chunk(table), now=0)[0] for clock in clocks]
        parts.step(timed, [c.watermark for c in clocks])
        kept[name] = parts.state_rows
    assert kept == {"state-slice": 50 + 80, "isolated": 60 + 100, "pull-up": 160, "push-down": 50 + 100}


def test_push_down_refuses_to_explode() -> None:
    members = [member(join(f"q{n}", "a.k = b.k", f"a.x > {n}", (5, 5))) for n in range(7)]
    with pytest.raises(JobError, match="too many parts"):
        push_down(members, SCHEMAS, TIMES)
