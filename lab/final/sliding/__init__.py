"""Techniques slide by slide, as the papers measure them: after each value, the answers of all windows.

The engine asks a technique for the runs of a whole step instead (``Technique.answer``). Here each technique
has one file of its name with ``slide_kernel(monoid)``, a compiled function of ``(values, windows, rows,
neutral, columns, out)``: the answers of window k go to the ``columns`` states of ``out`` from ``rows[k]`` on.
The widest window comes first, and a zero after the last: a loop that ends there is not unrolled for many
windows, which would slow down the few.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.final import TECHNIQUES
from weft.final.technique import Kernel


def slide(
    name: str, monoid: Monoid, values: np.ndarray, windows: Iterable[int], out: np.ndarray | None = None
) -> np.ndarray:
    """Return, after each value, the newest ``windows[k]`` values combined (as many as there are, at first).

    ``out[k, i % m]`` is the answer of window k after value i, where ``out`` is ``[windows, m, width]``:
    with fewer columns than values it keeps the newest answers. By default it holds them all.

    >>> from weft.aggregates.monoid import MAX
    >>> slide("twostacks", Monoid(MAX, 1), np.array([[6], [5], [0], [1]]), [2, 3])[:, :, 0].tolist()
    [[6, 6, 5, 1], [6, 6, 6, 5]]
    """
    TECHNIQUES[name].card.check(monoid)
    sizes = np.array(list(windows), dtype=np.int64)
    if out is None:
        out = np.empty((len(sizes), max(len(values), 1), monoid.width), dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    widest_first = np.append(sizes[order], 0)
    kernel, neutral = slide_kernel(name, monoid), monoid.identity(1).reshape(-1)
    words, rows = np.ascontiguousarray(values).reshape(-1), order * out.shape[1]
    kernel(words, widest_first, rows, neutral, out.shape[1], out.reshape(-1))
    return out


def slide_kernel(name: str, monoid: Monoid) -> Kernel:
    """Return the kernel of a technique that slides over the states of a monoid."""
    kernel: Kernel = import_module(f"{__name__}.{name}").slide_kernel(monoid)
    return kernel
