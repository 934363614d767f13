"""Memory that batches free is kept for the next ones: fresh pages can cost more than the work in them."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

MAX_KEPT_BYTES = (1 << 31) - 1
"""Bytes of freed memory that the process keeps at most: two gigabytes, the most that can be asked for."""

# Names of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MAX_HEAP_BLOCK_BYTES = 1 << 30


@cache
def keep_memory() -> bool:
    """Tell the C library, once in a process, not to give freed memory back at once; whether it agreed.

    Every batch makes and frees arrays of much the same sizes. By default glibc gets large ones from the
    system and gives them back, so that every batch has its pages cleared anew. What is kept was in use
    before: the peak does not grow. ``WEFT_KEEP_MEMORY=0`` in the environment leaves the default; elsewhere
    than on glibc nothing is done.
    """
    if os.environ.get("WEFT_KEEP_MEMORY") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    options = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _MAX_HEAP_BLOCK_BYTES), (_TRIM_THRESHOLD, MAX_KEPT_BYTES))
    return all(mallopt(option, value) for option, value in options)


@contextmanager
def without_collections() -> Iterator[None]:
    """In the block, Python does not look for garbage in cycles, of which batches make none.

    It would look whenever some thousand tables have been made, through all that was ever imported.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
