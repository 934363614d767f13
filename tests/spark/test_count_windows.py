"""Windows counted in rows on Spark: as in process, whatever the files, the buckets and the restarts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import weft
from support import trades
from support.seeds import seeded_random
from weft.io.files import Files
from weft.sinks import ParquetSink

QUERIES = """
-- name: by_symbol
SELECT symbol, sum(volume) AS volume, max(price) AS top, count(*) AS n
FROM trades [ROWS 50 SLIDE 20] GROUP BY symbol;
-- name: large
SELECT symbol, avg(price) AS mean, last(volume) AS newest
FROM trades [ROWS 7 SLIDE 3] WHERE volume > 500 GROUP BY symbol;
-- name: overall
SELECT count(*) AS n, min(price) AS low FROM trades [ROWS 100];
-- name: timed
SELECT symbol, count(*) AS n FROM trades [RANGE '90 s' SLIDE '60 s'] GROUP BY symbol
"""


def test_share(spark: SparkSession, tmp_path: Path) -> None:
    rows = trades.table(1000)
    queries = weft.sql(QUERIES)
    trades.write(rows, tmp_path / "in", files=3)
    expected = trades.rows_of(weft.run(queries, rows, time="ts"))
    assert set(expected) == {q.name for q in queries}
    shared = weft.share(spark.read.parquet(str(tmp_path / "in")), queries, time="ts", buckets=3)
    assert trades.close(trades.rows_of(shared.to_arrow()), expected)


def test_stream_over_restarts_and_rows_out_of_order(spark: SparkSession, tmp_path: Path) -> None:
    rows = trades.table(900)
    queries = weft.sql(QUERIES)
    chance = seeded_random(1)
    # Rows come up to 30 seconds after their turn, also into later files.
    order = sorted(range(900), key=lambda i: i + chance.randrange(30))
    trades.write(rows.take(pa.array(order)), tmp_path / "in", files=9)
    waiting = sorted((tmp_path / "in").iterdir())
    for path in waiting:
        path.rename(tmp_path / path.name)
    for turn in range(3):
        for path in waiting[3 * turn : 3 * turn + 3]:
            (tmp_path / path.name).rename(path)
        weft.stream(
            Files(tmp_path / "in", max_files_per_batch=1),
            queries,
            time="ts",
            lateness="40 s",
            checkpoint=tmp_path / "checkpoint",
            sink=ParquetSink(tmp_path / "out"),
            trigger="available now",
            buckets=2,
            close_at_end=turn == 2,
            spark=spark,
        ).await_done()
    found = {q.name: pq.read_table(tmp_path / "out" / q.name) for q in queries}
    assert trades.close(trades.rows_of(found), trades.rows_of(weft.run(queries, rows, time="ts")))


def test_trees_on_several_nodes(spark: SparkSession, tmp_path: Path) -> None:
    """Without keys, the trees of a plan are answered on its nodes."""
    rows = trades.table(600)
    texts = [f"SELECT sum(volume) AS v, count(*) AS n FROM trades [RANGE '{s} s']" for s in (20, 30, 50, 70)]
    texts += [f"SELECT sum(volume) AS v, count(*) AS n FROM trades [ROWS {n}]" for n in (11, 13)]
    queries = weft.sql(";".join(texts))
    trades.write(rows, tmp_path / "in", files=2)
    shared = weft.share(
        Files(tmp_path / "in"), queries, time="ts", buckets=3, strategy="no-share", spark=spark
    )
    expected = trades.rows_of(weft.run(queries, rows, time="ts"))
    assert trades.close(trades.rows_of(shared.to_arrow()), expected)
