"""The benchmark of joins of three streams on Spark: its rivals agree with every tuple, and are compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

import weft
from support.join_oracle import oracle
from weft.cli import bench
from weft.errors import JobError

ring_spark = bench.load("ring-spark")


def test_nested_loops_find_every_tuple(monkeypatch):
    monkeypatch.setattr(ring_spark, "BLOCK", 7)
    streams = {s: ring_spark.generate(40, 1_000_000, seed) for seed, s in enumerate("abc")}
    query = ring_spark.SIMILARITY_JOIN.replace("0.2", "0.6")
    monkeypatch.setattr(ring_spark, "RADIUS", 0.6)
    (join,) = weft.sql(query)
    rows = [row[1:] for row in oracle(join, streams)]
    assert len(rows) > 20
    wanted = ring_spark.summary(pa.table(dict(zip("nmo", map(list, zip(*rows))))))
    assert ring_spark.nested_loops(streams) == wanted
    assert ring_spark.in_process(streams, query) == wanted


def test_answers_are_compared_row_by_row():
    rows = pa.table({"n": [1, 2], "m": [3, 4], "o": [5, 6]})
    crossed = pa.table({"n": [1, 2], "m": [4, 3], "o": [5, 6]})
    one = ring_spark.summary(rows)
    assert ring_spark.agreed(ring_spark.summary(rows.take([1, 0])), one) == one
    with pytest.raises(JobError, match="two sides disagree"):
        ring_spark.agreed(ring_spark.summary(crossed), one)


def test_figures_are_ratios_of_one_run():
    sides = {"nested loops, one process": 8.0, "weft, one process": 4.0}
    sides |= {"weft, 1 node": 5.0, "weft, 2 nodes": 2.5, "weft, 4 nodes": 2.0}
    rows = [ring_spark._row("similarity", side, (3, 0), seconds) for side, seconds in sides.items()]
    rows += [ring_spark._row("keys", side, (3, 0), 2.0) for side in ("native Spark", *list(sides)[2:])]
    found = ring_spark.figures(rows)
    assert (found["nested_loops_over_weft_4"], found["one_node_over_2"], found["native_over_weft_1"]) == (
        4,
        2,
        1,
    )
    assert ring_spark.render(bench.BenchmarkResult("ring-spark", rows, found)).row_count == 9
