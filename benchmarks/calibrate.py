"""The costs of the engine's operations on this machine, stored for the planner and for ``auto``.

docs/benchmarks.md says what is measured, and what the figures mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from itertools import product
from math import log2
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from _timing import fewest, race
from join import calibrate as calibrate_joins
from rich.console import Group
from rich.table import Table

import weft
from lab.final.workload import Call
from weft.aggregates.monoid import ADD, MAX, MOMENTS, SUM_FLOAT, SUM_INT, Monoid
from weft.cli.bench import BenchmarkResult, Progress, machine
from weft.final import TECHNIQUES, calibration
from weft.final.costs import DEFAULTS, Cost, kind
from weft.model.instants import END_OF_TIME
from weft.operators.windows.answer import View, final
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import partial
from weft.operators.windows.program import WindowProgram
from weft.operators.windows.state import Piece, State

Works: TypeAlias = dict[int, Callable[[], Any]]
COSTS = tuple(each.name for each in fields(Cost))
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
    Call(1, 8, 1, 1),
    Call(300, 1, 1, 40),
    Call(1, 16, 4, 16),
    Call(300, 4, 1, 1),
    Call(300, 4, 2, 4),
    Call(300, 4, 1, 20),
    Call(300, 8, 4, 1),
    Call(300, 8, 4, 8),
    Call(300, 10, 1, 1),
    Call(300, 10, 3, 1),
    Call(300, 10, 1, 4),
    Call(300, 10, 1, 20),
    Call(300, 10, 4, 10),
    Call(300, 16, 1, 1),
    Call(300, 16, 2, 1),
    Call(300, 16, 4, 2),
    Call(2000, 10, 1, 1),
    Call(1, 64, 1, 1),
    Call(1, 64, 16, 8),
    Call(1, 600, 1, 1),
    Call(1, 600, 4, 1),
    Call(1, 600, 4, 100),
    Call(1, 5000, 1, 1),
    Call(1, 5000, 3, 1),
    Call(1, 5000, 16, 1),
    Call(1, 20_000, 1, 1),
    Call(1, 20_000, 3, 1),
    Call(1, 20_000, 3, 5),
    Call(300, 40, 2, 1),
    Call(300, 50, 1, 1),
    Call(300, 50, 3, 1),
    Call(300, 50, 1, 10),
    Call(300, 50, 10, 1),
    Call(300, 50, 10, 4),
    Call(300, 64, 4, 1),
    Call(300, 64, 16, 1),
    Call(300, 64, 32, 1),
    Call(300, 100, 1, 1),
    Call(300, 100, 2, 1),
)
"""Short runs, then long ones: from few to many cells, and runs per cell. Most are about where the technique
of choice changes, and none takes recompute long."""


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure, fit, and store."""
    # All is measured in rounds, of which the fewest seconds count: a busy machine has its quiet moments.
    seconds, rounds = (0.005, 2) if quick else (0.03, 5)
    calls = list(product(MONOIDS, CALLS))
    steps = rounds * (len(CONSTANTS) + len(calls))
    engine = {name: {str(n): work for n, work in made().items()} for name, made in CONSTANTS.items()}
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in engine}
    races: list[list[dict[str, float]]] = [[] for _ in calls]
    done = 0
    for _ in range(rounds):
        for name, pair in engine.items():
            progress(f"constant: {name}", done, steps)
            measured[name].append(race(pair, 5 * seconds))
            done += 1
        for (monoid, call), took in zip(calls, races):
            progress(f"techniques: {kind(monoid, *call.numbers[1:])}", done, steps)
            took.append(race(works(monoid, call), seconds))
            done += 1
    progress("done", steps, steps)
    constants = {name: slope(fewest(took)) for name, took in measured.items()}
    rows: list[dict[str, Any]] = [{"constant": name, "ns": ns} for name, ns in constants.items()]
    kinds: dict[str, list[tuple[Call, dict[str, float]]]] = {}
    for (monoid, call), took in zip(calls, races):
        kinds.setdefault(kind(monoid, *call.numbers[1:]), []).append((call, fewest(took)))
    techniques: dict[str, dict[str, dict[str, float]]] = {}
    for name, some in kinds.items():
        fitted = fit_all(some)
        rows += [{"kind": name, **row} for row in fitted]
        techniques[name] = {row["technique"]: {cost: row[cost] for cost in COSTS} for row in fitted}
    progress("joins", steps, steps)
    joins = asdict(calibrate_joins(100.0, 10 if quick else 40))
    rows += [{"join": name, "comparisons": worth} for name, worth in joins.items()]
    stored = {"machine": machine(), "constants": constants, "techniques": techniques, "joins": joins}
    file = calibration.store(stored)
    return BenchmarkResult("calibrate", rows, figures(rows), [f"Stored in {file}."])


