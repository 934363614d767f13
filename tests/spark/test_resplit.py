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
from support.commits import failing_commit
from support.join_oracle import ordered
from support.joined_files import table
from support.joined_files import write as write_joined
from support.places import GOLDEN
from weft.errors import CheckpointError, JobError
from weft.expr import hashing
from weft.io.files import Files
from weft.operators.windows.stage import WindowsStage
from weft.runner.program import windows_name
from weft.sinks import MemorySink
from weft.spark import Run
from weft.store.checkpoint import Checkpoint
from weft.store.sealed import seal, unseal

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
    last = Checkpoint(str(place / "checkpoint")).last
    assert last is not None
    assert {len(stage.layers) for stage in last.stages.values()} == {last.buckets}
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
        version = Checkpoint(str(tmp_path / "checkpoint")).version()
        assert version is not None
        origins = WindowsStage.origins(version.stages[windows_name("")].data)
        assert len({origin.bucket for origin in origins.values()}) == 3
    rows = golden_rows.rows().slice(0, 5 * 4 * golden_rows.STEP // FILES)
    assert plain(sink.tables) == plain(weft.run(queries, rows, time="ts"))


@pytest.mark.parametrize("after", [3, None])
def test_a_run_that_fails_before_its_first_step_has_split_nothing(
    spark: SparkSession, tmp_path: Path, after: int | None
) -> None:
    """A sink that fails would not do: the step that it fails in is committed before."""
    write(tmp_path, 0, 1, 2)
    sink = MemorySink()
    begin(spark, tmp_path, sink, buckets=2).await_done()
    write(tmp_path, 3, 4, 5)
    with failing_commit(4), pytest.raises(CheckpointError, match="no room"):
        begin(spark, tmp_path, sink, buckets=3).await_done()
    assert buckets_of(tmp_path)[0] == 2
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
    assert (newest["format"], newest["hash"]) == (5, "splitmix64-fnv1a")


JOINED = {"a": table(90, 1), "b": table(80, 2), "c": table(85, 3)}
JOINS = """
  -- name: pairs
  SELECT a.n, b.n AS m FROM a [RANGE '8 s'], b [RANGE '5 s'] WHERE a.k = b.k;
  -- name: band
  SELECT a.n, b.n AS m FROM a [RANGE '6 s'], b [RANGE '9 s'] WHERE abs(a.x - b.x) < 2;
  -- name: three
  SELECT a.n, b.n AS m, c.n AS o FROM a [RANGE '6 s'], b [RANGE '4 s'], c [RANGE '9 s']
  WHERE a.k = b.k AND abs(b.x - c.x) < 2;
  -- name: counted
  SELECT a.k, count(*) AS c FROM a [RANGE '8 s'], b [RANGE '5 s'] WHERE a.k = b.k
  GROUP BY a.k, window('10 s', '5 s');
  -- name: windows
  SELECT k, sum(x) AS s FROM c [RANGE '10 s' SLIDE '5 s'] GROUP BY k
"""


def write_part(place: Path, part: int, parts: int) -> None:
    """One file more of each joined stream."""
    for name, rows in JOINED.items():
        size = -(-rows.num_rows // parts)
        write_joined(rows.slice(part * size, size), place / name, [])


def go_on(spark: SparkSession, place: Path, sink: MemorySink, **options: Any) -> Run:
    run = weft.stream(
        {name: Files(place / name, max_files_per_batch=1) for name in JOINED},
        weft.sql(JOINS),
        time="ts",
        lateness="3 s",
        checkpoint=place / "checkpoint",
        sink=sink,
        trigger="available now",
        spark=spark,
        **options,
    )
    run.await_done()
    return run


def check_joined(sink: MemorySink) -> None:
    wanted = weft.run(weft.sql(JOINS), JOINED, time="ts", lateness="3 s")
    for name, rows in wanted.items():
        assert rows.num_rows, "a test of nothing"
        assert ordered(sink.tables[name].to_pylist()) == ordered(rows.to_pylist()), name


def test_joins_and_their_aggregates_are_split_again(spark: SparkSession, tmp_path: Path) -> None:
    """Pairs, rings of nodes, rows that wait, results that are aggregated, and windows beside them."""
    sink = MemorySink()
    turns: list[dict[str, Any]] = [{"nodes": 2}, {"nodes": 3}, {"buckets": 1}, {}, {"buckets": 2}]
    for turn, given in enumerate(turns):
        write_part(tmp_path, turn, len(turns))
        go_on(spark, tmp_path, sink, close_at_end=turn == len(turns) - 1, **given)
        assert buckets_of(tmp_path)[0] == [2, 3, 1, 1, 2][turn]
    check_joined(sink)
    with pytest.raises(JobError, match="nodes=3 and buckets=2 say different things"):
        go_on(spark, tmp_path, sink, nodes=3, buckets=2)


def test_joins_refuse_another_hash(spark: SparkSession, tmp_path: Path) -> None:
    sink = MemorySink()
    write_part(tmp_path, 0, 2)
    go_on(spark, tmp_path, sink, nodes=2)
    newest = max((tmp_path / "checkpoint" / "manifests").iterdir())
    body = unseal(newest.read_bytes()).body
    newest.write_bytes(seal({**body, "hash": "pandas"}, indent=None))
    with pytest.raises(
        CheckpointError, match="by another hash; let that version finish them, or start again"
    ):
        go_on(spark, tmp_path, sink)
