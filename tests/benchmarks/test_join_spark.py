"""The benchmark of joins on Spark: what both sides are asked, and how their answers are compared."""

from __future__ import annotations

import pyarrow as pa
import pytest

import weft
from weft.cli import bench
from weft.errors import JobError
from weft.planning.joins.member import sharing

join_spark = bench.load("join-spark")


def test_all_joins_share_one_chain_and_differ():
    asked = join_spark.joins(16)
    queries = weft.sql(";\n".join(j.weft_sql() for j in asked))
    (chain,) = sharing(queries)
    assert len({(m.ranges, m.selections) for m in chain}) == 16


def test_answers_are_compared_pair_by_pair():
    rows = pa.table({"n": [1, 2], "m": [3, 4]})
    crossed = pa.table({"n": [1, 2], "m": [4, 3]})
    one, other = join_spark.summary(rows), join_spark.summary(crossed)
    assert one == join_spark.summary(rows.take([1, 0]))
    join_spark.agree({"j": one}, {"j": one})
    with pytest.raises(JobError, match="disagree on j"):
        join_spark.agree({"j": one}, {"j": other})


def test_a_join_that_native_spark_refuses_has_no_figure():
    rows = [
        {"joins": 4, "weft": 2.0, "native": 8.0, "results": 10},
        {"joins": "band", "weft": 1.0, "native": None, "results": 5},
    ]
    assert join_spark.figures(rows) == {"native_over_weft_4": 4.0}
    assert join_spark.render(bench.BenchmarkResult("join-spark", rows, {})).row_count == 2
