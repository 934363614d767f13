"""The time of every single slide: a slide kernel compiled with an output that notes when it is written to.

The output is a pair: one answer, and the processor's cycle counter at each write, after the number of writes
so far. With room for one answer no kernel can work ahead, so the time between two writes is that of a slide.
"""

from __future__ import annotations

import operator
import time
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from _final.operations import OPERATIONS
from lab.final.sliding import slide_kernel


def slide_nanoseconds(name: str, operation: str, values: np.ndarray, window: int, tries: int) -> np.ndarray:
    """Nanoseconds of each slide but the first ``window``, which fill it.

    The same stream runs several times, and a slide's time is the mean of the middle half of its tries: what
    the algorithm does comes back every time, what else the machine did does not, and the mean is finer than
    the steps in which some processors count.
    """
    kernel = _timed_kernel(name, operation)
    windows, rows = np.array([window, 0]), np.zeros(1, dtype=np.int64)
    neutral = OPERATIONS[operation].identity(1).reshape(-1)
    answer, stamps = np.zeros(1, dtype=np.int64), np.ones(len(values) + 1, dtype=np.int64)
    cycles = np.empty((tries, len(values) - 1), dtype=np.int64)
    for row in cycles:
        stamps[0] = 0
        kernel(values, windows, rows, neutral, 1, (answer, stamps))
        if stamps[0] != len(values):
            raise AssertionError(f"{name} wrote {stamps[0]} answers for {len(values)} values")
        row[:] = np.diff(stamps[1:])
    cycles.sort(axis=0)
    middle = cycles[tries // 4 : tries - tries // 4]
    return middle[:, window:].mean(axis=0) * nanoseconds_per_cycle()


def nanoseconds_per_cycle() -> float:
    """Of the cycle counter, which need not run with the processor's clock."""
    cycles, start = _cycles(), time.perf_counter_ns()
    time.sleep(0.05)
    return (time.perf_counter_ns() - start) / (_cycles() - cycles)


def _timed_kernel(name: str, operation: str) -> Any:
    return njit(nogil=True)(slide_kernel(name, OPERATIONS[operation]).py_func)


@intrinsic
def _counter(typing_context):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

    return types.int64(), generate


@njit
def _cycles():  # type: ignore[no-untyped-def]
    return _counter()


@overload(operator.setitem)
def _write_and_stamp(out, i, answer):  # type: ignore[no-untyped-def]
    if not isinstance(out, types.UniTuple):
        return None

    def write(out, i, answer):  # type: ignore[no-untyped-def]
        answers, stamps = out
        answers[i] = answer
        stamps[0] += 1
        stamps[stamps[0]] = _counter()

    return write
