"""Memory that kernels work in, kept from call to call: fresh pages can cost more than the work in them."""

from __future__ import annotations

import threading

import numpy as np

MAX_KEPT_WORDS = 1 << 22
"""Words that a thread keeps at most: 32 MB."""


def scratch(words: int) -> np.ndarray:
    """Return room for so many words, of any content; the next call from this thread may get the same.

    >>> scratch(100).size >= 100
    True
    """
    if words > MAX_KEPT_WORDS:
        return np.empty(words, dtype=np.int64)
    room: np.ndarray | None = getattr(_thread, "room", None)
    if room is None or room.size < words:
        room = _thread.room = np.empty(1 << max(words - 1, 1).bit_length(), dtype=np.int64)
    return room


_thread = threading.local()
