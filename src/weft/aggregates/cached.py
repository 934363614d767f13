"""The compiler of kernels made for one monoid each, and a cache of them that several processes share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache

try:
    import fcntl
except ImportError:  # not a POSIX system: nothing to lock with
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

INLINED: Any = {"forceinline": True, "_nrt": False}
"""Options of functions called by kernels: compiled into the caller, without counting references to arrays.

A function that allocates nothing has no reason to count them, and an atomic count in an inner loop costs more
than all the rest of it.
"""


class LockedCache(FunctionCache):
    """Numba's cache of compiled functions, saved to by one process at a time.

    The kernels of all monoids are one function to Numba, with one index of numbered files. Two processes
    that save at the same moment would give two kernels one number, and a monoid would get another's code.
    """

    announced: ClassVar = False
    """True once this process has reported that it compiles."""

    def load_overload(self, sig, target_context):  # type: ignore[no-untyped-def]
        """Load a compiled kernel; log once where there is none, for compiling it may take seconds."""
        overload = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        if overload is None and not LockedCache.announced:
            LockedCache.announced = True
            log.warning("weft compiles kernels for these aggregates (once; they are kept for later runs) ...")
        return overload

    def save_overload(self, sig, data):  # type: ignore[no-untyped-def]
        """Save under a lock of the folder."""
        with _locked(self.cache_path):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def compile_cached(function: Callable[..., Any], cache: type[FunctionCache] = LockedCache) -> Any:
    """Compile a kernel at its first call, and keep it on disk for each set of constants it closes over."""
    compiled: Any = njit(nogil=True)(function)
    compiled._cache = cache(function)  # type: ignore[no-untyped-call]
    return compiled


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "weft.lock"), "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
        yield


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to: Arrow's memory never can, and to Numba that is another type.

    Kernels that only read an array get it so, and are compiled once for both.

    >>> read_only(np.zeros(3)).flags.writeable
    False
    """
    view = array.view()
    view.flags.writeable = False
    return view
