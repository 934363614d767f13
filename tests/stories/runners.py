"""The engines in this process that stories are told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

from stories.engine import Engine
from stories.in_process import InProcess
from stories.stored import checkpoint
from stories.story import Story
from stories.streams import CommittedRun, DrivenRun, Inline, RunInProcess, StoryStream
from support.driven_stream import StreamSetting
from weft.local import running
from weft.operators.windows import prepare
from weft.sinks import MemorySink
from weft.store import stage_layers


@contextmanager
def engine_of(story: Story) -> Iterator[Engine]:
    """The engine that a story is for, ready for its first step."""
    with in_this_process(story.most_layers, story.most_cells, story.threads), ExitStack() as stack:

        def opened(setting: StreamSetting, late: MemorySink | None) -> StoryStream:
            return stack.enter_context(stream_of(story.engine, setting, late))

        yield InProcess(story, opened, may_forget_late=story.engine == "local")


@contextmanager
def in_this_process(most_layers: int, most_cells: int = 1 << 20, threads: bool = False) -> Iterator[None]:
    """In the block, states are merged and split when they are small, and work is done in this thread."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(stage_layers, "MAX_LAYERS", most_layers))
        stack.enter_context(patch.object(running, "MAX_CELLS_PER_BUCKET", most_cells))
        # What is known of keys in a thread must not depend on the stories before.
        stack.enter_context(patch.object(prepare, "_thread", threading.local()))
        if not threads:
            stack.enter_context(patch.object(running, "ThreadPoolExecutor", lambda *_, **__: Inline()))
        yield


@contextmanager
def stream_of(engine: str, setting: StreamSetting, late: MemorySink | None) -> Iterator[StoryStream]:
    """A stream of an engine, with a checkpoint where it keeps one."""
    with STREAMS[engine](setting, late) as stream:
        try:
            yield stream
        finally:
            stream.end()


@contextmanager
def _in_process(setting: StreamSetting, late: MemorySink | None) -> Iterator[StoryStream]:
    yield RunInProcess(setting, late)


@contextmanager
def _over_a_checkpoint(
    kind: type[CommittedRun] | type[DrivenRun], setting: StreamSetting, late: MemorySink | None
) -> Iterator[StoryStream]:
    with checkpoint() as place:
        yield kind(setting, late, place)


STREAMS: dict[str, Callable[[StreamSetting, MemorySink | None], AbstractContextManager[StoryStream]]] = {
    "local": _in_process,
    "committed": partial(_over_a_checkpoint, CommittedRun),
    "stored": partial(_over_a_checkpoint, DrivenRun),
}
ENGINES = tuple(STREAMS)
