"""A join of many streams over several nodes: each step gives what one process gives, and rows stay put."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.join_cases import SCHEMA, SECOND
from support.join_oracle import as_tuples, ordered
from support.join_runs import join_run
from support.multiway_cases import CONDITIONS, join, joins, steps
from support.split_joins import SplitJoins
from weft.local.running import LocalRun
from weft.model.join import JoinQuery
from weft.operators.joins.multiway.order_statistics import OrderStatistics
from weft.operators.joins.multiway.rounds import nodes_of
from weft.operators.joins.program import compile_joins
from weft.planning.joins.member import member

ORDERS = (((1, 2), (2, 0), (0, 1)), ((2, 1), (0, 2), (1, 0)))


@pytest.mark.slow
@given(data=st.data())
def test_every_step_gives_what_one_process_gives(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS))
    queries, batches = data.draw(joins(condition)), data.draw(steps())
    run = join_run(queries, "2 s")
    split = SplitJoins(run, data.draw(st.integers(1, 4)))
    for number, step in enumerate(batches):
        if number and data.draw(st.booleans()):
            queries = change(data, run, queries, condition, number)
        whole = {name: ordered(as_tuples(t)) for name, t in run.step(step).items()}
        orders = data.draw(st.sampled_from(ORDERS))
        assert split.step(step, again=data.draw(st.booleans()), orders=orders) == whole
        assert split.rows == run.state_rows
    whole = {name: ordered(as_tuples(t)) for name, t in run.close().items()}
    assert split.step({}, again=True) == whole
    assert split.rows == 0, "nothing is needed after the end"


def test_every_row_is_stored_by_one_node() -> None:
    run = join_run([join("q", "a.k = b.k AND b.x = c.x", "", (100, 100, 100))])
    split = SplitJoins(run, 3)
    ts = np.arange(30) * SECOND
    columns = {
        "ts": ts.astype("M8[us]"),
        "k": ["p"] * 30,
        "x": [1] * 30,
        "y": [0.0] * 30,
        "n": list(range(30)),
    }
    table = pa.table(columns, schema=SCHEMA)
    run.step({"a": table})
    split.step({"a": table})
    assert sum(len(chain.sides[0]) for state in split.case.states for chain in state.chains) == 30


def change(
    data: st.DataObject, run: LocalRun, queries: list[JoinQuery], condition: str, number: int
) -> list[JoinQuery]:
    """Add a join or drop one."""
    if len(queries) > 1 and data.draw(st.booleans()):
        gone = data.draw(st.sampled_from(queries))
        run.drop(gone.name)
        return [q for q in queries if q is not gone]
    (added,) = data.draw(joins(condition, f"added{number}_", most=1))
    run.add(added)
    return [*queries, added]


def test_turns_go_round_once_in_a_range() -> None:
    (query,) = weft.sql("SELECT a.x FROM a [RANGE '8 s'], b [RANGE '3 s'], c [RANGE '1 s']")
    assert isinstance(query, JoinQuery)
    program = compile_joins([member(query)], dict.fromkeys("abc", SCHEMA), {})
    times = np.arange(-2, 12) * SECOND
    assert nodes_of(program, 0, times, 4).tolist() == [3, 3, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 1, 1]
    assert set(nodes_of(program, 1, np.arange(0, 3 * SECOND, 1000), 4).tolist()) == {0, 1, 2, 3}
    assert nodes_of(program, 2, times, 1).tolist() == [0] * 14


def test_orders_follow_what_nodes_report() -> None:
    query = join("q", "a.x = b.x AND a.k = c.k", "", (5, 5, 5))
    program = compile_joins([member(query)], dict.fromkeys("abc", SCHEMA), {})
    statistics = OrderStatistics()
    (before,) = statistics.orders([program])
    slow = before[0][0]  # what a's rows probe first, since nothing is known
    work = [[0, [0], slow, 1e6, 5e5, 5e5], [0, [0], 3 - slow, 1e6, 10.0, 10.0]]
    statistics.learn([program], [{"work": work, "kept": {"0": [100, 100, 100]}}])
    (after,) = statistics.orders([program])
    assert after is not None
    assert after[0] == (3 - slow, slow)
