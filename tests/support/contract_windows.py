"""Cases of windows for the laws of the contract: queries of all kinds, late rows, changed queries."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
from hypothesis import strategies as st

import weft
from support.contract_cases import CaseStep, ContractCase
from support.seeds import seeded_random
from support.user_aggregates import define_again, define_maps
from weft.aggregates.registry import USER_FUNCTIONS
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate, Query
from weft.model.window import Window
from weft.operators.contract import ArrivedRows
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.history import origin_of
from weft.operators.windows.program import Origin
from weft.operators.windows.stage import WindowsStage

STREAM, TIME = "trades", "ts"
SCHEMA = pa.schema(
    {TIME: pa.timestamp("us", "UTC"), "k": pa.string(), "h": pa.int16(), "x": pa.int64(), "y": pa.float64()}
)
STEP_TIME = 7
"""Microseconds that a step brings, about."""

PREDICATES: tuple[Expr | None, ...] = (
    None,
    Call(">", (Column("x"), Literal(2, "bigint"))),
    Call("<", (Column("y"), Literal(0.5, "double"))),
    Call("is_null", (Column("k"),)),
)
AGGREGATES = (
    ("count_star", ()),
    ("sum", ("x",)),
    ("sum", ("y",)),
    ("avg", ("y",)),
    ("min", ("k",)),
    ("max", ("y",)),
    ("first", ("k",)),
    ("last", ("x",)),
    ("approx_count_distinct", ("x",)),
    ("py_max", ("y",)),
    ("py_mean", ("y",)),  # adds up floats as they come
    ("py_sum", ("x",)),
    ("mapped", ("x", "h")),  # in the order of time
)
FLOAT_SUMS = (("sum", ("y",)), ("avg", ("y",)), ("py_mean", ("y",)))
KEYS = ((), ("k",), ("h",), ("k", "h"))
FEW_KEYS = ((), ("h",))


def define_own() -> None:
    """Define the aggregates that cases use, unless they are: tests of definitions take theirs away again."""
    if "py_max" not in USER_FUNCTIONS:
        define_again(compiled=False, prefix="py")
        define_maps()


@st.composite
def queries(draw: st.DrawFn, name: str, exact: bool) -> Query:
    """One query, of few windows, predicates and group-bys, so that several have some in common."""
    if draw(st.integers(0, 3)) == 0:
        window = Window(draw(st.integers(1, 4)), draw(st.integers(1, 3)), rows=True)
    else:
        window = Window(draw(st.sampled_from([2, 5, 6, 12, 20])), draw(st.sampled_from([2, 3, 5])))
    functions = draw(st.lists(st.sampled_from(AGGREGATES if exact else FLOAT_SUMS), min_size=1, max_size=3))
    aggregates = tuple(
        Aggregate(function, tuple(map(Column, columns)), f"a{number}")
        for number, (function, columns) in enumerate(functions)
    )
    keys = draw(st.sampled_from(KEYS if exact else FEW_KEYS))
    predicate = draw(st.sampled_from(PREDICATES)) if exact else None
    return Query(name, STREAM, window, aggregates, keys, predicate)


def arrival(chance: Random, now: int, unit: float) -> ArrivedRows:
    """Rows of about a step's time, some late, some without a time; ``unit`` is that of floats."""
    rows = [
        (
            None if chance.random() < 0.05 else now + chance.randint(-2 * STEP_TIME, STEP_TIME),
            chance.choice([None, "a", "b", "c", "d"]),
            chance.choice([None, 0, 7]),
            chance.choice([None, *range(-3, 7)]),
            chance.choice([None, *(value * unit for value in range(-8, 9))]),
        )
        for _ in range(chance.choice([0, 3, 8, 14]))
    ]
    table = pa.table([list(column) for column in zip(*rows)] if rows else [[]] * 5, schema=SCHEMA)
    if chance.random() < 0.5:
        table = table.set_column(1, "k", table.column("k").dictionary_encode())
    return ArrivedRows(table)


def steps(chance: Random, count: int, lateness: int, unit: float) -> list[tuple[CaseStep, int | None]]:
    """Steps, and the latest time after each."""
    mark, latest = None, None
    drawn: list[tuple[CaseStep, int | None]] = []
    for number in range(count):
        tasks = [arrival(chance, number * STEP_TIME, unit) for _ in range(chance.randint(1, 3))]
        for task in tasks:
            times = task.table.column(TIME).cast(pa.int64()).drop_null().to_pylist()
            latest = max([*times, *([] if latest is None else [latest])], default=None)
        if latest is not None:
            reached = latest - lateness + chance.choice([0, 0, 0, 0, 15])  # as after a flush
            mark = reached if mark is None else max(mark, reached)
        drawn.append((CaseStep(tuple((STREAM, task) for task in tasks), {STREAM: mark}), latest))
    return drawn


def stage(
    members: Sequence[Query],
    buckets: int,
    strategy: str,
    before: WindowsStage | None = None,
    reached: tuple[int | None, int | None] = (None, None),
) -> WindowsStage:
    """Compile queries; after ``before``, where the latest time and the mark are those ``reached``."""
    origins: dict[str, Origin] = {}
    if before is not None:
        running = before.program.by_name
        for query in members:
            if query.name in running:
                origins[query.name] = running[query.name].origin
            else:
                alone = compile_plan(weft.plan([query], nodes=buckets), SCHEMA, TIME, buckets=buckets)
                origins[query.name] = origin_of(alone, before.program, *reached)
    plan = weft.plan(members, strategy=strategy, nodes=buckets)
    version = 1 if before is None else before.version + 1
    program = compile_plan(plan, SCHEMA, TIME, buckets=buckets, origins=origins, version=version)
    return WindowsStage(f"windows:{STREAM}", STREAM, program)


@st.composite
def cases(draw: st.DrawFn, exact: bool = True) -> ContractCase:
    """A case; where it is not ``exact``, floats depend on the order in which they are added up."""
    define_own()
    unit = 0.25 if exact else 0.1
    # Rows by chance of a seed: drawn one by one, most would be alike.
    chance = seeded_random(draw(st.integers(0, 1 << 32)))
    drawn = steps(chance, draw(st.integers(2, 5)), draw(st.integers(0, 2 * STEP_TIME)), unit)
    members = [draw(queries(f"q{number}", exact)) for number in range(draw(st.integers(1, 5)))]
    buckets, strategy = draw(st.integers(1, 3)), draw(st.sampled_from(["share-all", "no-share"]))
    first = stage(members, buckets, strategy)
    after = draw(st.sampled_from([1, len(drawn) - 1, len(drawn), 0]))
    reached = (None, None) if not after else (drawn[after - 1][1], drawn[after - 1][0].marks[STREAM])
    remaining = [query for query in members if draw(st.booleans())]
    added = [
        draw(queries(f"n{number}", exact)) for number in range(draw(st.integers(0 if remaining else 1, 2)))
    ]
    changed = stage(
        [*remaining, *added], buckets, draw(st.sampled_from(["share-all", "no-share"])), first, reached
    )
    return ContractCase(first, buckets, tuple(step for step, _ in drawn), after, changed)


def inexact_cases() -> st.SearchStrategy[ContractCase]:
    """Cases whose floats are not the same in another order."""
    return cases(exact=False)
