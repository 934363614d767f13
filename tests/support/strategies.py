"""Hypothesis strategies: tables with everything that goes wrong in data, and sets of queries over them.

Profiles: ``ci`` (the default, the same examples every time) and ``thorough``; choose one with
``HYPOTHESIS_PROFILE=thorough pytest tests/local/test_differential.py``.
"""

from __future__ import annotations

import datetime
import itertools
import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from weft.aggregates import FUNCTIONS
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.query import Aggregate, Output, Query
from weft.model.window import Window

_common = {
    "deadline": None,
    "print_blob": True,  # what fails can be tried again, also from another machine's log
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
}
settings.register_profile("ci", max_examples=60, derandomize=True, database=None, **_common)
settings.register_profile("thorough", max_examples=3_000, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

TIME = "ts"
SQL_TYPES = {
    TIME: "timestamp",
    "i": "bigint",
    "n": "bigint",
    "x": "double",
    "y": "double",
    "s": "string",
    "b": "boolean",
    "d": "date",
    "g": "string",
    "h": "bigint",
    "f": "double",
}
"""The columns of every table drawn; g, h and f have few values, to group by."""

ARROW_TYPES = {
    "i": [pa.int64()],
    "n": [pa.int32(), pa.int64(), pa.int16()],
    "x": [pa.float64()],
    "y": [pa.float32(), pa.float64()],
    "s": [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    "b": [pa.bool_()],
    "d": [pa.date32()],
    "g": [pa.string(), pa.dictionary(pa.int8(), pa.string())],
    "h": [pa.int8(), pa.uint16()],
    "f": [pa.float64()],
}

UNITS = (1, 7, 1_000, 1_000_000, 60_000_000, 86_400_000_000)
BASES = (0, 1_700_000_000_000_000, -5_000_000_000_000)

MAX_BIGINT, MIN_BIGINT = 2**63 - 1, -(2**63)


@dataclass(frozen=True)
class Case:
    """A table in order of arrival and the queries asked of it."""

    table: pa.Table
    queries: tuple[Query, ...]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as the oracle reads them."""
        return self.table.to_pylist()


@st.composite
def cases(draw: st.DrawFn, max_queries: int = 4, max_rows: int = 30) -> Case:
    """A table and queries over it."""
    return Case(draw(tables(max_rows)), draw(query_sets(max_queries)))


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 30) -> pa.Table:
    """Rows in no order of time, with ties, nulls, NaN, infinities, huge and tiny numbers."""
    unit, base = draw(st.sampled_from(UNITS)), draw(st.sampled_from(BASES))
    instants = st.builds(
        lambda whole, rest: base + whole * unit + rest,
        st.integers(-40, 40),
        st.one_of(st.just(0), st.integers(0, unit - 1)),
    )
    values = {TIME: st.none() | instants if draw(st.booleans()) else instants, **draw(column_values())}
    size = draw(st.integers(0, max_rows))
    rows = draw(st.lists(st.tuples(*values.values()), min_size=size, max_size=size))
    arrays = {}
    for position, name in enumerate(values):
        column = [row[position] for row in rows]
        if name == TIME:
            zone = draw(st.sampled_from([None, "UTC"]))
            arrays[name] = pa.array(column, pa.int64()).cast(pa.timestamp("us", zone))
        else:
            arrays[name] = pa.array(column).cast(draw(st.sampled_from(ARROW_TYPES[name]))) if column else None
            if arrays[name] is None or pa.types.is_null(arrays[name].type):
                arrays[name] = pa.nulls(len(column), ARROW_TYPES[name][0])
    return pa.table(arrays)


@st.composite
def column_values(draw: st.DrawFn) -> dict[str, st.SearchStrategy[Any]]:
    """A strategy per column; extremes come in some tables only, or most answers would be overflows."""
    integers = st.integers(-20, 20)
    if draw(st.integers(0, 3)) == 0:
        integers |= st.sampled_from([MAX_BIGINT, MIN_BIGINT, 2**62, -(2**62), MAX_BIGINT - 1, 3_037_000_500])
    floats = st.floats(-100, 100, width=32) | st.floats(-1, 1)
    if draw(st.booleans()):
        floats |= st.sampled_from([1e16, -1e16, 1e-9, 1e16 + 2, 3e-5])
    if draw(st.booleans()):
        floats |= st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0])
    dates = st.dates(datetime.date(1960, 1, 1), datetime.date(2030, 1, 1))
    return {
        "i": st.none() | integers,
        "n": st.none() | st.integers(-9, 9),
        "x": st.none() | floats,
        "y": st.none() | st.integers(-8, 8).map(lambda v: v / 4),
        "s": st.none() | st.text("abé%_z", max_size=3),
        "b": st.none() | st.booleans(),
        "d": st.none() | dates,
        "g": st.sampled_from([None, "a", "b", ""]),
        "h": st.sampled_from([None, 0, 1, 7]),
        "f": st.sampled_from([None, 0.0, -0.0, float("nan"), 1.5]),
    }


@st.composite
def query_sets(draw: st.DrawFn, max_queries: int = 4) -> tuple[Query, ...]:
    """Queries that share some of their windows, predicates and groupings, and not others."""
    shared_windows = draw(st.lists(windows(), min_size=1, max_size=2))
    shared_predicates = draw(st.lists(predicates(), min_size=1, max_size=2))
    queries = []
    for number in range(draw(st.integers(1, max_queries))):
        parts = draw(st.lists(aggregates(), min_size=1, max_size=5))
        chosen = tuple(
            Aggregate(name, args, f"{name}_{position}") for position, (name, args) in enumerate(parts)
        )
        query = Query(
            name=f"q{number}",
            source="rows",
            window=draw(st.sampled_from(shared_windows) | windows()),
            aggregates=chosen,
            group_by=tuple(draw(st.lists(st.sampled_from("gshfbd"), max_size=3, unique=True))),
            predicate=draw(st.none() | st.sampled_from(shared_predicates) | predicates()),
        )
        queries.append(draw(finished(query)))
    return tuple(queries)


@st.composite
def finished(draw: st.DrawFn, query: Query) -> Query:
    """The query as it is, or with columns computed from its aggregates, or with a HAVING."""
    counts = [a.alias for a in query.aggregates if a.function.startswith("count")]
    means = [a.alias for a in query.aggregates if a.function in ("sum", "avg", "var_pop", *counts)]
    having, outputs = None, ()
    if counts and draw(st.integers(0, 3)) == 0:
        having = Call(">", (Column(counts[0]), Literal(draw(st.integers(0, 3)), "bigint")))
    if means and counts and draw(st.integers(0, 3)) == 0:
        ratio = Call("/", (Column(means[0]), Column(counts[0])))
        outputs = (Output("ratio", ratio), Output("same", Column(counts[0])))
    return Query(
        query.name,
        query.source,
        query.window,
        query.aggregates,
        query.group_by,
        query.predicate,
        outputs,
        having,
    )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Range below, equal to and above the slide, with any offset; at most 24 windows hold one instant.

    One in four is counted in rows.
    """
    if draw(st.integers(0, 3)) == 0:
        return Window(draw(st.integers(1, 9)), draw(st.integers(1, 6)), draw(st.integers(-9, 9)), rows=True)
    unit = draw(st.sampled_from(UNITS))
    span = st.integers(1, 24) | st.sampled_from([2, 3, 5, 7, 11, 13, 17, 19, 23])
    length, slide = draw(span) * unit, draw(span) * unit
    if draw(st.booleans()):
        length += draw(st.integers(0, unit - 1))
    if draw(st.booleans()):
        slide += draw(st.integers(0, unit - 1))
    offset = draw(st.sampled_from([0, -length, unit // 2, 1, -1]) | st.integers(-slide, slide))
    return Window(length, slide, offset)


@cache
def columns_of_type(*types: str) -> st.SearchStrategy[Expr]:
    """A bare column of one of the SQL types."""
    return st.sampled_from([Column(name) for name, of in SQL_TYPES.items() if of in types])


def _calls(functions: list[str], *args: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(lambda f, *a: Call(f, a), st.sampled_from(functions), *args)


@cache
def numbers(depth: int = 1) -> st.SearchStrategy[Expr]:
    """A numeric expression: columns and constants, at ``depth`` above 0 also arithmetic on them."""
    constants = st.integers(-3, 3).map(lambda v: Literal(v, "bigint"))
    constants |= st.sampled_from([0.5, -1.25, 10.0]).map(lambda v: Literal(v, "double"))
    leaves = columns_of_type("bigint", "double")
    if depth == 0:
        return leaves | constants
    inner = numbers(depth - 1)
    choose = st.builds(lambda c, a, b: Call("case", (c, a, b)), predicates(0), inner, inner)
    return st.one_of(
        leaves,
        _calls(["+", "-", "*", "/", "%"], inner, inner),
        _calls(["coalesce"], inner, inner),
        _calls(["negate", "abs"], inner),
        choose,
    )


@cache
def predicates(depth: int = 2) -> st.SearchStrategy[Expr]:
    """A condition: true, false or null for a row, including always and never."""
    text = st.text("abé", max_size=2).map(lambda v: Literal(v, "string"))
    strings = columns_of_type("string")
    operators = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
    patterns = st.sampled_from(["a%", "%b", "_", "%é%", "%", "a\\%"]).map(lambda v: Literal(v, "string"))
    dates = st.sampled_from([datetime.date(1969, 12, 31), datetime.date(2000, 2, 29)])
    leaves = st.one_of(
        _calls(operators, numbers(0), numbers(0)),
        _calls(operators, strings, strings | text),
        _calls(operators, columns_of_type("date"), dates.map(lambda v: Literal(v, "date"))),
        _calls(["is_null"], columns_of_type("bigint", "double", "string", "boolean", "date")),
        _calls(["in"], strings, text, text),
        _calls(
            ["in"], columns_of_type("bigint"), *[st.integers(-2, 2).map(lambda v: Literal(v, "bigint"))] * 2
        ),
        _calls(["like"], strings, patterns),
        st.just(Column("b")),
        st.sampled_from([Literal(True, "boolean"), Literal(False, "boolean")]),
    )
    if depth == 0:
        return leaves
    inner = predicates(depth - 1)
    contradiction = inner.map(lambda c: Call("and", (c, Call("not", (c,)))))
    tautology = inner.map(lambda c: Call("or", (c, Call("not", (c,)))))
    return st.one_of(
        leaves,
        _calls(["and", "or"], inner, inner),
        _calls(["not"], inner),
        _calls(operators, numbers(1), numbers(1)),
        contradiction,
        tautology,
    )


@cache
def arguments(types: frozenset[str]) -> st.SearchStrategy[Expr]:
    """An expression of one of the SQL types that an aggregate takes."""
    choices = [columns_of_type(*types)]
    if "boolean" in types:
        choices.append(predicates(1))
    if "double" in types:
        choices += [numbers(1)] * 2
    return st.one_of(choices)


@st.composite
def aggregates(draw: st.DrawFn) -> tuple[str, tuple[Expr, ...]]:
    """Any aggregate of the registry, over columns or expressions of the types it takes."""
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    return name, tuple(draw(arguments(types)) for types in FUNCTIONS[name].accepts)


@st.composite
def splits(draw: st.DrawFn, table: pa.Table, max_batches: int = 6) -> list[pa.Table]:
    """The table cut into batches anywhere, empty ones included."""
    cuts = draw(st.lists(st.integers(0, table.num_rows), max_size=max_batches - 1).map(sorted))
    bounds = [0, *cuts, table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(bounds)]


@st.composite
def shuffles(draw: st.DrawFn, table: pa.Table, lateness: int) -> pa.Table:
    """The rows in another order in which none comes later than the lateness allows.

    A row arrives up to ``lateness`` after its time, so that whatever came before it has a time of at
    most its own plus the lateness, and the watermark has not passed it.
    """
    instants = [t or 0 for t in table[TIME].cast(pa.int64()).to_pylist()]
    delays = draw(st.lists(st.integers(0, lateness), min_size=len(instants), max_size=len(instants)))
    arrival = sorted(range(len(instants)), key=lambda row: instants[row] + delays[row])
    return table.take(pa.array(arrival, pa.int64()))
