"""Joins of three streams on Spark: by similarity over 1, 2 and 4 nodes, and by keys, which native Spark can.

The join by similarity has no equality, so its rivals are nested loops in one process. The rival of the one by
keys is native Spark with two stream-stream joins, one behind the other. All sides read the same generated
files, and their answers are compared. docs/benchmarks.md says what each side does and what the figures mean.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

import weft
from weft.cli import bench
from weft.cli.bench import BenchmarkResult, Progress, stopwatch
from weft.errors import JobError
from weft.sinks import MemorySink

write = bench.load("join-spark").write

NODES = (1, 2, 4)
ROWS, QUICK_ROWS = 12_000, 2_000
EQUAL_ROWS, QUICK_EQUAL_ROWS = 80_000, 20_000
FILES = 4
FEATURES = 6
RADIUS = 0.2
KEYS = 2_000
RANGES = {"a": 12, "b": 8, "c": 10}
"""Seconds that rows of each stream wait."""
START = 1_700_000_000_000_000
STEP, EQUAL_STEP = 2_500, 10_000
"""Microseconds from row to row of each stream."""
LATENESS = "1 second"
BLOCK = 256

Summary = tuple[int, int]


def near(one: str, other: str) -> str:
    """Write the condition that two feature vectors are less than the radius apart."""
    squares = (f"({one}.f{n} - {other}.f{n}) * ({one}.f{n} - {other}.f{n})" for n in range(FEATURES))
    return f"sqrt({' + '.join(squares)}) < {RADIUS}"


def weft_sql(condition: str) -> str:
    """A join of the three streams as weft reads it."""
    streams = ", ".join(f"{stream} [RANGE '{seconds} s']" for stream, seconds in RANGES.items())
    return f"-- name: found\nSELECT a.n, b.n AS m, c.n AS o FROM {streams} WHERE {condition}"


SIMILARITY_JOIN = weft_sql(f"{near('a', 'b')} AND {near('b', 'c')}")
EQUALITY_JOIN = weft_sql("a.k = b.k AND b.k = c.k")


def spark_sql() -> str:
    """The join by keys as Spark reads it: no part is later than another's range allows.

    What one join hands to the next may have one time with a watermark only, so b's is a number there.
    """
    a, b, c = (f"INTERVAL {seconds} SECONDS" for seconds in RANGES.values())
    b_micros, c_micros = (RANGES[s] * 1_000_000 for s in "bc")
    return (
        "SELECT ab.n, ab.m, c.n AS o FROM "
        "(SELECT a.ts AS ts, unix_micros(b.ts) AS bts, b.k AS k, a.n AS n, b.n AS m "
        f"FROM a JOIN b ON a.k = b.k AND b.ts < a.ts + {a} AND a.ts < b.ts + {b}) ab "
        f"JOIN c ON ab.k = c.k AND c.ts < ab.ts + {a} AND ab.ts < c.ts + {c} "
        f"AND unix_micros(c.ts) < ab.bts + {b_micros} AND ab.bts < unix_micros(c.ts) + {c_micros}"
    )


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Measure all sides; raise if they disagree."""
    rows, equal_rows = (QUICK_ROWS, QUICK_EQUAL_ROWS) if quick else (ROWS, EQUAL_ROWS)
    spark = weft.session("local[*]", {"spark.driver.memory": "4g"})
    spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    total, table = 2 * len(NODES) + 4, list[dict[str, Any]]()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        folder = Path(name)
        progress("generating", 0, total)
        similar = {s: generate(rows, STEP, seed) for seed, s in enumerate(RANGES)}
        equal = {s: generate(equal_rows, EQUAL_STEP, seed) for seed, s in enumerate(RANGES)}
        for kind, streams in (("similar", similar), ("equal", equal)):
            (folder / kind).mkdir()
            for stream, generated in streams.items():
                write(folder / kind / stream, generated, FILES)
        ring(folder / "similar", SIMILARITY_JOIN, 1)  # Spark's workers and weft's kernels are warm
        progress("nested loops", 1, total)
        with stopwatch() as seconds:
            expected = nested_loops(similar)
        table.append(_row("similarity", "nested loops, one process", expected, seconds()))
        progress("weft in one process", 2, total)
        with stopwatch() as seconds:
            answer = in_process(similar, SIMILARITY_JOIN)
        table.append(_row("similarity", "weft, one process", agreed(answer, expected), seconds()))
        for at, nodes in enumerate(NODES):
            progress(f"similarity, {nodes} nodes", 3 + at, total)
            with stopwatch() as seconds:
                answer = ring(folder / "similar", SIMILARITY_JOIN, nodes)
            table.append(_row("similarity", f"weft, {_nodes(nodes)}", agreed(answer, expected), seconds()))
        progress("native Spark", 3 + len(NODES), total)
        native(spark, folder / "equal")
        with stopwatch() as seconds:
            expected = native(spark, folder / "equal")
        table.append(_row("keys", "native Spark", expected, seconds()))
        for at, nodes in enumerate(NODES):
            progress(f"keys, {nodes} nodes", 4 + len(NODES) + at, total)
            with stopwatch() as seconds:
                answer = ring(folder / "equal", EQUALITY_JOIN, nodes)
            table.append(_row("keys", f"weft, {_nodes(nodes)}", agreed(answer, expected), seconds()))
    notes = [f"{rows:,} and {equal_rows:,} rows of each of three streams, in {FILES} files each."]
    return BenchmarkResult("ring-spark", table, figures(table), notes)


