"""Cases of any kind by their seeds: every sixth is of joins, every sixth of a mix, the others of windows."""

from __future__ import annotations

from typing import Any, TypeAlias

from stories import check, generate, joins, mixes, shrink, story
from stories.failure import Failure
from stories.joins import JoinStory
from stories.mixes import MixStory
from stories.story import Story

KINDS = ("local", "committed", "stored", "joins", "mixes")

Case: TypeAlias = Story | JoinStory | MixStory


def make(seed: str, kinds: tuple[str, ...] = KINDS) -> Case:
    """The case of a seed, such as ``1:4711``, of some kinds alone."""
    number = int(seed.rpartition(":")[2])
    engines = [kind for kind in kinds if kind not in ("joins", "mixes")]
    if "joins" in kinds and (number % 6 == 5 or kinds == ("joins",)):
        return joins.make(seed)
    if "mixes" in kinds and (number % 6 == 2 or not engines):
        return mixes.make(seed)
    return generate.make(seed, engines or ["local"])


def tell(case: Case) -> Failure | None:
    """What is wrong with a case, if anything."""
    if isinstance(case, JoinStory):
        return joins.tell(case)
    return mixes.tell(case) if isinstance(case, MixStory) else check.tell(case)


def told(case: Case) -> str:
    """The case as text."""
    if isinstance(case, JoinStory):
        return joins.told(case)
    return mixes.told(case) if isinstance(case, MixStory) else story.told(case)


def explained(case: Case, failure: Failure, seconds: float = 20.0) -> str:
    """What is wrong, and a smaller case that fails too."""

    def fails(other: Case) -> bool:
        failure = tell(other)
        return failure is not None and not failure.is_ours

    smaller: Any = {JoinStory: joins.smaller, MixStory: mixes.smaller, Story: shrink.smaller}[type(case)]
    small = shrink.shrunk(case, fails, smaller, seconds)
    again = f"python -m stories --case {case.seed}"
    return f"case {case.seed} fails ({again}): {failure}\nmade smaller:\n{told(small)}\n{tell(small)}\n"
