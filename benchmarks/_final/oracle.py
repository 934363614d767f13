"""The techniques as plain C loops, compiled when asked for: what a kernel's speed is held against."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from _final.operations import contestants

SOURCES = Path(__file__).parent / "c"
FLAGS = ("-O3", "-march=native", "-fwrapv", "-shared", "-fPIC")

Slide = Callable[[np.ndarray, Iterable[int], np.ndarray], None]
"""``(values, windows, out)``: as ``lab.final.sliding.slide``, for states of one word."""


def compile_oracles(operation: str, folder: Path) -> dict[str, Slide]:
    """Each technique's C form for one operation; none without a C compiler."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return {}
    names = list(contestants(operation))
    library = folder / f"{operation}.so"
    sources = [str(SOURCES / f"{name}.c") for name in names]
    subprocess.run([gcc, *FLAGS, f"-D{operation.upper()}", *sources, "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    return {name: _slide(loaded[name]) for name in names}


def _slide(function: Callable[..., None]) -> Slide:
    def slide(values: np.ndarray, windows: Iterable[int], out: np.ndarray) -> None:
        sizes = np.array(list(windows), dtype=np.int64)
        order = np.argsort(-sizes, kind="stable")
        widest_first, rows = np.append(sizes[order], 0), order * out.shape[1]
        function(
            *(_pointer(values), _long(len(values)), _pointer(widest_first), _long(len(sizes))),
            *(_pointer(rows), _long(out.shape[1]), _pointer(out)),
        )

    return slide


def _pointer(words: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(words.ctypes.data)


def _long(number: int) -> ctypes.c_int64:
    return ctypes.c_int64(number)
