"""Cases of any kind by their seeds: every sixth is of joins, the others of window queries."""

from __future__ import annotations

from typing import Any

from stories import check, generate, joins, shrink, story
from stories.failure import Failure
from stories.joins import JoinStory
from stories.story import Story

KINDS = ("local", "stored", "joins")


def make(seed: str, kinds: tuple[str, ...] = KINDS) -> Story | JoinStory:
    """The case of a seed, such as ``1:4711``, of some kinds alone."""
    number = int(seed.rpartition(":")[2])
    engines = [kind for kind in kinds if kind != "joins"]
    if "joins" in kinds and (number % 6 == 5 or not engines):
        return joins.make(seed)
    return generate.make(seed, engines)


def tell(case: Story | JoinStory) -> Failure | None:
    """What is wrong with a case, if anything."""
    return joins.tell(case) if isinstance(case, JoinStory) else check.tell(case)


def told(case: Story | JoinStory) -> str:
    """The case as text."""
    return joins.told(case) if isinstance(case, JoinStory) else story.told(case)


def explained(case: Story | JoinStory, failure: Failure, seconds: float = 20.0) -> str:
    """What is wrong, and a smaller case that fails too."""

    def fails(other: Story | JoinStory) -> bool:
        found = tell(other)
        return found is not None and not found.is_ours

    smaller: Any = joins.smaller if isinstance(case, JoinStory) else shrink.smaller
    small = shrink.shrunk(case, fails, smaller, seconds)
    again = f"python -m stories --case {case.seed}"
    return f"case {case.seed} fails ({again}): {failure}\nmade smaller:\n{told(small)}\n{tell(small)}\n"
