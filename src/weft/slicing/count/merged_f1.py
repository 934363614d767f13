"""Merged F1: inclusion and exclusion with equal terms merged, ours.

A tree's edges are kept as a map ``(lcm, residue) -> coefficient``: the indicator of its edges is the sum of
``coefficient * [instant is in the progression]``. Adding a progression adds its intersection with every key
(by the Chinese remainder theorem); equal keys merge and zeros vanish, so there are as many terms as distinct
intersections rather than 2^n. Progressions whose periods have no common factor meet as if by chance, so sets
of them are kept apart: the shares of time without an edge multiply, and n prime slides are n maps of one term.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm, prod

from weft.slicing.count.limits import Unaffordable
from weft.slicing.progression import Progression, reduce_progressions

MOST = 1 << 20
"""Intersections computed for one count before it is refused: about two seconds."""

Terms = dict[tuple[int, int], int]


def merged_f1(progressions: Iterable[Progression], most: int = MOST) -> Fraction:
    """Edges per unit of time, by merged F1.

    >>> merged_f1([Progression(9, 0), Progression(9, 3), Progression(6, 0), Progression(6, 4)])
    Fraction(4, 9)
    """
    return MergedF1.of(progressions, most).rate


@dataclass(frozen=True, slots=True)
class Component:
    """Progressions linked by common factors: their period, their terms and their edge rate."""

    period: int
    terms: Terms
    rate: Fraction


@dataclass(frozen=True, slots=True)
class MergedF1:
    """The edges of one tree; trees are joined and compared from their terms alone.

    >>> a = MergedF1.of([Progression(9, 0), Progression(9, 3)])
    >>> b = MergedF1.of([Progression(6, 0), Progression(6, 4)])
    >>> a.rate, b.rate, a.common(b), a.union(b).rate
    (Fraction(2, 9), Fraction(1, 3), Fraction(1, 9), Fraction(4, 9))
    """

    components: tuple[Component, ...]
    rate: Fraction

    @classmethod
    def of(cls, progressions: Iterable[Progression], most: int = MOST) -> MergedF1:
        """The terms of these progressions, in at most ``most`` intersections."""
        budget = Budget(most)
        linked = _link([(p.period, [p]) for p in reduce_progressions(progressions)])
        return cls._of([_component([p for some in parts for p in some], budget) for parts in linked])

    @classmethod
    def _of(cls, components: Iterable[Component]) -> MergedF1:
        some = tuple(components)
        return cls(some, _either(c.rate for c in some))

    def common(self, other: MergedF1, most: int = MOST) -> Fraction:
        """Edges per unit of time that both have, from the terms of both and nothing else."""
        union = self._joined(other, Budget(most), rate_only=True)
        return self.rate + other.rate - union.rate

    def union(self, other: MergedF1, most: int = MOST) -> MergedF1:
        """The edges of both."""
        return self._joined(other, Budget(most), rate_only=False)

    def _joined(self, other: MergedF1, budget: Budget, rate_only: bool) -> MergedF1:
        sides = [(c.period, (0, c)) for c in self.components] + [(c.period, (1, c)) for c in other.components]
        joined = []
        for parts in _link(sides):
            mine = [c for side, c in parts if side == 0]
            theirs = [c for side, c in parts if side == 1]
            if len(parts) == 1:
                joined.append(parts[0][1])
            elif rate_only:
                joined.append(_meet(mine, theirs, budget))
            else:
                joined.append(_join(mine + theirs, budget))
        return MergedF1._of(joined)


class Budget:
    """Intersections left before a count is refused."""

    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def spend(self, intersections: int) -> None:
        """Take so many; refuse where there are not as many left."""
        self.left -= intersections
        if self.left < 0:
            raise Unaffordable(
                f"merged F1 needs more than {self.most:,} intersections", "estimate the rate from a sample"
            )


def intersect(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int] | None:
    """The progression of the instants in both, as (period, residue); none where they never meet.

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


def _component(progressions: list[Progression], budget: Budget) -> Component:
    terms: Terms = {}
    for p in progressions:
        terms = _added(terms, {(p.period, p.residue): 1}, budget)
    return _finished(terms)


def _finished(terms: Terms) -> Component:
    period = lcm(*(key[0] for key in terms))
    return Component(period, terms, Fraction(sum(c * (period // key[0]) for key, c in terms.items()), period))


def _added(a: Terms, b: Terms, budget: Budget) -> Terms:
    """The terms of the union: those of both, less those of the intersection."""
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


def _join(components: list[Component], budget: Budget) -> Component:
    terms = components[0].terms
    for component in components[1:]:
        terms = _added(terms, component.terms, budget)
    return _finished(terms)


def _meet(mine: list[Component], theirs: list[Component], budget: Budget) -> Component:
    """The edge rate of the union without its terms: one sum over pairs of terms."""
    a = mine[0] if len(mine) == 1 else _join(mine, budget)
    b = theirs[0] if len(theirs) == 1 else _join(theirs, budget)
    budget.spend(len(a.terms) * len(b.terms))
    period = lcm(a.period, b.period)
    common = 0
    for (m, r), c in a.terms.items():
        for (n, s), d in b.terms.items():
            factor = gcd(m, n)
            if (r - s) % factor == 0:
                common += c * d * (period // m // (n // factor))
    return Component(period, {}, a.rate + b.rate - Fraction(common, period))


def _either(rates: Iterable[Fraction]) -> Fraction:
    """The rate of the union of sets of edges that meet as if by chance."""
    return 1 - prod((1 - rate for rate in rates), start=Fraction(1))


def _link(parts: list[tuple[int, object]]) -> list[list]:  # type: ignore[type-arg]
    """The parts in groups, so that periods of two groups have no common factor."""
    groups: list[tuple[int, list[object]]] = []
    for period, part in parts:
        apart = [g for g in groups if gcd(g[0], period) == 1]
        linked = [g for g in groups if gcd(g[0], period) > 1]
        groups = [*apart, (lcm(period, *(g[0] for g in linked)), [x for g in linked for x in g[1]] + [part])]
    return [group for _, group in groups]
