"""Counting edges exactly: one counter, one file, the same rational answer from each.

A counter takes progressions and gives edges per unit of time as a ``Fraction``. The bit set is the oracle;
F1 is the thesis's closed formula; merged F1 is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from weft.slicing.count.bitset import bitset
from weft.slicing.count.f1 import f1, f1_opt
from weft.slicing.count.limits import Unaffordable
from weft.slicing.count.merged_f1 import MergedF1, merged_f1
from weft.slicing.progression import Progression

Counter = Callable[[Iterable[Progression]], Fraction]

COUNTERS: dict[str, Counter] = {"bitset": bitset, "f1": f1, "f1-opt": f1_opt, "merged-f1": merged_f1}


__all__ = [
    "COUNTERS",
    "Counter",
    "MergedF1",
    "Unaffordable",
    "bitset",
    "f1",
    "f1_opt",
    "merged_f1",
]
