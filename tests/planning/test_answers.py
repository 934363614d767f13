"""Whatever a strategy decides to share, the answers are the same: the plan made is the plan that runs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.local.running import LocalRun
from weft.planning.registry import STRATEGIES
from weft.slicing import SLICERS
from weft.testing import trades
from weft.testing.questions import text, varied

QUERIES = weft.sql(text(varied(8)))
TRADES = next(trades(3_000, rate=3))


def rows(results: dict[str, pa.Table]) -> dict[str, list[Any]]:
    def plain(value: Any) -> Any:
        return float(f"{value:.9g}") if isinstance(value, float) else value

    return {
        name: sorted(([plain(v) for v in row.values()] for row in table.to_pylist()), key=repr)
        for name, table in results.items()
    }


@pytest.fixture(scope="module")
def alone() -> dict[str, list[Any]]:
    """Each query run by itself."""
    return rows({q.name: weft.run([q], TRADES, time="ts")[q.name] for q in QUERIES})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_answers_do_not_depend_on_the_strategy(strategy: str, alone: dict[str, list[Any]]) -> None:
    plan = weft.plan(QUERIES, strategy=strategy, nodes=2)
    assert sorted(q.name for q in plan.queries) == sorted(q.name for q in QUERIES)
    assert rows(weft.run(plan, TRADES, time="ts")) == alone


@pytest.mark.parametrize("slicer", SLICERS)
def test_answers_do_not_depend_on_how_windows_are_cut(slicer: str, alone: dict[str, list[Any]]) -> None:
    assert rows(weft.run(weft.plan(QUERIES, slicer=slicer), TRADES, time="ts")) == alone


@pytest.mark.parametrize(
    ("before", "after"), [("share-all", "no-share"), ("no-share", "weave-share"), ("triweave", "share-all")]
)
def test_a_stream_goes_on_by_another_plan(before: str, after: str, alone: dict[str, list[Any]]) -> None:
    """Trees only say how windows are answered: what is held between steps is carried over by name."""
    plans = [weft.plan(queries, strategy=s) for queries, s in ((QUERIES, before), (QUERIES[::-1], after))]
    running, new = (LocalRun(plan, TRADES.schema, "ts", threads=2) for plan in plans)
    found = [running.step(TRADES.slice(0, 1_700))]
    running._move_to(new.program)
    running.running.confirm(new.program)
    found += [running.step(TRADES.slice(1_700)), running.close()]
    running.shutdown()
    results = {q.name: pa.concat_tables([f[q.name] for f in found if q.name in f]) for q in QUERIES}
    assert rows(results) == alone
