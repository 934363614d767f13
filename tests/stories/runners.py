"""The engines in this process that stories are told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from stories.engine import Engine
from stories.in_process import Local
from stories.stored import Stored, checkpoint
from stories.story import Story
from weft.local import run as local
from weft.operators.windows import prepare as partial
from weft.store import layers


@contextmanager
def engine_of(story: Story) -> Iterator[Engine]:
    """The engine that a story is for, ready for its first step."""
    with (
        patch.object(layers, "MAX_LAYERS", story.most_layers),
        patch.object(local, "MAX_CELLS_PER_BUCKET", story.most_cells),
        # What is known of keys in a thread must not depend on the stories before.
        patch.object(partial, "_thread", threading.local()),
        ENGINES[story.engine](story) as engine,
    ):
        yield engine


@contextmanager
def _local(story: Story) -> Iterator[Engine]:
    engine = Local(story)
    try:
        yield engine
    finally:
        engine.run.shutdown()


@contextmanager
def _stored(story: Story) -> Iterator[Engine]:
    with checkpoint() as place:
        yield Stored(story, place)


ENGINES: dict[str, Callable[[Story], AbstractContextManager[Engine]]] = {"local": _local, "stored": _stored}
