"""A story that fails made smaller, as long as it still fails: fewer steps, rows, queries and happenings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from stories.story import Step, Story
from weft.model.query import Query

T = TypeVar("T")


def shrunk(
    story: T, fails: Callable[[T], bool], smaller_of: Callable[[T], Iterator[T]], seconds: float = 20.0
) -> T:
    """The smallest story found in some time; the story itself where it does not fail again."""
    end = time.monotonic() + seconds
    going = True
    while going:
        going = False
        for less in smaller_of(story):
            if time.monotonic() > end:
                return story
            if fails(less):
                story, going = less, True
                break
    return story


def smaller(story: Story) -> Iterator[Story]:
    """Stories that are a little smaller, those that drop most first."""
    yield from _cut(story)
    for number in range(len(story.queries)):
        queries = story.queries[:number] + story.queries[number + 1 :]
        gone = story.queries[number].name
        if queries and not any(name == gone for step in story.steps for name, _ in step.changes):
            yield replace(story, queries=queries)
    for number, step in enumerate(story.steps):
        for lighter in _lighter(step):
            yield _with(story, number, lighter)
    for size in (8, 4, 2, 1):
        for number, step in enumerate(story.steps):
            for at in range(0, len(step.rows), size):
                yield _with(story, number, replace(step, rows=step.rows[:at] + step.rows[at + size :]))
    for number, query in enumerate(story.queries):
        for plainer in _plainer(query):
            yield replace(story, queries=(*story.queries[:number], plainer, *story.queries[number + 1 :]))
    for number, step in enumerate(story.steps):
        for place, (name, asked) in enumerate(step.changes):
            for plainer in _plainer(asked) if asked is not None else ():
                changed = (*step.changes[:place], (name, plainer), *step.changes[place + 1 :])
                yield _with(story, number, replace(step, changes=changed))
    for name, table in story.tables.items():
        for at in range(len(table.rows)):
            fewer = replace(table, rows=table.rows[:at] + table.rows[at + 1 :])
            yield replace(story, tables={**story.tables, name: fewer})
    simple = replace(
        story,
        buckets=1,
        technique="auto",
        strategy="share-all",
        most_layers=16,
        most_cells=1 << 20,
        threads=False,
    )
    if simple != story:
        yield simple
        for name in ("buckets", "technique", "strategy", "most_layers", "most_cells", "threads"):
            if getattr(story, name) != getattr(simple, name):
                yield replace(story, **{name: getattr(simple, name)})
    unused = [n for n in story.types if not _uses(story, n)]
    if unused:
        yield _without(story, unused)


def _cut(story: Story) -> Iterator[Story]:
    count = len(story.steps)
    for size in sorted({count // 2, count // 4, 1}, reverse=True):
        for at in range(count - size, -1, -1) if size else ():
            gone = story.steps[at : at + size]
            if any(step.changes for step in gone):
                continue  # names that come later would have no meaning
            left = story.steps[:at] + story.steps[at + size :]
            if left:
                yield replace(story, steps=left)


def _lighter(step: Step) -> Iterator[Step]:
    plain = replace(step, restart=False, fresh=False, buckets=None, dies=None, way=None, tables={}, chance=0)
    if plain != step:
        yield plain
        for name in ("restart", "fresh", "buckets", "dies", "way", "tables", "chance"):
            if getattr(step, name) != getattr(plain, name):
                yield replace(step, **{name: getattr(plain, name)})
    if step.changes:
        yield replace(step, changes=())
        for place in range(len(step.changes)):
            yield replace(step, changes=step.changes[:place] + step.changes[place + 1 :])


def _plainer(query: Query) -> Iterator[Query]:
    if query.outputs or query.having is not None:
        yield replace(query, outputs=(), having=None)
    elif len(query.aggregates) > 1:
        for place in range(len(query.aggregates)):
            yield replace(query, aggregates=query.aggregates[:place] + query.aggregates[place + 1 :])
    if query.predicate is not None:
        yield replace(query, predicate=None)
    if not query.having:
        for place in range(len(query.group_by)):
            keys = query.group_by[:place] + query.group_by[place + 1 :]
            names = query.group_names[:place] + query.group_names[place + 1 :]
            yield replace(query, group_by=keys, group_names=names)


def _with(story: Story, number: int, step: Step) -> Story:
    return replace(story, steps=(*story.steps[:number], step, *story.steps[number + 1 :]))


def _uses(story: Story, column: str) -> bool:
    asked = [*story.queries, *(q for step in story.steps for _, q in step.changes if q is not None)]
    return column == "ts" or any(column in query.columns for query in asked)


def _without(story: Story, columns: list[str]) -> Story:
    """The story without columns that no query reads."""
    steps = tuple(
        replace(step, rows=tuple({n: v for n, v in row.items() if n not in columns} for row in step.rows))
        for step in story.steps
    )
    return replace(story, steps=steps, types={n: t for n, t in story.types.items() if n not in columns})
