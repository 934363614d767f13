"""Checkpoints that runs of this process use: each by one run at a time.

Spark stops a query when another is started over the same log, and the first run would end well, with results
missing. Against runs of other processes, the numbers of manifests are taken once.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import JobError
from weft.io.filesystem import resolve, uri

_claimed: set[tuple[str, str]] = set()
_lock = threading.Lock()


class Claim:
    """A checkpoint, or a temporary folder in its place, for one run; JobError where another run has it.

    >>> claim = Claim("/data/state")
    >>> with claim.taken():
    ...     pass
    >>> Claim("/data/state")
    Traceback (most recent call last):
    weft.errors.JobError: checkpoint '/data/state' is in use by another run of this process; stop that first
    >>> claim.release()
    """

    def __init__(self, checkpoint: str | os.PathLike[str] | None) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if checkpoint is None:
            self._folder = tempfile.TemporaryDirectory(prefix="weft-stream-")
            checkpoint = self._folder.name
        self.place = uri(checkpoint)
        system, path = resolve(self.place)
        self._key = (system.type_name, os.path.realpath(path) if system.type_name == "local" else path)
        with _lock:
            self._check()

    @property
    def is_kept(self) -> bool:
        """True where the state is there after the run."""
        return self._folder is None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take it, from the block on and until it is released; at once where the block fails."""
        with _lock:
            self._check()
            _claimed.add(self._key)
        try:
            yield
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others have it; a temporary folder is removed."""
        with _lock:
            _claimed.discard(self._key)
        if self._folder is not None:
            self._folder.cleanup()

    def _check(self) -> None:
        if self._key in _claimed:
            raise JobError(
                f"checkpoint '{self.place}' is in use by another run of this process; stop that first"
            )
