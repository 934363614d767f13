"""State split again on Spark: another number of buckets, and checkpoints of the format before."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import weft
from support import golden_rows, trades
from support.places import GOLDEN
from weft.errors import CheckpointError, JobError
from weft.expr import hashing
from weft.io.files import Files
from weft.sinks import MemorySink
from weft.spark import Run
from weft.store import manifest
from weft.store.slice_store import SliceStore

CHECKPOINTS = GOLDEN / "checkpoints"

FILES = 6


def write(place: Path, *numbers: int) -> None:
    """Some of the files of the golden stream, cut smaller."""
    rows, size = golden_rows.rows(), 4 * golden_rows.STEP // FILES
    for number in numbers:
        trades.write(rows.slice(number * size, size), place / "in", files=1, first=number)


def begin(spark: SparkSession, place: Path, sink: Any, **options: Any) -> Run:
    run = weft.stream(
        Files(place / "in", max_files_per_batch=1),
        weft.sql(golden_rows.QUERIES),
        time="ts",
        lateness="2 min",
        checkpoint=place / "checkpoint",
        sink=sink,
        trigger="available now",
        spark=spark,
        **options,
    )
    assert isinstance(run, Run)
    return run


def expected() -> dict[str, list[str]]:
    return plain(weft.run(weft.sql(golden_rows.QUERIES), golden_rows.rows(), time="ts"))


def plain(tables: dict[str, pa.Table]) -> dict[str, list[str]]:
    """Rows as texts, in order."""

    def text(value: Any) -> str:
        if value is None:
            return ""
        if value == 0:  # 0.0 and -0.0 are one key; which of them stands for it depends on threads
            value += 0
        return value.isoformat() if hasattr(value, "isoformat") else repr(value)

    return {
        name: sorted("|".join(map(text, row.values())) for row in table.to_pylist())
        for name, table in tables.items()
    }


def buckets_of(place: Path) -> tuple[int, str]:
    last = SliceStore(str(place / "checkpoint")).last
    assert last is not None
    assert len(last.layers) == last.buckets
    return last.buckets, last.hash


def test_two_buckets_then_three_then_one_and_then_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    sink = MemorySink()
    for turn, (given, have) in enumerate([(2, 2), (3, 3), (1, 1), (None, 1)]):
        write(tmp_path, turn)
        begin(spark, tmp_path, sink, buckets=given).await_done()
        assert buckets_of(tmp_path) == (have, hashing.NAME)
    write(tmp_path, 4, 5)
    begin(spark, tmp_path, sink, buckets=2, close_at_end=True).await_done()
    assert plain(sink.tables) == expected()
    assert sorted(sink.steps) == [1, 2, 3, 4, 5, 6, 7], "splitting is no step of its own"


def test_trees_on_several_nodes_keep_what_they_have(spark: SparkSession, tmp_path: Path) -> None:
    """Queries without keys live in the bucket of their tree, and move with it."""
    alone = "; ".join(
        f"-- name: every_{n}\nSELECT count(*) AS n, sum(amount) AS s FROM s [RANGE '{n} min' SLIDE '{n} min']"
        for n in (7, 11, 13, 30)
    )
    queries, sink = weft.sql(alone), MemorySink()
    for turn, given in enumerate([3, 2, 4, 1, 3]):
        write(tmp_path, turn)
        run = weft.stream(
            Files(tmp_path / "in", max_files_per_batch=1),
            queries,
            time="ts",
            lateness="2 min",
            checkpoint=tmp_path / "checkpoint",
            sink=sink,
            trigger="available now",
            strategy="no-share",
            buckets=given,
            close_at_end=turn == 4,
            spark=spark,
        )
        run.await_done()
        version = SliceStore(str(tmp_path / "checkpoint")).version()
        assert version is not None
        assert len({origin.bucket for origin in version.origins.values()}) == 3
    rows = golden_rows.rows().slice(0, 5 * 4 * golden_rows.STEP // FILES)
    assert plain(sink.tables) == plain(weft.run(queries, rows, time="ts"))


class Failing(MemorySink):
    """Fails after it has got a step, before that is committed."""

    fails = True

    def deliver(self, results: Any, seq: int) -> None:
        super().deliver(results, seq)
        if self.fails:
            raise OSError("no more room")


@pytest.mark.parametrize("after", [3, None])
def test_a_run_that_fails_before_its_first_step_has_split_nothing(
    spark: SparkSession, tmp_path: Path, after: int | None
) -> None:
    write(tmp_path, 0, 1, 2)
    sink = Failing()
    sink.fails = False
    begin(spark, tmp_path, sink, buckets=2).await_done()
    write(tmp_path, 3, 4, 5)
    sink.fails = True
    with pytest.raises(JobError, match="no more room"):
        begin(spark, tmp_path, sink, buckets=3).await_done()
    assert buckets_of(tmp_path)[0] == 2
    sink.fails = False
    begin(spark, tmp_path, sink, buckets=after, close_at_end=True).await_done()
    assert buckets_of(tmp_path)[0] == (after or 2)
    assert plain(sink.tables) == expected(), "the step made again has the number that it had"


@pytest.mark.parametrize("buckets", [None, 2])
def test_a_checkpoint_of_format_3_goes_on(spark: SparkSession, tmp_path: Path, buckets: int | None) -> None:
    kept = CHECKPOINTS / "format-3-windows"
    shutil.copytree(kept / "checkpoint", tmp_path / "checkpoint")
    assert buckets_of(tmp_path) == (3, "pandas")
    rows = golden_rows.rows().slice(3 * golden_rows.STEP)
    trades.write(rows, tmp_path / "in", files=1, first=3)
    sink = MemorySink()
    begin(spark, tmp_path, sink, close_at_end=True, buckets=buckets).await_done()
    assert plain(sink.tables) == json.loads((kept / "answers.json").read_text())
    assert buckets_of(tmp_path) == (buckets or 3, hashing.NAME)
    newest = json.loads(max((tmp_path / "checkpoint" / "manifests").iterdir()).read_text())
    assert (newest["format"], newest["hash"]) == (4, "splitmix64-fnv1a")


def test_joins_refuse_other_nodes_and_another_hash(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = trades.table(60)
    for name in "ab":
        trades.write(rows, tmp_path / name, files=1)
    queries = weft.sql("SELECT a.volume FROM a [RANGE '5 s'], b [RANGE '5 s'] WHERE a.symbol = b.symbol")

    def go(**options: Any) -> None:
        sources = {name: Files(tmp_path / name) for name in "ab"}
        weft.stream(
            sources,
            queries,
            time="ts",
            checkpoint=tmp_path / "checkpoint",
            sink=MemorySink(),
            trigger="available now",
            spark=spark,
            **options,
        ).await_done()

    go(nodes=2)
    for given in ({"nodes": 3}, {"buckets": 3}):
        with pytest.raises(JobError, match="are spread over 2 nodes and cannot go on with 3; leave nodes="):
            go(**given)
    go()
    go(buckets=2)
    newest = max((tmp_path / "checkpoint" / "manifests").iterdir())
    body = manifest.unseal(newest.read_bytes())
    del body["hash"]
    monkeypatch.setattr(manifest, "FORMAT", 3)
    newest.write_bytes(manifest.seal(body))
    monkeypatch.undo()
    with pytest.raises(
        CheckpointError, match="by another hash; let that version finish them, or start again"
    ):
        go()
