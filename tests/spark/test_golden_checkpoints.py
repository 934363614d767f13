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

FORMATS = (4, 5)
each_checkpoint = pytest.mark.parametrize(
    ("number", "name"),
    [(number, name) for number in FORMATS for name, kind in golden.KINDS.items() if kind.since <= number],
)


def folder_of(number: int, name: str) -> Path:
    return CHECKPOINTS / f"format-{number}-{name}"


def answers_of(number: int, name: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads((folder_of(number, name) / "answers.json").read_text())
    return answers


def numbers_in(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.iterdir())


def newest_file(checkpoint: Path) -> Path:
    return max((checkpoint / "manifests").iterdir())


def newest_manifest(checkpoint: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(newest_file(checkpoint).read_text())
    return manifest


def stages_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """What has the layers: the manifest itself before format 5, then its stages."""
    return list(manifest["stages"].values()) if manifest["format"] >= 5 else [manifest]


@each_checkpoint
def test_a_checkpoint_goes_on_as_the_code_did_that_wrote_it(
    spark: SparkSession, tmp_path: Path, number: int, name: str
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(folder_of(number, name) / "checkpoint", checkpoint)
    ended = golden.go_on(golden.KINDS[name], tmp_path, spark)
    answers, found = answers_of(number, name), json.loads(json.dumps(ended.to_dict()))
    assert found["rows"] == answers["rows"]
    # Up to format 4, queries stood in the order of the plan's trees.
    assert sorted(found.pop("queries")) == sorted(answers.pop("queries"))
    assert found == answers
    assert [(p.seq, p.version) for p in ended.progress] == [(3, 2), (4, 3), (5, 3)]
    assert newest_manifest(checkpoint)["seq"] == 5
    assert max(numbers_in(checkpoint / "registry")) == 3
    spark_log = checkpoint / "spark"
    assert sorted(path.name for path in (spark_log / "commits").glob("[0-9]*")) == ["0", "1"]


@each_checkpoint
def test_a_checkpoint_is_what_was_meant(number: int, name: str) -> None:
    """Open state of two versions of the queries, in two buckets, and no path of the machine it is from."""
    checkpoint = folder_of(number, name) / "checkpoint"
    manifest = newest_manifest(checkpoint)
    meant = {"format": number, "seq": 2, "version": 2, "buckets": 2, "kind": "batch"}
    assert {key: manifest[key] for key in meant} == meant
    if number == 4:
        assert manifest["watermark"] < manifest["seen"]["max_time"]
    else:
        # Results of joins that are aggregated are counted, but have no clock of their own.
        read = [stream for name, stream in manifest["streams"].items() if name != "joined"]
        assert all(stream["mark"] < stream["seen"]["max_time"] for stream in read)
    assert numbers_in(checkpoint / "registry") == [1, 2]
    layers = [layer for stage in stages_of(manifest) for bucket in stage["layers"] for layer in bucket]
    assert {layer["version"] for layer in layers} == {1, 2}
    if name != "mix":  # the window query that came last has few keys
        assert all(bucket for stage in stages_of(manifest) for bucket in stage["layers"])
    files = {file["name"] for layer in layers for file in layer["files"]}
    assert files <= {path.name for path in (checkpoint / "slices").iterdir()}
    sources = [*(checkpoint / "files").iterdir(), *(checkpoint / "spark" / "sources").rglob("[0-9]*/*")]
    for path in sources:
        assert path.read_text().count(".parquet") == path.read_text().count("/data/") > 0


@each_checkpoint
def test_answers_need_the_checkpoint(number: int, name: str) -> None:
    """The rest of the data alone has other answers, query by query."""
    rest_alone = golden.answer_lasting(golden.KINDS[name], first_file=golden.FILES_AFTER[0])
    answers = answers_of(number, name)["rows"]
    assert rest_alone.keys() < answers.keys()
    assert [query for query, rows in rest_alone.items() if rows == answers[query]] == []


def drop_old_layers(manifest: dict[str, Any]) -> None:
    for stage in stages_of(manifest):
        stage["layers"] = [[x for x in bucket if x["version"] == 2] for bucket in stage["layers"]]


def drop_new_layers(manifest: dict[str, Any]) -> None:
    for stage in stages_of(manifest):
        stage["layers"] = [[x for x in bucket if x["version"] == 1] for bucket in stage["layers"]]


def forget_time(manifest: dict[str, Any]) -> None:
    if manifest["format"] == 4:
        manifest["watermark"] = None
        manifest["watermarks"] = dict.fromkeys(manifest["watermarks"])
        return
    for stage in stages_of(manifest):
        stage["marks"] = dict.fromkeys(stage["marks"])
    for stream in manifest["streams"].values():
        stream["mark"] = None


@pytest.mark.parametrize(
    ("number", "name", "tamper"),
    [
        *((5, name, drop_old_layers) for name in golden.KINDS),
        (4, "windows-in-time", drop_new_layers),
        (5, "windows-in-time", drop_new_layers),
        (4, "join", drop_new_layers),
        (5, "join", drop_new_layers),
        (4, "windows-in-time", forget_time),
        (5, "windows-in-time", forget_time),
    ],
)
def test_another_state_gives_other_answers(
    spark: SparkSession, tmp_path: Path, number: int, name: str, tamper: Callable[[dict[str, Any]], None]
) -> None:
    """What the first test wants is not true of a run that has lost some of the state."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(folder_of(number, name) / "checkpoint", checkpoint)
    manifest = newest_manifest(checkpoint)
    tamper(manifest)
    del manifest["crc"]
    manifest["crc"] = zlib.crc32(json.dumps(manifest, sort_keys=True).encode())
    newest_file(checkpoint).write_text(json.dumps(manifest))
    ended = golden.go_on(golden.KINDS[name], tmp_path, spark)
    answers, found = answers_of(number, name), ended.to_dict()
    lasting = [query.name for query in golden.KINDS[name].lasting()]
    assert [query for query in lasting if found["rows"][query] == answers["rows"][query]] == []
