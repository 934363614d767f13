"""Any mix of window queries, joins and aggregates over joins answers as each query alone does.

Mixes are seeded (``WEFT_SEED=7 pytest tests/local/test_mixes.py`` begins elsewhere) and told to every engine
of this process, over restarts, deaths, flushes and changes; ``make stories`` tells far more of them.
"""

from __future__ import annotations

import os

import pytest

from stories import cases, mixes
from stories.runners import ENGINES

SEED = os.environ.get("WEFT_SEED", "0")
LOTS, SIZE = 8, 6


@pytest.mark.parametrize("lot", [0, *(pytest.param(lot, marks=pytest.mark.slow) for lot in range(1, LOTS))])
def test_a_mix_answers_as_each_query_alone(lot: int) -> None:
    print(f"WEFT_SEED={SEED}, cases {lot * SIZE} to {(lot + 1) * SIZE - 1}")
    for number in range(lot * SIZE, (lot + 1) * SIZE):
        case = mixes.make(f"{SEED}:{number}")
        failure = mixes.tell(case)
        if failure is not None:
            pytest.fail(cases.explained(case, failure, seconds=10), pytrace=False)


def test_mixes_have_everything_that_happens_to_streams() -> None:
    stories = [mixes.make(f"0:{number}") for number in range(200)]
    steps = [step for story in stories for step in story.steps]
    assert {story.engine for story in stories} == set(ENGINES)
    assert {story.apart for story in stories} == {True, False}
    for happening in ("flush", "restart", "dies", "buckets", "changes"):
        assert any(getattr(step, happening) for step in steps), happening
    for story in stories:
        parts = {mixes.part_of(mixes.read(name, text)) for name, text in story.queries}
        if parts == {"joins"}:
            added = (q for step in story.steps for q in step.changes if q[1] is not None)
            if any(mixes.part_of(mixes.read(name, text or "")) != "joins" for name, text in added):
                break
    else:
        pytest.fail("to no stream of joins a window query is added")
    assert any(len(set(story.lateness.values())) > 1 for story in stories)
