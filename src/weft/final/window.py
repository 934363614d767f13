"""The contract of every final-aggregation algorithm, step by step: insert, evict, query.

A partial is a matrix ``[groups, width]``: one state per group key. Where an algorithm's control flow does
not depend on data, one operation serves all keys. Keys may appear at any time: a shorter partial stands for
identities in the rows it lacks, and a key that is gone is a row of identities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar

import numpy as np

from weft.aggregates.monoid import Monoid
from weft.aggregates.objects import ObjectMonoid
from weft.final.algebra import combine, inverse, load, store
from weft.final.card import Card
from weft.final.kernels import compile_kernel


class SlidingWindow(ABC):
    """Partials that slide: the newest ``query(n)`` of them combined, oldest first.

    ``windows`` are the numbers of partials that queries ask for: the largest is the capacity. Any other n
    up to the size is answered too, at a higher cost where an algorithm keeps one copy per query.
    ``operations`` counts combine and inverse, one for all keys of a partial.
    """

    card: ClassVar[Card]

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        self.card.check(monoid)
        self.monoid = monoid
        self.windows = tuple(sorted(set(windows), reverse=True))
        if not self.windows or self.windows[-1] < 1:
            raise ValueError("a sliding window needs the numbers of partials of its queries, each at least 1")
        self.capacity = self.windows[0]
        self.operations = 0
        # Positions count from the first partial ever inserted and never wrap: partials [first, end) are here.
        self.first = self.end = 0

    def __len__(self) -> int:
        return self.end - self.first

    def insert(self, partial: np.ndarray) -> None:
        """Add the newest partial."""
        if len(self) == self.capacity:
            raise ValueError(f"the window is full with {self.capacity} partials: evict one first")
        words = object if isinstance(self.monoid, ObjectMonoid) else np.int64
        self._insert(np.ascontiguousarray(partial, dtype=words).reshape(-1, self.monoid.width))
        self.end += 1

    def evict(self) -> None:
        """Drop the oldest partial."""
        if not len(self):
            raise ValueError("the window is empty: there is no partial to evict")
        self._evict()
        self.first += 1

    def query(self, n: int) -> np.ndarray:
        """The newest n partials combined; the identity for n = 0."""
        if not 0 <= n <= len(self):
            raise ValueError(f"the window has {len(self)} partials, not {n}")
        return self._query(n) if n else self.monoid.identity(1)

    @property
    @abstractmethod
    def memory(self) -> int:
        """The partials (and positions, each counted as one) that are kept."""

    @abstractmethod
    def _insert(self, partial: np.ndarray) -> None: ...

    def _evict(self) -> None:  # noqa: B027 (what has left is simply never read again, unless overridden)
        """Forget the oldest partial."""

    @abstractmethod
    def _query(self, n: int) -> np.ndarray: ...

    def combine(self, older: np.ndarray | None, newer: np.ndarray | None) -> np.ndarray:
        """Two neighbouring partials as one; None is nothing, and costs nothing."""
        if older is None or newer is None:
            present = newer if older is None else older
            return self.monoid.identity(1) if present is None else present
        self.operations += 1
        return _apply(_combine_kernel, self.monoid, older, newer)

    def same(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Return whether two partials are known to be equal; of objects it never is."""
        return not isinstance(self.monoid, ObjectMonoid) and np.array_equal(one, other)

    def inverse(self, total: np.ndarray, oldest: np.ndarray) -> np.ndarray:
        """A total without its oldest partial."""
        self.operations += 1
        return _apply(_inverse_kernel, self.monoid, total, oldest)


class CopyPerQuery(SlidingWindow):
    """An algorithm that answers only for all it holds: one copy for each of ``windows``.

    A copy is itself a window, of one query, that drops its oldest partial when a newer one would exceed it.
    """

    copy: type[SingleQuery]

    def __init__(self, monoid: Monoid, windows: Iterable[int]) -> None:
        super().__init__(monoid, windows)
        self.copies = [self.copy(self, n) for n in self.windows]

    @property
    def memory(self) -> int:
        return sum(c.memory for c in self.copies)

    def _insert(self, partial: np.ndarray) -> None:
        for c in self.copies:
            if c.size == c.capacity:
                c.evict()
                c.size -= 1
            c.insert(partial)
            c.size += 1

    def _evict(self) -> None:
        for c in self.copies:
            if c.size == len(self):
                c.evict()
                c.size -= 1

    def _query(self, n: int) -> np.ndarray:
        nearest = min((c for c in self.copies if c.size >= n), key=lambda c: c.size)
        return nearest.newest(n)


class SingleQuery(ABC):
    """One copy: the partials of one query of a ``CopyPerQuery``, which counts its operations."""

    def __init__(self, owner: CopyPerQuery, capacity: int) -> None:
        self.combine, self.inverse = owner.combine, owner.inverse
        self.capacity, self.size = capacity, 0

    @property
    @abstractmethod
    def memory(self) -> int: ...

    @abstractmethod
    def insert(self, partial: np.ndarray) -> None: ...

    @abstractmethod
    def evict(self) -> None: ...

    @abstractmethod
    def newest(self, n: int) -> np.ndarray:
        """The newest n of the partials held: at its cheapest for all of them."""


def _apply(
    kernel: Callable[[int, int], Callable[..., Any]], monoid: Monoid, a: np.ndarray, b: np.ndarray
) -> np.ndarray:
    """One operation for all keys, on as many rows as the longer of the two."""
    if len(a) != len(b):
        rows = max(len(a), len(b))
        a, b = (np.concatenate([m, monoid.identity(rows - len(m))]) for m in (a, b))
    out = np.empty_like(a)
    if isinstance(monoid, ObjectMonoid):
        operation = monoid.combine if kernel is _combine_kernel else monoid.inverse
        for row in range(len(out)):
            out[row, 0] = operation(a[row, 0], b[row, 0])
        return out
    kernel(monoid.code, monoid.width)(a.reshape(-1), b.reshape(-1), out.reshape(-1))
    return out


@cache
def _combine_kernel(code: int, width: int) -> Callable[..., Any]:
    @compile_kernel
    def combine_rows(older, newer, out):  # type: ignore[no-untyped-def]
        for i in range(out.size // width):
            store(width, out, i, combine(code, load(width, older, i), load(width, newer, i)))

    return combine_rows


@cache
def _inverse_kernel(code: int, width: int) -> Callable[..., Any]:
    @compile_kernel
    def inverse_rows(total, oldest, out):  # type: ignore[no-untyped-def]
        for i in range(out.size // width):
            store(width, out, i, inverse(code, load(width, total, i), load(width, oldest, i)))

    return inverse_rows
