"""User-defined aggregates for the tests: built-in ones written again, and one that is not commutative."""

from __future__ import annotations

from typing import Any

import weft

MODULUS = 1_000_003


def define_again(compiled: bool = True, prefix: str = "my") -> list[weft.UserAggregate]:
    """``sum``, ``max``, ``avg`` and ``corr``-like sums of two arguments, as a user would write them."""
    options: dict[str, Any] = {"compiled": compiled}
    return [
        weft.define_aggregate(
            f"{prefix}_sum",
            lift=lambda x: x,
            combine=lambda a, b: a + b,
            inverse=lambda total, oldest: total - oldest,
            lower=lambda s: s,
            identity=0,
            result="bigint",
            samples=[1, -5, 12],
            **options,
        ),
        weft.define_aggregate(
            f"{prefix}_max",
            lift=lambda x: x,
            combine=lambda a, b: a if a >= b else b,
            lower=lambda s: s,
            identity=float("-inf"),
            result="double",
            samples=[1.0, -5.0, 12.5],
            **options,
        ),
        weft.define_aggregate(
            f"{prefix}_mean",
            lift=lambda x: (x, 1),
            combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
            lower=lambda s: s[0] / s[1],
            identity=(0.0, 0),
            result="double",
            samples=[1.0, -5.0, 12.5],
            **options,
        ),
        weft.define_aggregate(
            f"{prefix}_slope",
            lift=lambda x, y: (1, x, y, x * x, x * y, True),
            combine=lambda a, b: (
                a[0] + b[0],
                a[1] + b[1],
                a[2] + b[2],
                a[3] + b[3],
                a[4] + b[4],
                a[5] or b[5],
            ),
            lower=_slope,
            identity=(0, 0.0, 0.0, 0.0, 0.0, False),
            result="double",
            arguments=2,
            samples=[(1.0, 2.0), (-5.0, 0.5)],
            **options,
        ),
    ]


def define_maps() -> weft.UserAggregate:
    """The maps x -> a*x + b of all rows applied to 1, the oldest first: their order matters."""
    return weft.define_aggregate(
        "mapped",
        lift=lambda a, b: (a % 1_000_003, b % 1_000_003),
        combine=lambda f, g: (f[0] * g[0] % 1_000_003, (f[1] * g[0] + g[1]) % 1_000_003),
        lower=lambda f: (f[0] + f[1]) % 1_000_003,
        identity=(1, 0),
        result="bigint",
        commutative=False,
        arguments=2,
        samples=[(2, 3), (5, -7), (0, 4)],
    )


def mapped(rows: list[tuple[int, int, int]]) -> int | None:
    """Return the answer of ``mapped`` for rows of (event time, a, b)."""
    value = 1
    for _, a, b in sorted(rows):
        value = (a * value + b) % MODULUS
    return value if rows else None


# A function that can be imported by name would have to be there for Spark's tasks, too: a lambda travels.
_slope = lambda s: (  # noqa: E731
    None if s[0] * s[3] == s[1] * s[1] else (s[0] * s[4] - s[1] * s[2]) / (s[0] * s[3] - s[1] * s[1])
)


def define_all() -> None:
    """Define the aggregates above, compiled as ``my_...`` and in plain Python as ``py_...``, and the maps."""
    define_again()
    define_again(compiled=False, prefix="py")
    define_maps()
