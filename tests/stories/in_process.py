"""Stories of window queries told to streams in this process."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext

import pyarrow as pa

from stories.engine import Told, ask, micros, refresh, table_sources
from stories.story import Step, Story
from stories.streams import StoryStream
from support.driven_stream import StreamSetting
from support.ways import forced
from weft.runner.program import UNNAMED
from weft.sinks import MemorySink

Opened = Callable[[StreamSetting, MemorySink | None], StoryStream]
"""How a stream is made of what it is started with."""


class InProcess:
    """A stream in this process that takes the steps of a story."""

    def __init__(self, story: Story, opened: Opened, may_forget_late: bool) -> None:
        self.story = story
        self.now = {name: story.static(name, table.rows) for name, table in story.tables.items()}
        setting = StreamSetting(
            story.queries,
            {UNNAMED: story.schema},
            {UNNAMED: story.lateness},
            story.buckets,
            story.strategy,
            story.technique,
            tables=table_sources(story, self.now),
        )
        keeps = not may_forget_late or random.Random(story.seed).random() < 0.5
        self.stream = opened(setting, MemorySink() if keeps else None)

    def step(self, step: Step) -> Told:
        """Take a step."""
        story, stream = self.story, self.stream
        stream.chance = random.Random(step.chance)
        if step.restart:
            stream.restart(step.fresh, step.buckets)
        refresh(story, step, self.now, stream.replace_table)
        # A run that goes on, also within this step, is given the tables as they are now.
        stream.tables_now(table_sources(story, self.now))
        ask(stream.changes, step.changes, stream.names())
        with forced(step.way) if step.way else nullcontext():
            results = stream.flush() if step.flush else stream.step({UNNAMED: story.table(step)}, step.dies)
        since = {name: micros(stream.changes.change(name).exact_from) for name, q in step.changes if q}
        seen = stream.seen.get(UNNAMED)
        rows, late, untimed = (0, 0, 0) if seen is None else (seen.rows, seen.late, seen.untimed)
        return Told(dict(results), rows, late, untimed, since, self._kept_late())

    def _kept_late(self) -> int | None:
        late = self.stream.late
        return None if late is None else sum(t.num_rows for s in late.steps.values() for t in s.values())

    def close(self) -> dict[str, pa.Table]:
        """Answer all windows that are open."""
        return dict(self.stream.close())