def works(monoid: Monoid, call: Call) -> dict[str, Callable[[], Any]]:
    """One call of every technique that fits."""
    states, (low, high) = call.states(monoid), call.runs()
    fitting = [t for t in TECHNIQUES.values() if not t.card.lacks(monoid)]
    return {t.name: lambda t=t: t(monoid, states).answer(low, high) for t in fitting}


def fit_all(calls: list[tuple[Call, dict[str, float]]]) -> list[dict[str, Any]]:
    """Each technique's costs from what calls of one kind took, and by how much they miss it."""
    table = features([call for call, _ in calls])
    best = np.array([min(took.values()) for _, took in calls]) * 1e9
    rows = []
    for name in calls[0][1]:
        ns = np.array([took[name] for _, took in calls]) * 1e9
        costs = fit(table, ns, best / ns)
        missed = np.average(np.abs(table @ costs / ns - 1), weights=best / ns)
        rows.append({"technique": name, **dict(zip(COSTS, costs.tolist())), "error": float(missed)})
    return rows


def features(calls: list[Call]) -> np.ndarray:
    """Return the factors of each cost, for each call."""
    numbers = [call.numbers for call in calls]
    return np.array([(1, cells, runs, runs * log2(length / runs), length) for cells, runs, length in numbers])


def fit(table: np.ndarray, ns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The costs, none negative, that miss the measured times by the least relative squares.

    The weights are larger where a technique is nearer to the best: where it is far behind, its costs need
    not be known well.
    """
    relative = table * (weights / ns)[:, np.newaxis]
    columns = list(range(table.shape[1]))
    while (fitted := np.linalg.lstsq(relative[:, columns], weights, rcond=None)[0]).min() < 0:
        columns.pop(int(fitted.argmin()))
    costs = np.zeros(table.shape[1])
    costs[columns] = [float(f"{value:.3g}") for value in fitted]
    return costs


GROUPS, SPAN = 64, 4000
"""Groups of the synthetic stream, and its seconds: one slice each."""
QUERY = "SELECT k, sum(x) AS s FROM rows [RANGE '{} s' SLIDE '{} s'] {} GROUP BY k"


def row() -> Works:
    """A row read and put in its slice."""
    program = ready([QUERY.format(10, 5, "")])
    batches = {n: stream(n) for n in (500_000, 2_000_000)}
    return {n: lambda b=b: partial(b, program, None) for n, b in batches.items()}


def predicate() -> Works:
    """A predicate evaluated on a row."""
    batch = stream(500_000)
    texts = [QUERY.format(10, 5, f"WHERE x > {n / 10}") for n in range(9)]
    programs = {n: ready(texts[:n]) for n in (1, 9)}
    return {n * batch.num_rows: lambda p=p: partial(batch, p, None) for n, p in programs.items()}


def combine() -> Works:
    """One more slice in a window."""
    programs = {n: ready([QUERY.format(n, 1, "")], technique="recompute") for n in (8, 40)}
    return {n * SPAN * GROUPS: answering(p) for n, p in programs.items()}


def answer() -> Works:
    """One more window answered."""
    programs = {n: ready([QUERY.format(1, 1, "")] * n) for n in (1, 9)}
    return {n * SPAN * GROUPS: answering(p) for n, p in programs.items()}


def merge() -> Works:
    """A slice of the composite merged into a slice of a tree of its own."""
    program = ready([QUERY.format(8, 8, ""), QUERY.format(1, 1, "")], strategy="no-share")
    works = {}
    for span in (SPAN, 4 * SPAN):
        state = State(program, 0)
        for piece in pieces(program, span):
            state.absorb(piece)
        grouping = state.groupings[0]
        grouping.settle()
        tree, bits = program.trees[program.entries[0].tree], [program.entries[0].predicate]
        works[span * GROUPS] = lambda g=grouping, t=tree, b=bits: View(g, t, b).cell_states(0, b)
    return works


CONSTANTS = {made.__name__: made for made in (row, combine, answer, merge, predicate)}
"""Each gives two works that differ in how often the constant is paid."""


def ready(texts: list[str], **options: Any) -> WindowProgram:
    """The queries planned and compiled for the synthetic stream."""
    plan = weft.plan(weft.sql(";".join(texts)), **options)
    return compile_plan(plan, stream(1).schema, "ts")


def stream(rows: int, span: int = SPAN) -> pa.RecordBatch:
    """Rows spread evenly over groups and time."""
    random = np.random.default_rng(0)
    at = np.arange(rows) * (span * 1_000_000) // rows
    names = pa.array([f"group {n}" for n in range(GROUPS)])
    keys = names.take(pa.array(np.arange(rows) % GROUPS))
    return pa.RecordBatch.from_arrays(
        [pa.array(at, pa.timestamp("us")), keys, pa.array(random.random(rows))], names=["ts", "k", "x"]
    )


def pieces(program: WindowProgram, span: int = SPAN) -> list[Piece]:
    """Partials with one cell for every group and slice."""
    return partial(stream(2 * span * GROUPS, span), program, None).pieces


def answering(program: WindowProgram) -> Callable[[], Any]:
    """All windows of the stream, from partials to tables."""
    ready_pieces = pieces(program)
    return lambda: final(State(program, 0), ready_pieces, END_OF_TIME, program)


def slope(took: dict[str, float]) -> float:
    """Nanoseconds per unit, from the seconds of two amounts."""
    (less, quick), (more, slow) = ((int(amount), seconds) for amount, seconds in took.items())
    return round(max(slow - quick, 0.0) * 1e9 / (more - less), 2)


def figures(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the errors of the fitted costs against the measured times, over techniques."""
    errors = [row["error"] for row in rows if "error" in row]
    errors_of_auto = [
        row["error"] for row in rows if row.get("technique") in DEFAULTS.get(row.get("kind"), ())
    ]
    return {"model_error_median": float(np.median(errors)), "model_error_of_auto_max": max(errors_of_auto)}


def render(result: BenchmarkResult) -> Group:
    """The three tables as printed."""
    constants = Table("constant", "ns", "of", title="Constants of the cost model")
    for row in result.rows:
        if "constant" in row:
            constants.add_row(row["constant"], f"{row['ns']:,.4g}", CONSTANTS[row["constant"]].__doc__)
    costs = Table(title="Techniques as the engine calls them, in ns")
    for heading in ("kind", "technique", *COSTS, "error"):
        costs.add_column(heading, justify="left" if heading in ("kind", "technique") else "right")
    for row in result.rows:
        if "technique" in row:
            numbers = (f"{row[n]:,.3g}" for n in COSTS)
            costs.add_row(row["kind"], row["technique"], *numbers, f"{row['error']:.0%}")
    joins = Table("of a join", "comparisons", title="Chains of joins: what each is worth")
    for row in result.rows:
        if "join" in row:
            joins.add_row(row["join"], f"{row['comparisons']:,.3g}")
    return Group(constants, costs, joins)
