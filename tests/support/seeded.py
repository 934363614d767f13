"""A seeded table and any number of queries over it that Spark can express (no slide above the range)."""

from __future__ import annotations

import datetime
import random

import pyarrow as pa

from support.seeds import seeded_random
from weft.aggregates import FUNCTIONS
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate, Query
from weft.model.window import Window

SECOND = 1_000_000
HALF_HOUR = 1_800 * SECOND
NAN, INF = float("nan"), float("inf")

NUMBERS = ("i", "n", "x", "y")
KEYS = ("g", "h", "f", "b", "d")
ORDERED_COLUMNS = (*NUMBERS, *KEYS, "s", "ts")


def table(rows: int = 2_000, seed: int = 1) -> pa.Table:
    """An hour around the epoch in no order, with ties, nulls, NaN and infinities.

    Floats are multiples of 1/4, so that Spark's plain sums of them are exact too.
    """
    chance = seeded_random(seed)

    def with_nulls(draw: object, nulls: float = 0.1) -> list[object]:
        return [None if chance.random() < nulls else draw() for _ in range(rows)]  # type: ignore[operator]

    def quarter() -> float:
        return chance.choice((NAN, INF, -INF)) if chance.random() < 0.01 else chance.randint(-400, 400) / 4

    instants = with_nulls(lambda: chance.randrange(-HALF_HOUR, HALF_HOUR, chance.choice((1, SECOND))), 0.02)
    day = datetime.date(1969, 12, 30)
    return pa.table(
        {
            "ts": pa.array(instants, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "i": pa.array(with_nulls(lambda: chance.randint(-(10**6), 10**6)), pa.int64()),
            "n": pa.array(with_nulls(lambda: chance.randint(-9, 9)), pa.int32()),
            "x": pa.array(with_nulls(quarter), pa.float64()),
            "y": pa.array(with_nulls(lambda: chance.randint(-40, 40) / 4), pa.float32()),
            "p": pa.array(with_nulls(lambda: chance.uniform(0.5, 2.0)), pa.float64()),
            "s": pa.array(
                with_nulls(lambda: "".join(chance.choices("abé%_", k=chance.randint(0, 3)))), pa.string()
            ),
            "b": pa.array(with_nulls(lambda: chance.random() < 0.5), pa.bool_()),
            "g": pa.array(with_nulls(lambda: chance.choice(("red", "green", "blue", ""))), pa.string()),
            "h": pa.array(with_nulls(lambda: chance.choice((0, 1, 7))), pa.int16()),
            "f": pa.array(with_nulls(lambda: chance.choice((0.0, -0.0, NAN, 1.5))), pa.float64()),
            "d": pa.array(
                with_nulls(lambda: day + datetime.timedelta(days=chance.randint(0, 3))), pa.date32()
            ),
        }
    )


def queries(count: int, seed: int = 2) -> list[Query]:
    """Queries that share windows, predicates and keys as chance has it; every aggregate comes often."""
    chance = seeded_random(seed)
    functions = sorted(FUNCTIONS)
    drawn = []
    for number in range(count):
        chosen = [functions[number % len(functions)], *chance.choices(functions, k=chance.randint(0, 3))]
        drawn.append(
            Query(
                name=f"q{number}",
                source="rows",
                window=_window(chance),
                aggregates=tuple(_aggregate(chance, f, f"{f}_{place}") for place, f in enumerate(chosen)),
                group_by=tuple(chance.sample(KEYS, k=chance.choice((0, 0, 1, 1, 1, 2, 3)))),
                predicate=None if chance.random() < 0.3 else _predicate(chance, depth=2),
            )
        )
    return drawn


def _window(chance: random.Random) -> Window:
    slide = chance.choice((60, 97, 150, 300, 300, 450, 600, 600, 1_201)) * SECOND
    length = slide * chance.choice((1, 1, 2, 3, 4)) + chance.choice((0, 0, SECOND, 17 * SECOND, slide // 3))
    return Window(length, slide, chance.choice((0, 0, 0, 1, SECOND, slide // 2, slide - 1)))


def _aggregate(chance: random.Random, function: str, alias: str) -> Aggregate:
    return Aggregate(
        function, tuple(_argument(chance, function, t) for t in FUNCTIONS[function].accepts), alias
    )


def _argument(chance: random.Random, function: str, accepts: frozenset[str]) -> Expr:
    if "double" not in accepts:
        return _predicate(chance, depth=0)
    if function in ("product", "geometric_mean"):
        return Column("p")
    if "string" in accepts and chance.random() < 0.7:
        return Column(chance.choice(ORDERED_COLUMNS))
    return _number(chance) if chance.random() < 0.4 else Column(chance.choice(NUMBERS))


def _number(chance: random.Random) -> Expr:
    one, other = (Column(chance.choice(NUMBERS)) for _ in range(2))
    return chance.choice(
        (
            Call(chance.choice("+-"), (one, other)),
            Call("*", (Column("n"), Column(chance.choice(("n", "y"))))),
            Call("abs", (one,)),
            Call("coalesce", (one, Literal(0, "bigint"))),
            Call("case", (_predicate(chance, depth=0), one, other)),
            Call("%", (Column("i"), Literal(7, "bigint"))),
        )
    )


def _predicate(chance: random.Random, depth: int) -> Expr:
    if depth and chance.random() < 0.5:
        function = chance.choice(("and", "or", "not"))
        return Call(
            function, tuple(_predicate(chance, depth - 1) for _ in range(1 if function == "not" else 2))
        )
    comparison = chance.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
    text = Column(chance.choice("gs"))
    return chance.choice(
        (
            Column("b"),
            Call(comparison, (Column("n"), Literal(chance.randint(-5, 5), "bigint"))),
            Call(comparison, (Column("x"), Literal(chance.randint(-200, 200) / 4, "double"))),
            Call(comparison, (Column("x"), Column("y"))),
            Call(comparison, (text, Literal(chance.choice(("", "blue", "red", "é")), "string"))),
            Call(comparison, (Column("d"), Literal(datetime.date(1970, 1, 1), "date"))),
            Call("is_null", (Column(chance.choice(ORDERED_COLUMNS)),)),
            Call("in", (text, *(Literal(t, "string") for t in ("red", "a", "%")))),
            Call("in", (Column("h"), Literal(1, "bigint"), Literal(7, "bigint"))),
            Call("like", (text, Literal(chance.choice(("%e%", "a_", "%", "_")), "string"))),
            Call(comparison, (_number(chance), Literal(0, "bigint"))) if depth else Column("b"),
        )
    )
