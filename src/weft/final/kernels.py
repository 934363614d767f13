"""How the kernels of this package are compiled, and when a compiled one on disk is still good."""

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
from numba.core.caching import FunctionCache
from numba.extending import overload

from weft.aggregates.monoid import FIRST_USER

OPTIONS: Any = {"forceinline": True, "_nrt": False}
"""How functions called by kernels are compiled: into the caller, without counting references to its arrays.

A function that allocates nothing has no reason to count them, and an atomic count in an inner loop costs more
than all the rest of it.
"""

LLVM_WITH_SWITCH = (22,)

# Which of two states is the larger is a coin toss, and LLVM may turn the conditional move that decides it
# into a branch, which halves the speed of a scan. It has no switch for one function, so this one is for all
# that Numba compiles in the process; and it ends the process where it does not know an option, so that only
# versions known to have this one are asked.
if platform.machine() in ("x86_64", "AMD64") and llvm.llvm_version_info[0] in LLVM_WITH_SWITCH:
    llvm.set_option("weft", "-x86-cmov-converter=false")


def compile_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel; Numba keeps it on disk for each set of constants that it closes over.

    One for a formula that a user wrote is not kept: its code means another formula in the next process.
    """
    compiled: Any = njit(nogil=True)(function)
    if getclosurevars(function).nonlocals.get("code", 0) >= FIRST_USER:
        return compiled  # type: ignore[no-any-return]
    compiled._cache = _KernelCache(function)  # type: ignore[no-untyped-call]
    return compiled  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Any:
    """A function of kernels: compiled into each of them, with ``code`` and ``width`` as constants."""

    @wraps(function)
    def choose(*types: Any) -> Callable[..., Any]:
        return function

    overload(function, jit_options=OPTIONS, prefer_literal=True)(choose)
    return function


class _KernelCache(FunctionCache):
    """Numba's own looks at the kernel's file only: a kernel holds formulas of other files, too."""

    def _index_key(self, sig, codegen):  # type: ignore[no-untyped-def]
        return (*super()._index_key(sig, codegen), _formulas())  # type: ignore[no-untyped-call]


@cache
def _formulas() -> int:
    """Changes with every change of what kernels are made of."""
    here = Path(__file__).parent
    shared = (
        here / "algebra.py",
        here / "stack.py",
        here / "technique.py",
        here.parent / "aggregates" / "monoid.py",
        Path(__file__),
    )
    return zlib.crc32(b"".join(file.read_bytes() for file in shared))
