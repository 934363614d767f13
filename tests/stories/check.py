"""A story told to an engine, and everything it says compared with what the oracle expects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pyarrow as pa

from stories.engine import Engine, Told
from stories.expected import NEVER, Answers, Clock, Life, late_rows, latest_since
from stories.failure import Failure
from stories.runners import engine_of
from stories.story import Step, Story
from support import oracle

TOLERANCE = 1e-9

Opened = Callable[[Story], AbstractContextManager[Engine]]
"""How a story gets its engine."""


def tell(story: Story, opened: Opened = engine_of) -> Failure | None:
    """Tell a story to the engine that is opened; what is wrong with the first step that is, if any."""
    told: list[Told] = []
    with opened(story) as engine:
        try:
            for step in story.steps:
                told.append(engine.step(step))
            told.append(replace(told[-1], results=engine.close(), since={}))
        except Exception as error:
            return Failure(len(told), (f"{type(error).__name__}: {error}",))
    return compare(story, told)


def compare(story: Story, told: list[Told]) -> Failure | None:
    """What is wrong with the first step that is."""
    at_end = Step(flush=True)
    lives = {query.name: Life(query, 0) for query in story.queries}
    clock, ended, counts = Clock(story.lateness), list[Life](), [0, 0, 0]
    wrong: dict[int, list[str]] = {}
    for number, (step, said) in enumerate(zip((*story.steps, at_end), told, strict=True)):
        lines = wrong.setdefault(number, [])
        for name, query in step.changes:
            if name in lives:
                lives[name].end = number
                ended.append(lives.pop(name))
            if query is not None:
                since, bound = said.since[name], latest_since(query, clock)
                lives[name] = Life(query, number, NEVER if since is None else since)
                if lives[name].since > bound:
                    lines.append(f"{name} is exact from {since} on only, and not from {bound}")
        running = [life.query for life in lives.values()]
        late = late_rows(step, clock.watermark, running)
        counts = [a + b for a, b in zip(counts, (len(step.rows), *late))]
        if number < len(story.steps):
            clock.step(step, running)
        else:  # everything is closed at the end
            clock.marks.append((clock.watermark, math.inf))
        if counts != [said.rows, said.late, said.untimed]:
            lines.append(f"rows, late, untimed: {[said.rows, said.late, said.untimed]}, expected {counts}")
        if said.kept_late not in (None, counts[1] + counts[2]):
            lines.append(f"{said.kept_late} rows are kept beside as late, expected {counts[1] + counts[2]}")
        unknown = set(said.results) - set(lives)
        if unknown:
            lines.append(f"queries that are not there answer: {sorted(unknown)}")
    for life in (*ended, *lives.values()):
        answers = Answers(story, life, clock.marks)
        end = len(told) if life.end is None else life.end
        for number in range(life.first, end):
            name = life.query.name
            found = _differences(told[number].results.get(name), answers, number)
            wrong[number] += [f"{name}: {line}" for line in found]
    first = next((number for number, lines in sorted(wrong.items()) if lines), None)
    return None if first is None else Failure(first, tuple(wrong[first]))


def _differences(table: pa.Table | None, answers: Answers, number: int) -> Iterator[str]:
    query = answers.query
    if table is not None and table.column_names != list(query.result_columns):
        yield f"columns {table.column_names}, expected {list(query.result_columns)}"
    else:
        yield from oracle.differences(query, oracle.rows_of(table), answers.of(number), TOLERANCE)
