"""Compile every kernel once, so that the first batch finds them in Numba's cache: ``python -m weft.warm``."""

from __future__ import annotations

import datetime
import time

import numpy as np
import pyarrow as pa

import weft
from weft.aggregates import FUNCTIONS
from weft.engine.compile import compile_plan
from weft.engine.due import last_ends
from weft.final import technique
from weft.final.costs import candidates
from weft.final.grid import answer_grid
from weft.generate import trades
from weft.workload import Question, sliding, text, varied


def warm() -> float:
    """Run every aggregate over a few rows, and what *auto* may choose for it; returns the seconds it took."""
    began = time.perf_counter()
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    rows = 64
    table = pa.table(
        {
            "ts": [start + datetime.timedelta(seconds=7 * i) for i in range(rows)],
            "k": pa.array(["a", "b"] * (rows // 2)),
            "i": pa.array([*range(rows - 1), None], pa.int64()),
            "x": pa.array([*(float(i) for i in range(rows - 1)), None]),
            "s": pa.array([str(i) for i in range(rows)]),
            "t": pa.array([i % 3 == 0 for i in range(rows)]),
        }
    )
    queries = []
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
            queries.append(weft.sql(asked)[0].renamed(f"{name}_{number}"))
    either = "(s < 'a' OR i > 3) AND (s > 'b' OR i < 9) AND s <> 'c' AND s IN ('d', 'e')"
    queries += weft.sql(f"-- name: either\nSELECT count(*) AS n FROM s [RANGE '60 s'] WHERE {either}")
    queries += weft.sql("-- name: rows\nSELECT k, count(*) AS n FROM s [ROWS 3 SLIDE 2] GROUP BY k")
    queries += weft.sql("-- name: pairs\nSELECT k, t, count(*) AS n FROM s [RANGE '60 s'] GROUP BY k, t")
    plan = weft.plan(queries)
    weft.run(plan, [table, table], time="ts")  # the second time, all rows are late
    for grouping in compile_plan(plan, table.schema, "ts").groupings:
        for monoid in {part.monoid for part in grouping.parts}:
            for name in candidates(monoid):
                technique(name).answer(monoid, monoid.identity(2), np.array([0]), np.array([2]))
            if monoid.built_in:
                cells = (np.array([0, 1]), np.array([0], dtype=np.int32))
                window = tuple(np.array([[0], [1], [0]]))
                answer_grid(monoid, monoid.identity(1), *cells, 1, window, monoid.identity(1))
    join = "SELECT a.i FROM a [RANGE '60 s'], b [RANGE '30 s'] WHERE a.i = b.i AND abs(a.x - b.x) < 2"
    by_time = "SELECT a.i FROM a [RANGE '60 s'], b [RANGE '30 s'] WHERE a.x < b.x"
    three = f"{join} AND c.x < b.x".replace("FROM a", "FROM c [RANGE '9 s'], a")
    weft.run(weft.sql(f"{join}; {by_time}; {three}"), dict.fromkeys("abc", table), time="ts")
    # More rows, and groups busy and rare: what is shared and how windows are found is chosen by such counts.
    median = Question("median", ("approx_median(price) AS v",), range=600, slide=60)
    for questions in (sliding(8), varied(100), [median]):
        weft.run(weft.sql(text(questions)), trades(300_000, rate=50), time="ts")
    # On Spark, slices come out of Arrow, and so cannot be written to: another type to Numba.
    last_ends([plan.queries[0].window], pa.array([0]).to_numpy())
    return time.perf_counter() - began


if __name__ == "__main__":
    print("compiling kernels (once; cached for later runs) ...", flush=True)
    print(f"done in {warm():.1f} s")
