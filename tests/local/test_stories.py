"""Seeded stories against the oracle: every engine, whatever happens to the stream.

``WEFT_SEED=7 pytest tests/local/test_stories.py`` begins elsewhere; ``make stories`` tells far more of them.
"""

from __future__ import annotations

import os

import pytest

import weft
from stories import cases
from stories.generate import make
from stories.runners import ENGINES
from stories.story import sql_of, told

SEED = os.environ.get("WEFT_SEED", "0")
LOTS, SIZE = 16, 20


@pytest.mark.parametrize("lot", [0, *(pytest.param(lot, marks=pytest.mark.slow) for lot in range(1, LOTS))])
def test_stories_are_answered_as_the_oracle_answers_them(lot: int) -> None:
    print(f"WEFT_SEED={SEED}, cases {lot * SIZE} to {(lot + 1) * SIZE - 1}")
    for number in range(lot * SIZE, (lot + 1) * SIZE):
        case = cases.make(f"{SEED}:{number}")
        failure = cases.tell(case)
        if failure is not None:
            pytest.fail(cases.explained(case, failure, seconds=10), pytrace=False)


def test_a_case_is_its_seed() -> None:
    assert told(make("3:14")) == told(make("3:14")) != told(make("3:15"))


def test_stories_have_everything_that_happens_to_streams() -> None:
    stories = [make(f"0:{number}") for number in range(300)]
    steps = [step for story in stories for step in story.steps]
    queries = [query for story in stories for query in story.queries]
    assert {story.engine for story in stories} == set(ENGINES)
    assert {len(query.group_by) for query in queries} >= {0, 1, 2, 3, 4}
    assert {len(join.keys) for query in queries for join in query.lookups} == {1, 2, 3}
    assert any(query.window.rows for query in queries)
    assert any(query.window.range < query.window.slide and not query.window.rows for query in queries)
    for happening in ("flush", "restart", "dies", "tables", "changes", "way"):
        assert any(getattr(step, happening) for step in steps), happening
    assert any(row["ts"] is None for step in steps for row in step.rows)


def test_stories_show_queries_that_can_be_asked_again() -> None:
    shown = 0
    for number in range(60):
        for query in make(f"0:{number}").queries:
            if query.window.rows:
                continue
            (read,) = weft.sql(sql_of(query))
            assert (read.window, read.group_by) == (query.window, query.group_by)
            assert {a.function for a in read.aggregates} <= {a.function for a in query.aggregates}
            shown += 1
    assert shown > 20
