"""Compile kernels ahead, so that the first batch finds them in Numba's cache: ``python -m weft.cli.warm``.

Those of each monoid are compiled apart from each other, on all cores; then queries are run, which compiles
what is left. ``--for demo`` compiles what the demo needs and leaves the rest to its first use.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from weft.aggregates import FUNCTIONS
from weft.aggregates.cached import LockedCache
from weft.aggregates.monoid import Monoid, add_rows, merge
from weft.final import technique
from weft.final.costs import candidates
from weft.final.grid import answer_grid
from weft.io.sources.generate import TRADES, trades
from weft.local.run_queries import run
from weft.model.query import Query
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.due import first_ends
from weft.planning.plan import Plan
from weft.planning.planner import plan as make_plan
from weft.sql import sql
from weft.testing.questions import Question, sliding, text, varied

Task: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]
"""A function of this module and its arguments, for another process."""

DEMO = 100
"""The queries of the demo."""

WARM_UP_ROWS = 300_000
"""Trades enough for groups to be busy or rare: counts choose what is shared and how windows are found."""

COUNT = ("count(*) AS n",)


def warm(demo: bool = False) -> float:
    """Compile every kernel, or those of the demo; returns the seconds it took."""
    began = time.perf_counter()
    _silence()
    shapes = [replace(question, values=COUNT) for question in varied(DEMO)]
    tasks: list[Task] = [(run_questions, (shapes,))]
    if demo:
        tasks += [(compile_monoid, (monoid, False)) for monoid in _monoids(_demo_plan(), TRADES)]
    else:
        tasks.append((run_joins, ()))
        tasks += [(compile_monoid, (monoid, True)) for monoid in _monoids(_plan(), _table().schema)]
    # Other processes start afresh, as those of Spark do.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(_cores(), len(tasks)), spawned, initializer=_silence) as pool:
        for done in [pool.submit(function, *arguments) for function, arguments in tasks]:
            done.result()
    if not demo:
        run(_plan(), [_table(), _table()], time="ts")  # the second time, all rows are late
        run_questions(sliding(8))
        run_questions([Question("median", ("approx_median(price) AS v",), range=600, slide=60)])
    run_questions(varied(DEMO))
    return time.perf_counter() - began


def compile_monoid(monoid: Monoid, every_technique: bool) -> None:
    """Compile what adds rows to states of a monoid, merges them, and answers windows from a grid of them.

    With ``every_technique``, also what *auto* may choose where there is no grid.
    """
    if monoid.built_in:
        one, first = np.array([0]), np.array([0], dtype=np.int32)
        add_rows(monoid, monoid.identity(1), first, monoid.identity(1), np.zeros(0, dtype=bool))
        merge(monoid, monoid.identity(1), one, one, monoid.identity(1))
        window = tuple(np.array([[0], [1], [0]]))
        answer_grid(monoid, monoid.identity(1), np.array([0, 1]), first, 1, window, monoid.identity(1))
    if every_technique:
        for name in candidates(monoid):
            technique(name).answer(monoid, monoid.identity(2), np.array([0]), np.array([2]))


def run_questions(questions: Iterable[Question]) -> None:
    """Answer questions about trades."""
    queries = sql(text(questions))
    run(queries, trades(WARM_UP_ROWS, rate=50), time="ts")
    first_ends([q.window for q in queries if isinstance(q, Query)], np.array([0]))  # streams need it


def run_joins() -> None:
    """Join two streams and three, by value and by time."""
    join = "SELECT a.i FROM a [RANGE '60 s'], b [RANGE '30 s'] WHERE a.i = b.i AND abs(a.x - b.x) < 2"
    by_time = "SELECT a.i FROM a [RANGE '60 s'], b [RANGE '30 s'] WHERE a.x < b.x"
    three = f"{join} AND c.x < b.x".replace("FROM a", "FROM c [RANGE '9 s'], a")
    run(sql(f"{join}; {by_time}; {three}"), dict.fromkeys("abc", _table()), time="ts")


def _demo_plan() -> Plan:
    return make_plan(sql(text(varied(DEMO))))


def _plan() -> Plan:
    """Every aggregate over every type that it takes, and conditions, windows and keys of other kinds."""
    queries: list[Any] = []
    for name, function in FUNCTIONS.items():
        arguments = {0: ["*"], 1: ["i", "x", "s", "t"], 2: ["s, x", "i, i"]}[function.arity]
        for number, argument in enumerate(arguments):
            if (
                function.arity == 1
                and {"i": "bigint", "x": "double", "s": "string", "t": "boolean"}[argument]
                not in function.accepts[0]
            ):
                continue
            call = "count(*)" if name == "count_star" else f"{name}({argument})"
            asked = f"SELECT {call} AS v FROM s [RANGE '60 s' SLIDE '25 s'] WHERE i > 1 GROUP BY k"
            queries.append(sql(asked)[0].renamed(f"{name}_{number}"))
    either = "(s < 'a' OR i > 3) AND (s > 'b' OR i < 9) AND s <> 'c' AND s IN ('d', 'e')"
    queries += sql(f"-- name: either\nSELECT count(*) AS n FROM s [RANGE '60 s'] WHERE {either}")
    queries += sql("-- name: rows\nSELECT k, count(*) AS n FROM s [ROWS 3 SLIDE 2] GROUP BY k")
    queries += sql("-- name: pairs\nSELECT k, t, count(*) AS n FROM s [RANGE '60 s'] GROUP BY k, t")
    return make_plan(queries)


def _table() -> pa.Table:
    start, rows = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), 64
    return pa.table(
        {
            "ts": [start + datetime.timedelta(seconds=7 * i) for i in range(rows)],
            "k": pa.array(["a", "b"] * (rows // 2)),
            "i": pa.array([*range(rows - 1), None], pa.int64()),
            "x": pa.array([*(float(i) for i in range(rows - 1)), None]),
            "s": pa.array([str(i) for i in range(rows)]),
            "t": pa.array([i % 3 == 0 for i in range(rows)]),
        }
    )


def _monoids(plan: Plan, schema: pa.Schema) -> list[Monoid]:
    """The monoids behind the aggregates of a plan; the widest take longest to compile, and come first."""
    groupings = compile_plan(plan, schema, "ts").groupings
    monoids = {part.monoid for grouping in groupings for part in grouping.parts}
    return sorted(monoids, key=lambda monoid: (-monoid.width, monoid.code))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _silence() -> None:
    """Nobody is surprised by compiling here."""
    LockedCache.announced = True


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m weft.cli.warm", description="Compile kernels ahead.")
    parser.add_argument("--for", dest="kernels", choices=("demo", "all"), default="all", help="whose kernels")
    kernels = parser.parse_args().kernels
    print(
        f"Compiling the kernels of {'the demo' if kernels == 'demo' else 'all aggregates'} (once) ...",
        flush=True,
    )
    print(f"Compiled in {warm(demo=kernels == 'demo'):.1f} s.")
