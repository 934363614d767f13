"""Merged F1: inclusion and exclusion with equal terms merged, ours.

A tree's edges are kept as a map ``(lcm, residue) -> coefficient``: the indicator of its edges is the sum of
``coefficient * [instant is in the progression]``. Adding a progression adds its intersection with every key
(by the Chinese remainder theorem); equal keys merge and zeros vanish, so there are as many terms as distinct
intersections rather than 2^n. Progressions whose periods have no common factor meet as if by chance, so sets
of them are kept apart: the shares of time without an edge multiply, and n prime slides are n maps of one
term.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm, prod
from typing import Any

import numpy as np
from numba import njit

from weft.slicing.count.bitset import common_unit
from weft.slicing.count.limits import Unaffordable
from weft.slicing.progression import Progression, reduce_progressions

WORD, WRAP = 1 << 62, 1 << 64
ONE = Fraction(1)
NO_WORDS = np.zeros((0, 3), dtype=np.int64)

MAX_INTERSECTIONS = 1 << 20
"""Intersections computed for one count before it is refused: about two seconds."""

Terms = dict[tuple[int, int], int]


def merged_f1(progressions: Iterable[Progression], max_intersections: int = MAX_INTERSECTIONS) -> Fraction:
    """Return the edges per unit of time, by merged F1.

    >>> merged_f1([Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)])
    Fraction(4, 9)
    """
    return MergedF1.of(progressions, max_intersections).rate


@dataclass(frozen=True, slots=True)
class Component:
    """Progressions linked by common factors: their period, their terms, and edges per tick.

    ``words`` are the terms as rows of (lcm, residue, coefficient) where all fit machine words, else empty.
    """

    period: int
    terms: Terms
    density: Fraction
    words: np.ndarray


@dataclass(frozen=True, slots=True)
class MergedF1:
    """The edges of one tree; trees are joined and compared from their terms alone.

    Terms count in ticks of a clock ``(unit, instant of a tick)``, without which slides in whole minutes
    would all have a factor in common. Trees to be joined are best given one clock.

    >>> a = MergedF1.of([Progression(9, 0), Progression(9, 3)], clock=(1, 0))
    >>> b = MergedF1.of([Progression(6, 0), Progression(6, 4)], clock=(1, 0))
    >>> a.rate, b.rate, a.common(b), a.union(b).rate
    (Fraction(2, 9), Fraction(1, 3), Fraction(1, 9), Fraction(4, 9))
    """

    clock: tuple[int, int]
    components: tuple[Component, ...]
    density: Fraction
    period: int

    @classmethod
    def of(
        cls,
        progressions: Iterable[Progression],
        max_intersections: int = MAX_INTERSECTIONS,
        clock: tuple[int, int] | None = None,
    ) -> MergedF1:
        """Return the terms of these progressions, in at most so many intersections."""
        reduced = reduce_progressions(progressions)
        unit, shift = clock or (common_unit(reduced) if reduced else (1, 0))
        ticks = [(p.period // unit, (p.residue - shift) % p.period // unit) for p in reduced]
        budget = Budget(max_intersections)
        linked = _link([(key[0], {key: 1}) for key in ticks])
        return cls._of((unit, shift), [_join(terms, budget) for terms in linked])

    @classmethod
    def _of(cls, clock: tuple[int, int], components: Iterable[Component]) -> MergedF1:
        parts = tuple(components)
        density = parts[0].density if len(parts) == 1 else 1 - prod((1 - c.density for c in parts), start=ONE)
        return cls(clock, parts, density, prod(c.period for c in parts))

    @property
    def rate(self) -> Fraction:
        """Edges per unit of time."""
        return self.density / self.clock[0]

    def common(self, other: MergedF1, max_intersections: int = MAX_INTERSECTIONS) -> Fraction:
        """Return the edges per unit of time that both have, from the terms of both and nothing else."""
        return self.rate + other.rate - self.rate_with(other, max_intersections)

    def rate_with(self, other: MergedF1, max_intersections: int = MAX_INTERSECTIONS) -> Fraction:
        """Return the edges per unit of time of both together, without their terms."""
        if self.clock == other.clock and gcd(self.period, other.period) == 1:
            return (self.density + other.density - self.density * other.density) / self.clock[0]
        return self._joined(other, Budget(max_intersections), with_terms=False).rate

    def union(self, other: MergedF1, max_intersections: int = MAX_INTERSECTIONS) -> MergedF1:
        """Return the edges of both."""
        return self._joined(other, Budget(max_intersections), with_terms=True)

    def _joined(self, other: MergedF1, budget: Budget, with_terms: bool) -> MergedF1:
        clock = _finer(self.clock, other.clock)
        mine, theirs = self._on(clock, budget), other._on(clock, budget)
        sides = [(c.period, (0, c)) for c in mine] + [(c.period, (1, c)) for c in theirs]
        joined: list[Component] = []
        for group in _link(sides):
            if len(group) == 1:
                joined.append(group[0][1])
            elif with_terms:
                joined.append(_join([c.terms for _, c in group], budget))
            else:
                joined.append(_meet([c for s, c in group if not s], [c for s, c in group if s], budget))
        return MergedF1._of(clock, joined)

    def _on(self, clock: tuple[int, int], budget: Budget) -> tuple[Component, ...]:
        """Return the components in ticks of a finer clock, in which all periods have a factor in common."""
        if clock == self.clock:
            return self.components
        steps, first = self.clock[0] // clock[0], (self.clock[1] - clock[1]) // clock[0]
        finer = [
            {(n * steps, (r * steps + first) % (n * steps)): c for (n, r), c in component.terms.items()}
            for component in self.components
        ]
        return (_join(finer, budget),) if finer else ()


class Budget:
    """Intersections left before a count is refused."""

    def __init__(self, max_intersections: int) -> None:
        self.limit = self.left = max_intersections

    def spend(self, intersections: int) -> None:
        """Take so many; refuse where there are not as many left."""
        self.left -= intersections
        if self.left < 0:
            raise Unaffordable(
                f"merged F1 needs more than {self.limit:,} intersections", "estimate the rate from a sample"
            )


def intersect(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    """Return the progression of the instants in both, as (period, residue); none where they never meet.

    >>> intersect((9, 3), (6, 0)), intersect((6, 2), (3, 0))
    ((18, 12), None)
    """
    factor = gcd(a[0], b[0])
    apart, rest = divmod(b[1] - a[1], factor)
    if rest:
        return None
    steps = b[0] // factor
    period = a[0] * steps
    if steps == 1:
        return period, a[1]
    return period, a[1] + a[0] * (apart * pow(a[0] // factor, -1, steps) % steps)


def _added(a: Terms, b: Terms, budget: Budget) -> Terms:
    """Return the terms of the union: those of both, less those of the intersection."""
    budget.spend(len(a) * len(b))
    union = dict(a)
    for key, coefficient in b.items():
        union[key] = union.get(key, 0) + coefficient
    for mine, c in a.items():
        for theirs, d in b.items():
            both = intersect(mine, theirs)
            if both is not None:
                union[both] = union.get(both, 0) - c * d
    return {key: coefficient for key, coefficient in union.items() if coefficient}


def _join(parts: list[Terms], budget: Budget) -> Component:
    terms = parts[0]
    for more in parts[1:]:
        terms = _added(terms, more, budget)
    period = lcm(*(key[0] for key in terms))
    edges = sum(c * (period // n) for (n, _), c in terms.items())
    fit = period < WORD and all(-WORD < c < WORD for c in terms.values())
    words = np.array([(*key, c) for key, c in terms.items()] if fit else [], dtype=np.int64).reshape(-1, 3)
    return Component(period, terms, Fraction(edges, period), words)


def _meet(left: list[Component], right: list[Component], budget: Budget) -> Component:
    """Return the union's density without its terms: one sum over pairs of terms."""
    a = left[0] if len(left) == 1 else _join([c.terms for c in left], budget)
    b = right[0] if len(right) == 1 else _join([c.terms for c in right], budget)
    budget.spend(len(a.terms) * len(b.terms))
    period = lcm(a.period, b.period)
    if period < WORD and len(a.words) and len(b.words):
        common = int(_common_words(a.words, b.words, period)) % WRAP
    else:
        common = _common(a.terms, b.terms, period)
    return Component(period, {}, a.density + b.density - Fraction(common, period), NO_WORDS)


