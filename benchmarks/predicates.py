"""Signatures of 16 to 1,024 predicates: all together against one by one (Krishnamurthy 2006, section 4).

docs/benchmarks.md says what the figures mean.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from _timing import best_of
from rich.table import Table

import weft
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.expr.evaluate import Evaluator
from weft.io.sources.generate import VOLUMES, ticker_names, trades
from weft.model.expression import Expr
from weft.operators.cells import factorize
from weft.operators.predicates.signature import signatures

COUNTS = (16, 64, 256, 1024)
ROWS = 1_000_000
SYMBOLS = 500
CHUNK = 16


def member_and_value(pick: random.Random) -> str:
    """As in the paper's workload B: some symbols or exchanges, and a limit for volume, price or value."""
    symbols = ticker_names(SYMBOLS).to_pylist()
    chosen = ", ".join(f"'{symbol}'" for symbol in pick.sample(symbols, 20))
    members = [
        f"symbol IN ({chosen})",
        f"symbol = '{pick.choice(symbols)}'",
        f"symbol < '{pick.choice(symbols)}'",
    ]
    values = [
        f"volume {pick.choice('<>=')} {pick.choice(list(VOLUMES))}",
        f"price {pick.choice('<>')} {pick.uniform(5, 200):.2f}",
        f"price * volume {pick.choice('<>')} {pick.uniform(100, 50_000):.0f}",
    ]
    return f"{pick.choice(members)} AND {pick.choice(values)}"


def two_ranges(pick: random.Random) -> str:
    """A range of prices and one of values: numbers with many values, so that few rows are alike."""
    low, least = pick.uniform(5, 150), pick.uniform(100, 40_000)
    return (
        f"price BETWEEN {low:.2f} AND {low * 1.2:.2f} "
        f"AND price * volume BETWEEN {least:.0f} AND {least * 2:.0f}"
    )


def disjunction(pick: random.Random) -> str:
    """Conditions on several attributes under OR and NOT."""
    return (
        f"({member_and_value(pick)}) OR NOT ({member_and_value(pick)} OR price > {pick.uniform(5, 200):.2f})"
    )


WORKLOADS: dict[str, Callable[[random.Random], str]] = {
    "member and value": member_and_value,
    "two ranges": two_ranges,
    "either": disjunction,
}


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Time both ways over one batch of trades, for each workload and number of predicates."""
    size = ROWS // 10 if quick else ROWS
    batch = next(trades(size, symbols=SYMBOLS))
    rows: list[dict[str, Any]] = []
    total = len(WORKLOADS) * len(COUNTS)
    for workload, text in WORKLOADS.items():
        pick = random.Random(0)
        predicates = [predicate(text(pick)) for _ in range(max(COUNTS))]
        for count in COUNTS:
            progress(f"{workload}, {count} predicates", len(rows), total)
            rows.append({"workload": workload, **measure(predicates[:count], batch)})
    progress("done", total, total)
    notes = [f"{size:,} trades of {SYMBOLS} symbols in one batch, one thread."]
    return BenchmarkResult("predicates", rows, figures(rows), notes)


def predicate(text: str) -> Expr:
    """The condition as it is in a query."""
    (query,) = weft.sql(f"SELECT count(*) FROM trades [RANGE '1 s'] WHERE {text}")
    assert query.predicate is not None
    return query.predicate


def measure(predicates: list[Expr], batch: pa.RecordBatch) -> dict[str, Any]:
    """Nanoseconds per row of both ways, and how many signatures there are."""
    bitmaps = signatures(predicates, Evaluator(batch), batch.num_rows)[1]
    together = best_of(5, lambda: signatures(predicates, Evaluator(batch), batch.num_rows))
    with stopwatch() as alone:
        expected = one_by_one(predicates, batch)
    if {row.tobytes() for row in bitmaps} != {row.tobytes() for row in expected}:
        raise AssertionError("the two ways found different signatures")
    return {
        "predicates": len(predicates),
        "signatures": len(bitmaps),
        "one_by_one_ns": alone() / batch.num_rows * 1e9,
        "together_ns": together / batch.num_rows * 1e9,
    }


def one_by_one(predicates: list[Expr], batch: pa.RecordBatch) -> np.ndarray:
    """The signatures that occur, from a mask for each predicate, 16 of them at a time."""
    evaluator = Evaluator(batch)
    numbers = np.zeros(batch.num_rows, dtype=np.int64)
    bitmaps = np.zeros((1, 0), dtype=np.bool_)
    for first in range(0, len(predicates), CHUNK):
        chunk = predicates[first : first + CHUNK]
        bits = np.zeros(batch.num_rows, dtype=np.int64)
        for place, condition in enumerate(chunk):
            bits |= evaluator.mask(condition).astype(np.int64) << place
        found, distinct = factorize((numbers << CHUNK) | bits)
        numbers = found.astype(np.int64)
        fresh = (distinct[:, None] >> np.arange(len(chunk))) & 1
        bitmaps = np.hstack([bitmaps[distinct >> CHUNK], fresh.astype(np.bool_)])
    return bitmaps


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the cost of a thousand more predicates, and the gain at the most of them."""
    ratios = {}
    for workload in WORKLOADS:
        measured = [row for row in rows if row["workload"] == workload]
        name = workload.replace(" ", "_")
        ratios[f"{name}_growth"] = measured[-1]["together_ns"] / measured[0]["together_ns"]
        ratios[f"{name}_gain"] = measured[-1]["one_by_one_ns"] / measured[-1]["together_ns"]
    return ratios


def render(result: BenchmarkResult) -> Table:
    """The table as printed."""
    shown = Table(title="Nanoseconds per row to find signatures")
    for heading in ("workload", "predicates", "signatures", "one by one", "together", "gain"):
        shown.add_column(heading, justify="left" if heading == "workload" else "right")
    for row in result.rows:
        alone, together = row["one_by_one_ns"], row["together_ns"]
        counts = f"{row['predicates']:,}", f"{row['signatures']:,}"
        shown.add_row(
            row["workload"], *counts, f"{alone:,.0f}", f"{together:,.0f}", f"{alone / together:,.1f}"
        )
    return shown
