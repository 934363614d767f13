"""Entries of the log: as they were written, and those of the formats before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.places import GOLDEN
from weft.errors import CheckpointError
from weft.store.log import AnswerFile, Entry, StageState, StateFile, StateLayer, StreamState
from weft.store.old_manifest import JOINED, JOINS, RESULTS, WINDOWS

CHECKPOINTS = GOLDEN / "checkpoints"
MANIFESTS = sorted(CHECKPOINTS.glob("format-[34]-*/checkpoint/manifests/*.json"))

numbers = st.integers(0, 1 << 40)
instants = st.none() | st.integers(-(1 << 60), 1 << 60)
names = st.text(max_size=8)
files = st.builds(StateFile, names, names, numbers, numbers, numbers, numbers, numbers)
layers = st.builds(StateLayer, numbers, numbers, st.lists(files, max_size=2).map(tuple), numbers)
buckets = st.lists(st.lists(layers, max_size=2).map(tuple), max_size=2).map(tuple)
stages = st.builds(StageState, st.dictionaries(names, instants, max_size=2), buckets)
streams = st.builds(
    StreamState,
    st.fixed_dictionaries({"rows": numbers, "max_time": instants}),
    instants,
    st.dictionaries(names, numbers, max_size=2),
)
entries = st.builds(
    Entry,
    seq=numbers,
    token=names,
    kind=st.sampled_from(["start", "batch", "flush", "rollback"]),
    stages=st.dictionaries(names, stages, max_size=2),
    streams=st.dictionaries(names, streams, max_size=2),
    taken=st.none() | numbers,
    offsets=st.dictionaries(names, st.none() | numbers | st.lists(names), max_size=2),
    answers=st.lists(st.builds(AnswerFile, names, numbers, numbers, numbers, numbers), max_size=2).map(tuple),
    rewind=st.none() | numbers,
)


@given(entry=entries)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    assert Entry.from_json(entry.to_json()) == entry


def test_all_files_and_versions_of_all_stages_are_named() -> None:
    file = StateFile("f1", "0", 1, 2, 3, 4, 5)
    one = StageState({}, ((StateLayer(1, 1, (file,), 3),), ()))
    other = StageState({}, ((), (StateLayer(1, 2, (StateFile("f2", "0.waiting", 1, 2, 3, 4, 5),), 4),)))
    entry = Entry(2, "t", "batch", version=5, stages={"windows:": one, "joins": other})
    assert entry.files == {"f1", "f2"}
    assert entry.versions == {3, 4, 5}


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: {**body, "batch_id": 7},
        lambda body: {name: value for name, value in body.items() if name != "crc"},
        lambda body: [body],
    ],
)
def test_a_change_is_noticed(damage: Callable[[dict], object]) -> None:
    body = json.loads(Entry(1, "t", "batch").to_json())
    with pytest.raises(CheckpointError, match=r"checksum does not match|truncated"):
        Entry.from_json(json.dumps(damage(body)).encode())


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parts[-4]}-{path.stem}")
def test_manifests_of_the_formats_before_are_entries(path: Path) -> None:
    old, entry = json.loads(path.read_text()), Entry.from_json(path.read_bytes())
    assert (entry.entry, entry.seq, entry.delivered, entry.parent) == (
        *(old["seq"] for _ in range(3)),
        old["seq"] - 1,
    )
    assert (entry.kind, entry.batch_id, entry.version) == (old["kind"], old["batch_id"], old["version"])
    assert entry.hash == old.get("hash", "pandas")
    of_joins = "join" in path.parts[-4]
    assert set(entry.stages) == ({JOINS, RESULTS} if of_joins else {WINDOWS})
    assert all(len(stage.layers) == entry.buckets for stage in entry.stages.values())
    listed = {file["name"] for bucket in old["layers"] for layer in bucket for file in layer["files"]}
    assert entry.files == listed
    assert all((path.parent.parent / "slices" / name).exists() for name in entry.files)
    untils = {layer.needed_until for s in entry.stages.values() for bucket in s.layers for layer in bucket}
    assert untils == {layer["needed_until"] for bucket in old["layers"] for layer in bucket}
    assert sum(stream.seen["rows"] for stream in entry.streams.values()) == old["seen"]["rows"]
    latest = max(stream.seen["max_time"] for stream in entry.streams.values())
    assert latest == old["seen"]["max_time"]
    if of_joins:
        marks = {stream: mark for stream, mark in old["watermarks"].items() if stream}
        assert entry.stages[JOINS].marks == marks
        assert entry.stages[RESULTS].marks == {JOINED: old["watermarks"][""]}
        assert {stream: state.mark for stream, state in entry.streams.items()} == marks
        parts = {file.part for bucket in entry.stages[JOINS].layers for la in bucket for file in la.files}
        assert {"0.0", "0.1"} <= parts <= {f"{c}.{p}" for c in "012" for p in ("0", "1", "2", "waiting")}
    else:
        assert entry.stages[WINDOWS].marks == {"": old["watermark"]}
        assert entry.streams[""].mark == old["watermark"]


def test_there_are_golden_manifests_of_both_formats() -> None:
    formats = {json.loads(path.read_text())["format"] for path in MANIFESTS}
    assert {3, 4} <= formats
