"""What an engine says of a step, and what all engines do alike before it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from stories.story import Step, Story
from weft.model.query import Query
from weft.runner.changes import EPOCH


@dataclass
class Told:
    """What a step gave: results, rows seen in all, and from when on each query that joined is exact."""

    results: dict[str, pa.Table]
    rows: int
    late: int
    untimed: int
    since: dict[str, int | None] = field(default_factory=dict)
    kept_late: int | None = None
    """How many rows the sink of late rows has got in all, where there is one."""


class Engine(Protocol):
    """Something that takes the steps of a story."""

    def step(self, step: Step) -> Told: ...

    def close(self) -> dict[str, pa.Table]: ...


def table_sources(story: Story, now: dict[str, pa.Table]) -> dict[str, Any]:
    """The static tables of a story: given as functions, so that what is in ``now`` is read before each step,
    or as they are, to be replaced by hand."""
    asked = random.Random(story.seed).random() < 0.5
    return {name: (lambda name=name: now[name]) if asked else table for name, table in now.items()}


def refresh(story: Story, step: Step, now: dict[str, pa.Table], run: Any) -> None:
    """Give the tables of a step: a function gives them itself, others are replaced."""
    for name, rows in step.tables.items():
        now[name] = story.static(name, rows)
        if not callable(table_sources(story, now)[name]):
            run(name, now[name])


def ask(registry: Any, changes: Iterable[tuple[str, Query | None]], running: set[str]) -> None:
    """Let queries come and go."""
    for name, query in changes:
        if query is None:
            registry.drop(name)
        elif name in running:
            registry.replace(query)
        else:
            registry.add(query)


def micros(moment: Any) -> int | None:
    """A moment in microseconds."""
    if moment is None:
        return None
    return int((moment.replace(tzinfo=None) - EPOCH) // EPOCH.resolution)
