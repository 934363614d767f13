"""Every aggregate over the rows of one window and group, in exact arithmetic rounded once at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

Cell: TypeAlias = tuple[int, tuple[Any, ...]]
"""The event time of one row and the values of an aggregate's arguments in it."""

OfCells: TypeAlias = Callable[[list[Cell]], Any]
"""An aggregate: the answer of the rows of one window and group."""


def order(value: Any) -> tuple[Any, ...]:
    """Return a key that sorts values: null first, NaN last, -0.0 the same as 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    return (1, value)


def fits(value: int) -> bool:
    """Return whether an integer fits 64 bits."""
    return -(2**63) <= value < 2**63


def present(cells: list[Cell]) -> list[Any]:
    """Return the values of a one-argument aggregate, nulls skipped."""
    return [args[0] for _, args in cells if args[0] is not None]


def of_values(function: Callable[[list[Any]], Any]) -> OfCells:
    """Return an aggregate over the values that are not null; null where there is none."""

    def over(cells: list[Cell]) -> Any:
        values = present(cells)
        return function(values) if values else None

    return over


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _finite(values: list[Any]) -> bool:
    return all(isinstance(v, int) or math.isfinite(v) for v in values)


def of_doubles(function: Callable[[list[float]], Any]) -> OfCells:
    """Return an aggregate that SQL defines on doubles: integers are converted first, each on its own."""
    return of_values(lambda values: function([float(v) for v in values]))


def _scaled(values: list[Any]) -> tuple[list[int], int]:
    """Return the values as integers over one denominator: a float is an integer over a power of two."""
    ratios = [v.as_integer_ratio() for v in values]
    denominator = max(d for _, d in ratios)
    return [n * (denominator // d) for n, d in ratios], denominator


def _total(values: list[Any]) -> Fraction:
    numerators, denominator = _scaled(values)
    return Fraction(sum(numerators), denominator)


def _sum(values: list[Any]) -> int | float:
    if all(isinstance(v, int) for v in values):
        return sum(values)
    return _rounded(_total(values)) if _finite(values) else sum(v for v in values if not math.isfinite(v))


def _avg(values: list[Any]) -> float:
    return _rounded(_total(values) / len(values)) if _finite(values) else _sum(values)


def _sum_of_squares(values: list[Any]) -> int | float:
    if all(isinstance(v, int) for v in values):
        return sum(v * v for v in values)
    if not _finite(values):
        return sum(abs(v) for v in values if not math.isfinite(v))
    numerators, denominator = _scaled(values)
    return _rounded(Fraction(sum(n * n for n in numerators), denominator**2))


def _variance(values: list[Any], divisor: int) -> float | None:
    if divisor == 0:
        return None
    if not _finite(values):
        return math.nan
    numerators, denominator = _scaled(values)
    n, total = len(numerators), sum(numerators)
    return _rounded(Fraction(n * sum(v * v for v in numerators) - total**2, n * divisor * denominator**2))


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _product(values: list[Any]) -> float:
    if not _finite(values):
        return math.prod(float(v) if not math.isfinite(v) else math.copysign(v != 0, v) for v in values)
    ratios = [v.as_integer_ratio() for v in values]
    return _rounded(Fraction(math.prod(n for n, _ in ratios), math.prod(d for _, d in ratios)))


def _geometric_mean(values: list[Any]) -> float:
    """exp(avg(ln x)), where ln 0 is minus infinity and ln of a negative number is NaN."""
    if any(v < 0 or math.isnan(v) for v in values):
        return math.nan
    logarithms = [math.log(v) if v else -math.inf for v in values]
    if all(math.isfinite(v) for v in logarithms):
        return math.exp(math.fsum(logarithms) / len(logarithms))
    total = sum(v for v in logarithms if not math.isfinite(v))
    return math.nan if math.isnan(total) else math.exp(total)


def _range(values: list[Any]) -> int | float:
    return max(values, key=order) - min(values, key=order)


def _at(extreme: Callable[..., Cell], by: Callable[[Cell], Any], place: Callable[[Cell], Any]) -> OfCells:
    """Return the first argument of the row where ``place`` is extreme, of those where ``by`` is not null."""

    def over(cells: list[Cell]) -> Any:
        kept = [cell for cell in cells if by(cell) is not None]
        return extreme(kept, key=place)[1][0] if kept else None

    return over


def _in_time(cell: Cell) -> Any:
    return cell[0], order(cell[1][0])


def _by_second(cell: Cell) -> Any:
    return order(cell[1][1]), cell[0], order(cell[1][0])


AGGREGATES: dict[str, OfCells] = {
    "count_star": len,
    "count": lambda cells: len(present(cells)),
    "count_if": lambda cells: sum(present(cells)),
    "sum": of_values(_sum),
    "avg": of_values(_avg),
    "min": of_values(lambda values: min(values, key=order)),
    "max": of_values(lambda values: max(values, key=order)),
    "range": of_values(_range),
    "var_pop": of_doubles(lambda values: _variance(values, len(values))),
    "var_samp": of_doubles(lambda values: _variance(values, len(values) - 1)),
    "stddev_pop": of_doubles(lambda values: _root(_variance(values, len(values)))),
    "stddev_samp": of_doubles(lambda values: _root(_variance(values, len(values) - 1))),
    "sum_of_squares": of_values(_sum_of_squares),
    "product": of_doubles(_product),
    "geometric_mean": of_doubles(_geometric_mean),
    "first": _at(min, lambda cell: cell[1][0], _in_time),
    "last": _at(max, lambda cell: cell[1][0], _in_time),
    "min_by": _at(min, lambda cell: cell[1][1], _by_second),
    "max_by": _at(max, lambda cell: cell[1][1], _by_second),
    "bool_and": of_values(all),
    "bool_or": of_values(any),
}