def figures(table: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many times faster weft is than each rival, and than itself on one node."""
    seconds = {(r["join"], r["side"]): r["seconds"] for r in table}
    one = seconds["similarity", "weft, 1 node"]
    ratios = {}
    for nodes in NODES:
        weft_seconds = seconds["similarity", f"weft, {_nodes(nodes)}"]
        ratios[f"nested_loops_over_weft_{nodes}"] = (
            seconds["similarity", "nested loops, one process"] / weft_seconds
        )
        ratios[f"one_node_over_{nodes}"] = one / weft_seconds
        keys = seconds["keys", f"weft, {_nodes(nodes)}"]
        ratios[f"native_over_weft_{nodes}"] = seconds["keys", "native Spark"] / keys
    return ratios


def generate(rows: int, step: int, seed: int) -> pa.Table:
    """A stream: rows in order of time, keys and features at random."""
    chance = np.random.default_rng(seed)
    times = START + np.arange(rows) * step + chance.integers(0, step, rows)
    return pa.table(
        {
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "k": chance.integers(0, KEYS, rows),
            "n": np.arange(rows),
            **{f"f{n}": chance.random(rows) for n in range(FEATURES)},
        }
    )


def ring(folder: Path, query: str, nodes: int) -> Summary:
    """One weft stream on Spark, over so many nodes."""
    sink = MemorySink()
    with tempfile.TemporaryDirectory(dir=folder.parent) as checkpoint:
        weft.stream(
            {s: weft.Files(folder / s, max_files_per_batch=1) for s in RANGES},
            weft.sql(query),
            time="ts",
            lateness=LATENESS,
            checkpoint=checkpoint,
            sink=sink,
            nodes=nodes,
            trigger="available now",
            close_at_end=True,
        ).await_done()
    return summary(sink.tables["found"])


def in_process(streams: dict[str, pa.Table], query: str) -> Summary:
    """The same joins without Spark, in batches as large as the files."""
    size = -(-next(iter(streams.values())).num_rows // FILES)
    batches = {s: [t.slice(at, size) for at in range(0, t.num_rows, size)] for s, t in streams.items()}
    return summary(weft.run(weft.sql(query), batches, time="ts", lateness=LATENESS)["found"])


def nested_loops(streams: dict[str, pa.Table]) -> Summary:
    """All rows at once in NumPy: blocks of a against b, what is left against c, with no state to keep."""
    times = {s: t.column("ts").cast(pa.int64()).to_numpy() for s, t in streams.items()}
    vectors = {
        s: np.column_stack([t.column(f"f{n}").to_numpy() for n in range(FEATURES)])
        for s, t in streams.items()
    }
    waits = {s: seconds * 1_000_000 for s, seconds in RANGES.items()}
    triples: list[np.ndarray] = []
    for at in range(0, times["a"].size, BLOCK):
        a = np.arange(at, min(at + BLOCK, times["a"].size))
        first_times = times["a"][a]
        left, b = _within(
            first_times, vectors["a"][a], times["b"], vectors["b"], first_times + waits["a"], waits["b"]
        )
        for first in range(0, left.size, BLOCK):
            first_rows, second_rows = a[left[first : first + BLOCK]], b[first : first + BLOCK]
            both = np.minimum(times["a"][first_rows] + waits["a"], times["b"][second_rows] + waits["b"])
            latest = np.maximum(times["a"][first_rows], times["b"][second_rows])
            pair, c = _within(latest, vectors["b"][second_rows], times["c"], vectors["c"], both, waits["c"])
            triples.append(np.column_stack([first_rows[pair], second_rows[pair], c]))
    every = np.concatenate(triples)
    return summary(pa.table(dict(zip("nmo", every.T))))


def _within(
    latest: np.ndarray,
    vectors: np.ndarray,
    others: np.ndarray,
    other_vectors: np.ndarray,
    before: np.ndarray,
    wait: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and rows of another stream near them: after ``latest - wait``, before ``before``, by distance."""
    low, high = np.searchsorted(others, (int(latest.min()) - wait, int(before.max())))
    if low == high or not latest.size:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    near = slice(int(low), int(high))
    in_time = (others[near] > latest[:, None] - wait) & (others[near] < before[:, None])
    apart = np.sqrt(((vectors[:, None, :] - other_vectors[None, near, :]) ** 2).sum(axis=2))
    rows, places = np.nonzero(in_time & (apart < RADIUS))
    return rows, places + int(low)


def native(spark: Any, folder: Path) -> Summary:
    """Spark alone: two stream-stream joins, one behind the other."""
    for stream in RANGES:
        place = str(folder / stream)
        reader = spark.readStream.schema(spark.read.parquet(place).schema)
        frame = reader.option("maxFilesPerTrigger", 1).parquet(place)
        frame.withWatermark("ts", LATENESS).createOrReplaceTempView(stream)
    with tempfile.TemporaryDirectory(dir=folder.parent) as checkpoint:
        writer = spark.sql(spark_sql()).writeStream.format("memory").queryName("found").outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
        return summary(spark.table("found").toArrow())


def summary(table: pa.Table) -> Summary:
    """Enough of a join's results to tell whether two sides agree."""
    n, m, o = (table.column(name).to_numpy().astype(np.uint64) for name in "nmo")
    mixed = (n * np.uint64(0x9E3779B97F4A7C15) + m) * np.uint64(0xBF58476D1CE4E5B9) + o
    mixed ^= mixed >> np.uint64(29)
    return table.num_rows, int(np.bitwise_xor.reduce(mixed)) if mixed.size else 0


def agreed(answer: Summary, expected: Summary) -> Summary:
    """Raise unless two sides have the same results, and some."""
    if answer != expected or not answer[0]:
        raise JobError(f"two sides disagree: {answer} against {expected}")
    return answer


def _row(join: str, side: str, found: Summary, seconds: float) -> dict[str, Any]:
    return {"join": join, "side": side, "results": found[0], "seconds": seconds}


def _nodes(nodes: int) -> str:
    return f"{nodes} node{'s' * (nodes > 1)}"


def render(result: BenchmarkResult) -> Table:
    """The table as printed."""
    table = Table(title="Seconds for joins of three streams (in brackets: times faster than the rival)")
    for heading in ("join", "side", "results", "seconds"):
        table.add_column(heading, justify="left" if heading in ("join", "side") else "right")
    rival: dict[str, float] = {}
    for row in result.rows:
        first = rival.setdefault(row["join"], row["seconds"])
        gain = "" if first is row["seconds"] else f" ({first / row['seconds']:.1f}x)"
        table.add_row(row["join"], row["side"], f"{row['results']:,}", f"{row['seconds']:.2f}{gain}")
    return table
