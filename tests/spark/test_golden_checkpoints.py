"""Golden checkpoints: runs that go on with what earlier code has left answer what that code answered."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support import golden_streams as golden
from support.places import GOLDEN

CHECKPOINTS = GOLDEN / "checkpoints"

FORMAT = 4
each_kind = pytest.mark.parametrize("name", golden.KINDS)


def folder_of(name: str) -> Path:
    return CHECKPOINTS / f"format-{FORMAT}-{name}"


def answers_of(name: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((folder_of(name) / "answers.json").read_text())
    return answers


def numbers_in(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.iterdir())


def newest_manifest(checkpoint: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(max((checkpoint / "manifests").iterdir()).read_text())
    return manifest


@each_kind
def test_a_checkpoint_goes_on_as_the_code_did_that_wrote_it(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(folder_of(name) / "checkpoint", checkpoint)
    ended = golden.go_on(golden.KINDS[name], tmp_path, spark)
    answers, found = answers_of(name), json.loads(json.dumps(ended.to_dict()))
    assert found["rows"] == answers["rows"]
    assert found == answers
    assert [(p.seq, p.version) for p in ended.progress] == [(3, 2), (4, 3), (5, 3)]
    assert newest_manifest(checkpoint)["seq"] == 5
    assert max(numbers_in(checkpoint / "registry")) == 3
    spark_log = checkpoint / "spark"
    assert sorted(path.name for path in (spark_log / "commits").glob("[0-9]*")) == ["0", "1"]


@each_kind
def test_a_checkpoint_is_what_was_meant(name: str) -> None:
    """Open state of two versions of the queries, in two buckets, and no path of the machine it is from."""
    checkpoint = folder_of(name) / "checkpoint"
    manifest = newest_manifest(checkpoint)
    meant = {"format": FORMAT, "seq": 2, "version": 2, "buckets": 2, "kind": "batch"}
    assert {key: manifest[key] for key in meant} == meant
    assert manifest["watermark"] < manifest["seen"]["max_time"]
    assert numbers_in(checkpoint / "registry") == [1, 2]
    layers = [layer for bucket in manifest["layers"] for layer in bucket]
    assert {layer["version"] for layer in layers} == {1, 2}
    assert all(bucket for bucket in manifest["layers"])
    files = {file["name"] for layer in layers for file in layer["files"]}
    assert files <= {path.name for path in (checkpoint / "slices").iterdir()}
    sources = [*(checkpoint / "files").iterdir(), *(checkpoint / "spark" / "sources").rglob("[0-9]*/*")]
    for path in sources:
        assert path.read_text().count(".parquet") == path.read_text().count("/data/") > 0


@each_kind
def test_answers_need_the_checkpoint(name: str) -> None:
    """The rest of the data alone has other answers, query by query."""
    rest_alone = golden.answer_lasting(golden.KINDS[name], first_file=golden.FILES_AFTER[0])
    answers = answers_of(name)["rows"]
    assert rest_alone.keys() < answers.keys()
    assert [query for query, rows in rest_alone.items() if rows == answers[query]] == []


def drop_old_layers(manifest: dict[str, Any]) -> None:
    manifest["layers"] = [[x for x in bucket if x["version"] == 2] for bucket in manifest["layers"]]


def drop_new_layers(manifest: dict[str, Any]) -> None:
    manifest["layers"] = [[x for x in bucket if x["version"] == 1] for bucket in manifest["layers"]]


def forget_time(manifest: dict[str, Any]) -> None:
    manifest["watermark"] = None
    manifest["watermarks"] = dict.fromkeys(manifest["watermarks"])


@pytest.mark.parametrize(
    ("name", "tamper"),
    [
        *((name, drop_old_layers) for name in golden.KINDS),
        ("windows-in-time", drop_new_layers),
        ("join", drop_new_layers),
        ("windows-in-time", forget_time),
    ],
)
def test_another_state_gives_other_answers(
    spark: SparkSession, tmp_path: Path, name: str, tamper: Callable[[dict[str, Any]], None]
) -> None:
    """What the first test wants is not true of a run that has lost some of the state."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(folder_of(name) / "checkpoint", checkpoint)
    manifest = newest_manifest(checkpoint)
    tamper(manifest)
    del manifest["crc"]
    manifest["crc"] = zlib.crc32(json.dumps(manifest, sort_keys=True).encode())
    (checkpoint / "manifests" / f"{manifest['seq']:010}.json").write_text(json.dumps(manifest))
    ended = golden.go_on(golden.KINDS[name], tmp_path, spark)
    answers, found = answers_of(name), ended.to_dict()
    lasting = [query.name for query in golden.KINDS[name].lasting()]
    assert [query for query in lasting if found["rows"][query] == answers["rows"][query]] == []
