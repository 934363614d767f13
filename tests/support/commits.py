"""Commits that fail: what was not committed never happened, and is made again by the next run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from weft.errors import CheckpointError
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry


@contextmanager
def failing_commit(seq: int) -> Iterator[None]:
    """In the block, one step cannot be committed; all its files have been written then."""
    publish = Checkpoint.publish

    def fail(checkpoint: Checkpoint, entry: Entry) -> Entry:
        if entry.seq == seq:
            raise CheckpointError("no room")
        return publish(checkpoint, entry)

    with patch.object(Checkpoint, "publish", fail):
        yield
