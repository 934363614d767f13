"""What the engine's operations cost on this machine, measured and stored for the planner and for ``auto``.

docs/benchmarks.md says what is measured, and what the figures mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Group
from rich.table import Table

import weft
from weft import calibration
from weft.aggregates.monoid import ADD, MAX, MOMENTS, SUM_FLOAT, SUM_INT, Monoid
from weft.bench import Progress, Result, machine, race
from weft.engine.final import END, View, final
from weft.engine.partial import partial
from weft.engine.program import Program, compile_plan
from weft.engine.state import Piece, State
from weft.final import TECHNIQUES
from weft.final.costs import DEFAULTS, Cost, kind
from weft.final.workload import Call

MONOIDS = (
    Monoid(ADD, 1, invertible=True),
    Monoid(SUM_INT, 2, invertible=True),
    Monoid(SUM_FLOAT, 2),
    Monoid(MAX, 1, selective=True),
    Monoid(MAX, 3, selective=True),
    Monoid(MOMENTS, 4),
)
"""One of each kind."""

CALLS = (
    Call(1, 32, 1, 1),
    Call(1, 64, 16, 8),
    Call(1, 600, 1, 1),
    Call(1, 600, 4, 1),
    Call(1, 600, 4, 100),
    Call(1, 5000, 1, 1),
    Call(1, 5000, 3, 1),
    Call(1, 5000, 16, 1),
    Call(1, 20_000, 1, 1),
    Call(1, 20_000, 3, 1),
    Call(300, 4, 1, 20),
    Call(300, 10, 1, 1),
    Call(300, 10, 3, 1),
    Call(300, 10, 1, 20),
    Call(300, 10, 4, 10),
    Call(300, 50, 1, 1),
    Call(300, 50, 3, 1),
    Call(300, 50, 1, 10),
    Call(300, 50, 10, 1),
    Call(300, 50, 10, 4),
    Call(300, 100, 1, 1),
)
"""From few to many cells, runs per cell, and cells per run; none that takes recompute long."""


def run(quick: bool, progress: Progress) -> Result:
    """Measure, fit, and store."""
    seconds = 0.02 if quick else 0.1
    steps = len(MONOIDS) * len(CALLS) + 5
    rows: list[dict[str, Any]] = []
    constants = {}
    for at, (name, measure) in enumerate(CONSTANTS.items()):
        progress(f"constant: {name}", at, steps)
        constants[name] = round(max(measure(10 * seconds), 0.0), 2)
        rows.append({"constant": name, "ns": constants[name]})
    techniques: dict[str, dict[str, Cost]] = {}
    for at, monoid in enumerate(MONOIDS):
        took = []
        for number, call in enumerate(CALLS):
            progress(f"techniques: {kind(monoid)}", 5 + at * len(CALLS) + number, steps)
            took.append(race(works(monoid, call), seconds))
        best = np.array([min(times.values()) for times in took]) * 1e9
        for name in took[0]:
            ns = np.array([times[name] for times in took]) * 1e9
            cost = fit(CALLS, ns, best)
            missed = np.abs(features(CALLS) @ np.array(list(asdict(cost).values())) / ns - 1)
            error = float(np.average(missed, weights=best / ns))
            techniques.setdefault(kind(monoid), {})[name] = cost
            rows.append({"kind": kind(monoid), "technique": name, **asdict(cost), "error": error})
    progress("done", steps, steps)
    file = calibration.store(
        {
            "machine": machine(),
            "constants": constants,
            "techniques": {k: {n: asdict(c) for n, c in costs.items()} for k, costs in techniques.items()},
        }
    )
    return Result("calibrate", rows, figures(rows), [f"Stored in {file}."])


def works(monoid: Monoid, call: Call) -> dict[str, Callable[[], Any]]:
    """One call of every technique that fits."""
    states, (low, high) = call.states(monoid), call.runs()
    fitting = [t for t in TECHNIQUES.values() if not t.card.lacks(monoid)]
    return {t.name: lambda t=t: t(monoid, states).answer(low, high) for t in fitting}


def features(calls: tuple[Call, ...]) -> np.ndarray:
    """What ``Cost`` multiplies, for each call."""
    table = []
    for call in calls:
        low, high = call.runs()
        length = int((high - low).sum())
        table.append((1, call.cells, len(low), len(low) * np.log2(length / len(low)), length))
    return np.array(table, dtype=np.float64)


def fit(calls: tuple[Call, ...], ns: np.ndarray, best: np.ndarray) -> Cost:
    """The costs, none negative, that miss the measured times by the least relative squares; a call counts the
    more, the nearer the technique is to the best one there."""
    weights = best / ns
    relative = features(calls) * (weights / ns)[:, np.newaxis]
    kept = list(range(relative.shape[1]))
    while True:
        found = np.linalg.lstsq(relative[:, kept], weights, rcond=None)[0]
        if (found >= 0).all():
            break
        kept.pop(int(found.argmin()))
    values = np.zeros(relative.shape[1])
    values[kept] = found
    return Cost(*(float(f"{value:.3g}") for value in values))


GROUPS, SPAN = 64, 400
"""Groups of the synthetic stream, and its seconds: one slice each."""
QUERY = "SELECT k, sum(x) AS s FROM rows [RANGE '{} s' SLIDE '{} s'] {} GROUP BY k"


def measure_row(seconds: float) -> float:
    """A row read and put in its slice."""
    program = ready([QUERY.format(10, 5, "")])
    batches = {n: stream(n) for n in (50_000, 200_000)}
    return slope({n: lambda b=b: partial(b, program, None) for n, b in batches.items()}, seconds)


def measure_predicate(seconds: float) -> float:
    """A predicate evaluated on a row."""
    batch = stream(100_000)
    texts = [QUERY.format(10, 5, f"WHERE x > {n / 10}") for n in range(9)]
    programs = {n: ready(texts[:n]) for n in (1, 9)}
    works = {n * batch.num_rows: lambda p=p: partial(batch, p, None) for n, p in programs.items()}
    return slope(works, seconds)


def measure_combine(seconds: float) -> float:
    """One more slice in a window."""
    programs = {n: ready([QUERY.format(n, 1, "")], technique="recompute") for n in (8, 40)}
    return slope({n * SPAN * GROUPS: answering(p) for n, p in programs.items()}, seconds)


def measure_answer(seconds: float) -> float:
    """One more window answered."""
    programs = {n: ready([QUERY.format(1, 1, "")] * n) for n in (1, 9)}
    return slope({n * SPAN * GROUPS: answering(p) for n, p in programs.items()}, seconds)


def measure_merge(seconds: float) -> float:
    """A slice of the composite merged into a slice of a tree of its own."""
    program = ready([QUERY.format(8, 8, ""), QUERY.format(1, 1, "")], strategy="no-share")
    works = {}
    for span in (SPAN, 4 * SPAN):
        state = State(program, 0)
        for piece in pieces(program, span):
            state.absorb(piece)
        grouping = state.groupings[0]
        grouping.settle()
        works[span * GROUPS] = lambda g=grouping: View(program, g, program.entries[0]).cell_states(0)
    return slope(works, seconds)


CONSTANTS = {
    "row": measure_row,
    "combine": measure_combine,
    "answer": measure_answer,
    "merge": measure_merge,
    "predicate": measure_predicate,
}


def ready(texts: list[str], **options: Any) -> Program:
    """The queries planned and compiled for the synthetic stream."""
    plan = weft.plan(weft.sql(";".join(texts)), **options)
    return compile_plan(plan, stream(1).schema, "ts")


def stream(rows: int, span: int = SPAN) -> pa.RecordBatch:
    """Rows spread evenly over groups and time."""
    random = np.random.default_rng(0)
    at = np.arange(rows) * (span * 1_000_000) // rows
    keys = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(rows) % GROUPS, pa.int32()), pa.array([f"group {n}" for n in range(GROUPS)])
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(at, pa.timestamp("us")), keys, pa.array(random.random(rows))], names=["ts", "k", "x"]
    )


def pieces(program: Program, span: int = SPAN) -> list[Piece]:
    """Partials with one cell for every group and slice."""
    return partial(stream(2 * span * GROUPS, span), program, None)[1]


def answering(program: Program) -> Callable[[], Any]:
    """All windows of the stream, from partials to tables."""
    ready_pieces = pieces(program)
    return lambda: final(State(program, 0), ready_pieces, END, program)


def slope(works: dict[int, Callable[[], Any]], seconds: float) -> float:
    """Nanoseconds per unit, from two amounts of work."""
    took = race({str(amount): work for amount, work in works.items()}, seconds)
    less, more = works
    return (took[str(more)] - took[str(less)]) * 1e9 / (more - less)


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How well the fitted costs meet the measured times, over techniques."""
    errors = [row["error"] for row in rows if "error" in row]
    mine = [row["error"] for row in rows if row.get("technique") in DEFAULTS.get(row.get("kind"), ())]
    return {"model_error_median": float(np.median(errors)), "model_error_of_auto_max": max(mine)}


def render(result: Result) -> Group:
    """The two tables as printed."""
    constants = Table("constant", "ns", "of", title="Constants of the cost model")
    for row in result.rows:
        if "constant" in row:
            constants.add_row(row["constant"], f"{row['ns']:,.4g}", CONSTANTS[row["constant"]].__doc__)
    costs = Table(title="Techniques as the engine calls them, in ns")
    names = ("call", "cell", "run", "doubling", "length")
    for heading in ("kind", "technique", *names, "error"):
        costs.add_column(heading, justify="left" if heading in ("kind", "technique") else "right")
    for row in result.rows:
        if "technique" in row:
            numbers = (f"{row[n]:,.3g}" for n in names)
            costs.add_row(row["kind"], row["technique"], *numbers, f"{row['error']:.0%}")
    return Group(constants, costs)
