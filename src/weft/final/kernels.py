"""The compiler of this package's kernels, and the check that a compiled one on disk is still good."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Callable
from functools import cache, wraps
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from numba import njit
from numba.extending import overload

from weft.aggregates.cached import INLINED, LockedCache, compile_cached
from weft.aggregates.monoid import FIRST_USER

LLVM_WITH_SWITCH = (22,)

# Which of two states is the larger is a coin toss, and LLVM may turn the conditional move that decides it
# into a branch, which halves the speed of a scan. It has no switch for one function, so this one is for all
# that Numba compiles in the process; and it ends the process where it does not know an option, so that only
# versions known to have this one are asked.
if platform.machine() in ("x86_64", "AMD64") and llvm.llvm_version_info[0] in LLVM_WITH_SWITCH:
    llvm.set_option("weft", "-x86-cmov-converter=false")


class KernelCache(LockedCache):
    """A cache that looks at all files whose formulas a kernel holds; Numba's looks at the kernel's alone."""

    def _index_key(self, sig, codegen):  # type: ignore[no-untyped-def]
        return (*super()._index_key(sig, codegen), _formulas_checksum())  # type: ignore[no-untyped-call]


def compile_kernel(
    function: Callable[..., Any], cache_class: type[KernelCache] = KernelCache
) -> Callable[..., Any]:
    """Compile a kernel; Numba keeps it on disk for each set of constants that it closes over.

    One for a formula that a user wrote is not kept: its code means another formula in the next process.
    """
    if getclosurevars(function).nonlocals.get("code", 0) >= FIRST_USER:
        return njit(nogil=True)(function)  # type: ignore[no-any-return]
    return compile_cached(function, cache_class)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function into each kernel that calls it, with ``code`` and ``width`` as constants."""

    @wraps(function)
    def choose(*types: Any) -> Callable[..., Any]:
        return function

    overload(function, jit_options=INLINED, prefer_literal=True)(choose)
    return function


@cache
def _formulas_checksum() -> int:
    """Return a number that changes with the files that kernels are made of."""
    here = Path(__file__).parent
    files = (
        here / "algebra.py",
        here / "stack.py",
        here / "technique.py",
        here.parent / "aggregates" / "cached.py",
        here.parent / "aggregates" / "monoid.py",
        Path(__file__),
    )
    return zlib.crc32(b"".join(file.read_bytes() for file in files))
