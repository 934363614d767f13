"""A story: a stream, the queries asked of it, and what happens step by step; as plain data, and as text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from weft.model.expression import Call, Column, Expr, with_columns
from weft.model.query import Aggregate, Query
from weft.model.window import Window

Row: TypeAlias = dict[str, Any]

TIME = "ts"
"""The time column; in rows it is microseconds since the epoch, or None."""


@dataclass(frozen=True)
class Static:
    """A table beside the stream: its columns, and those by which its rows are told apart."""

    types: Mapping[str, pa.DataType]
    keys: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Step:
    """One batch, or a flush, and what happens before it.

    ``changes`` are queries that join (in place of one of that name, if there is one) or, None, leave;
    ``tables`` are new rows of static tables. ``restart`` lets the run end and another go on, in so many
    ``buckets`` if given, ``fresh`` the workers with it; ``dies`` is the point of the step at which the run is
    killed, and the step made again. ``way`` forces how rows become partials. ``chance`` seeds what must
    change no answer: encodings, which worker has which task.
    """

    rows: tuple[Row, ...] = ()
    flush: bool = False
    changes: tuple[tuple[str, Query | None], ...] = ()
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    restart: bool = False
    fresh: bool = False
    buckets: int | None = None
    dies: str | None = None
    way: str | None = None
    chance: int = 0


@dataclass(frozen=True)
class Story:
    """A whole case. ``engine`` is one of ``runners.ENGINES``, or Spark; layers beyond ``most_layers`` are
    merged, and buckets halved that have more than ``most_cells``."""

    seed: str
    engine: str
    types: Mapping[str, pa.DataType]
    tables: Mapping[str, Static]
    queries: tuple[Query, ...]
    steps: tuple[Step, ...]
    lateness: int
    buckets: int = 1
    technique: str = "auto"
    strategy: str = "share-all"
    most_layers: int = 16
    most_cells: int = 1 << 20
    threads: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The stream's columns as the first batch has them."""
        return pa.schema(self.types)

    def table(self, step: Step) -> pa.Table:
        """The rows of a step, texts with or without dictionaries, in one chunk or two."""
        chance = random.Random(step.chance)
        cut = chance.choice((0, 0, chance.randint(0, len(step.rows))))
        lots = [step.rows[:cut], step.rows[cut:]] if cut else [step.rows]
        encoded = {name: chance.random() < 0.5 for name, dtype in self.types.items() if is_text(dtype)}
        tables = [
            pa.table({n: _array(n, t, rows, encoded.get(n, False), chance) for n, t in self.types.items()})
            for rows in lots
        ]
        return pa.concat_tables(tables)

    def static(self, name: str, rows: Sequence[Row]) -> pa.Table:
        """A static table with these rows."""
        types = self.tables[name].types
        return pa.table({n: pa.array([row[n] for row in rows], dtype) for n, dtype in types.items()})


def is_text(dtype: pa.DataType) -> bool:
    """Whether values of a type are texts, with a dictionary or without."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype)


def _array(
    name: str, dtype: pa.DataType, rows: Sequence[Row], encoded: bool, chance: random.Random
) -> pa.Array:
    values = [row[name] for row in rows]
    if name == TIME:
        if dtype.unit == "ns":  # times are rounded down to microseconds
            values = [None if v is None else v * 1000 + chance.randrange(1000) for v in values]
        return pa.array(values, pa.int64()).cast(dtype)
    plain = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    if not encoded:
        return pa.array(values, plain)
    # Dictionaries in any order, with values that no row has.
    known = list(dict.fromkeys([*(v for v in values if v is not None), "unused"]))
    chance.shuffle(known)
    places = {value: place for place, value in enumerate(known)}
    indices = pa.array([None if v is None else places[v] for v in values], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(known, plain))


def sql_of(query: Query) -> str:
    """The query as SQL; of windows counted in rows it is nearly that."""
    names = {a.alias: _call(a) for a in query.aggregates}
    listed = [*query.group_by]
    if query.outputs:
        listed += [f"{_text(with_columns(o.expr, names))} AS {o.alias}" for o in query.outputs]
    else:
        listed += [f"{_call(a)} AS {a.alias}" for a in query.aggregates]
    parts = [f"SELECT {', '.join(listed)}", f"FROM {query.source}"]
    parts += [str(join) for join in query.lookups]
    parts += [] if query.predicate is None else [f"WHERE {_text(query.predicate)}"]
    parts.append(f"GROUP BY {', '.join([*query.group_by, _window(query.window)])}")
    parts += [] if query.having is None else [f"HAVING {_text(with_columns(query.having, names))}"]
    return " ".join(parts)


def _call(aggregate: Aggregate) -> str:
    if aggregate.function == "count_star":
        return "count(*)"
    return f"{aggregate.function}({', '.join(map(_text, aggregate.args))})"


def _text(expr: Expr) -> str:
    """An expression as SQL."""
    if isinstance(expr, Call):
        args = [_text(arg) for arg in expr.args]
        if expr.function == "is_null":
            return f"({args[0]} IS NULL)"
        if expr.function == "not":
            return f"(NOT {args[0]})"
        return str(replace(expr, args=tuple(map(Column, args))))
    return str(expr)


def _window(window: Window) -> str:
    if window.rows:
        return f"rows({window.range}, {window.slide}, {window.offset})"
    lengths = (f"'{length} microseconds'" for length in (window.range, window.slide, window.offset))
    return f"window({TIME}, {', '.join(lengths)})"


def told(story: Story) -> str:
    """The story as text."""
    lines = [
        f"story {story.seed} on {story.engine}: lateness {story.lateness} µs, {story.buckets} buckets, "
        f"technique {story.technique}, strategy {story.strategy}, layers {story.most_layers}, "
        f"cells {story.most_cells}{', threads' * story.threads}",
        f"columns: {', '.join(f'{name} {dtype}' for name, dtype in story.types.items())}",
    ]
    for name, table in story.tables.items():
        lines.append(f"table {name} ({', '.join(f'{n} {t}' for n, t in table.types.items())}):")
        lines += _rows(table.rows)
    lines += [f"{query.name}: {sql_of(query)}" for query in story.queries]
    for number, step in enumerate(story.steps):
        marks = [word for word in ("restart", "fresh", "flush") if getattr(step, word)]
        marks += [f"{step.buckets} buckets"] * bool(step.buckets)
        marks += [f"dies: {step.dies}"] * bool(step.dies) + [f"way: {step.way}"] * bool(step.way)
        lines.append(f"step {number}{' (' + ', '.join(marks) + ')' if marks else ''}:")
        for name, query in step.changes:
            lines.append(f"  {name} leaves" if query is None else f"  {name} joins: {sql_of(query)}")
        for name, rows in step.tables.items():
            lines += [f"  table {name} is now:", *_rows(rows)]
        lines += _rows(step.rows)
    return "\n".join(lines)


def _rows(rows: Iterable[Row]) -> list[str]:
    return [f"    {row}" for row in rows]