def _common(a: Terms, b: Terms, period: int) -> int:
    """Count the instants of one period in both."""
    common = 0
    for (m, r), c in a.items():
        for (n, s), d in b.items():
            factor = gcd(m, n)
            if (r - s) % factor == 0:
                common += c * d * (period // m // (n // factor))
    return common


@njit(cache=True, nogil=True)
def _common_words(a, b, period):  # type: ignore[no-untyped-def]
    """Count them in machine words: parts of the sum may wrap around, the sum itself is at most the period."""
    common = np.int64(0)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            m, n = a[i, 0], b[j, 0]
            while n:
                m, n = n, m % n
            if (a[i, 1] - b[j, 1]) % m == 0:
                common += a[i, 2] * b[j, 2] * (period // a[i, 0] // (b[j, 0] // m))
    return common


def _finer(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Return the coarsest clock that ticks whenever either does."""
    return a if a == b else (gcd(a[0], b[0], a[1] - b[1]), a[1])


def _link(parts: list[tuple[int, Any]]) -> list[list[Any]]:
    """Return the parts in groups, so that periods of different groups have no common factor."""
    groups: list[tuple[int, list[Any]]] = []
    for period, part in parts:
        linked = [g for g in groups if gcd(g[0], period) > 1]
        groups = [g for g in groups if gcd(g[0], period) == 1]
        groups.append((lcm(period, *(g[0] for g in linked)), [x for g in linked for x in g[1]] + [part]))
    return [group for _, group in groups]
