"""The dumbest join: every pair of rows of the two streams, one condition after the other."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from weft.expr.evaluate import Evaluator
from weft.model.join import RESULT_TIME, JoinQuery


def oracle(query: JoinQuery, streams: dict[str, pa.Table], time: str = "ts") -> list[tuple[Any, ...]]:
    """Every result of a join, as tuples of microseconds and outputs, in no order."""
    tables = [streams[side.stream] for side in query.sides]
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
