"""GROUP BY several columns on Spark: state is renumbered, merged and split by bucket over many steps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import weft
from support import trades
from support.seeds import seeded_random
from weft.io.files import Files
from weft.sinks import MemorySink

COUNTED = "SELECT a, b, count(*) AS n, sum(v) AS v FROM s GROUP BY a, b, window(ts, '10 minutes')"


def test_two_keys_over_nine_steps(spark: SparkSession, tmp_path: Path) -> None:
    chance = seeded_random(7)
    count = 2_700
    rows = pa.table(
        {
            "ts": pa.array([trades.START + i * 7 * trades.SECOND for i in range(count)]).cast(
                pa.timestamp("us", "UTC")
            ),
            "a": [chance.randrange(12) for _ in range(count)],
            "b": [chance.randrange(40) for _ in range(count)],
            "v": [chance.randrange(1000) for _ in range(count)],
        }
    )
    trades.write(rows, tmp_path / "in", files=9)
    sink, queries = MemorySink(), weft.sql(COUNTED)
    run = weft.stream(
        Files(tmp_path / "in", max_files_per_batch=1),
        queries,
        time="ts",
        checkpoint=tmp_path / "checkpoint",
        sink=sink,
        trigger="available now",
        buckets=2,
        close_at_end=True,
        spark=spark,
    )
    assert run.await_done()
    assert len(run.progress) == 10
    expected = rows.append_column(
        "w", pa.array([(t // (600 * trades.SECOND)) for t in rows["ts"].cast(pa.int64()).to_pylist()])
    )
    totals = expected.group_by(["w", "a", "b"]).aggregate([("v", "count"), ("v", "sum")]).to_pylist()
    found = [
        (int(r["window_start"].timestamp()) // 600, r["a"], r["b"], r["n"], r["v"])
        for r in sink.tables["q1"].to_pylist()
    ]
    assert sorted(found) == sorted((r["w"], r["a"], r["b"], r["v_count"], r["v_sum"]) for r in totals)
