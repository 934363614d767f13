"""The dumbest join: every pair of rows of the two streams, one condition after the other."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from weft.expr.evaluate import Evaluator
from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.query import Lookup


def oracle(
    query: JoinQuery,
    streams: dict[str, pa.Table],
    time: str = "ts",
    lookup_tables: Mapping[str, pa.Table] | None = None,
) -> list[tuple[Any, ...]]:
    """Every result of a join, as tuples of microseconds and outputs, in no order."""
    lookups = query.lookups or ((),) * len(query.sides)
    tables = [
        enriched(streams[side.stream], side_lookups, lookup_tables or {})
        for side, side_lookups in zip(query.sides, lookups)
    ]
    rows = list(itertools.product(*(range(t.num_rows) for t in tables)))
    columns: dict[str, pa.Array] = {}
    for number, (side, table) in enumerate(zip(query.sides, tables)):
        at = pa.array([places[number] for places in rows], pa.int64())
        for name in table.column_names:
            columns[f"{side.alias}.{name}"] = table.column(name).combine_chunks().take(at)
    if not rows:
        return []
    product = pa.table(columns)
    evaluator = Evaluator(product)
    good = [True] * len(rows)
    for condition in query.conditions:
        good = [g and m for g, m in zip(good, evaluator.mask(condition).tolist())]
    for number, (selection, table) in enumerate(zip(query.selections, tables)):
        if selection is not None:
            mask = Evaluator(table.combine_chunks()).mask(selection).tolist()
            good = [g and mask[places[number]] for g, places in zip(good, rows)]
    times = [product.column(f"{side.alias}.{time}").cast(pa.int64()).to_pylist() for side in query.sides]
    outputs = [evaluator.evaluate(o.expr).to_pylist() for o in query.outputs]
    results = []
    for n in range(len(rows)):
        parts = [t[n] for t in times]
        if not good[n] or None in parts:
            continue
        latest = max(parts)
        if all(latest - part < side.range for part, side in zip(parts, query.sides)):
            results.append((latest, *(o[n] for o in outputs)))
    return results


def enriched(rows: pa.Table, lookups: Sequence[Lookup], tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of one side with the columns of its tables, row by row; without those that inner ones drop."""
    for lookup in lookups:
        table = tables[lookup.table].combine_chunks()
        evaluator = Evaluator(rows.combine_chunks())
        keys = list(zip(*(evaluator.evaluate(key).to_pylist() for key, _ in lookup.keys)))
        others = list(zip(*(table.column(column).to_pylist() for _, column in lookup.keys)))
        places = [next((n for n, other in enumerate(others) if same(key, other)), None) for key in keys]
        for name in table.column_names:
            column = table.column(name).take(pa.array(places, pa.int64()))
            rows = rows.append_column(lookup.column(name), column)
        if lookup.how == "inner":
            rows = rows.filter(pa.array([place is not None for place in places], pa.bool_()))
    return rows


def same(key: Sequence[Any], other: Sequence[Any]) -> bool:
    """Keys are equal as in SQL: a null equals nothing, and NaN equals itself."""
    return all(
        a is not None and b is not None and (a == b or (a != a and b != b)) for a, b in zip(key, other)
    )


def as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    """A result's rows as the oracle gives them."""
    times = table.column(RESULT_TIME).cast(pa.int64()).to_pylist()
    return list(zip(times, *(c.to_pylist() for c in table.columns[1:])))


def ordered(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows in an order of their own, whatever is in them."""
    return sorted(map(repr, rows))


def collect(results: dict[str, list[Any]], answered: dict[str, pa.Table]) -> None:
    for name, table in answered.items():
        results.setdefault(name, []).extend(as_tuples(table))


def assert_equal(results: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> None:
    assert ordered(results) == ordered(expected)
    times = [row[0] for row in results]
    assert times == sorted(times)
