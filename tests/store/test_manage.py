"""Checkpoints listed, copied and taken back; Spark's log goes along."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.places import GOLDEN
from weft.errors import CheckpointError
from weft.store import manage
from weft.store.checkpoint import Checkpoint, LostTurn
from weft.store.log import AnswerFile, Entry, StageState, StateFile, StateLayer, StreamState
from weft.store.manage import copy_checkpoint, list_entries, roll_back
from weft.store.version_file import QueryVersion, StageVersion

STEPS = 5
HEADER = 'v1\n{"batchWatermarkMs":0}\n'


def step(seq: int, **fields: object) -> Entry:
    files = tuple(
        StateLayer(n, n, (StateFile(f"{n:010}-0000-w-0-t.0.parquet", "0", 1, 7, 1, 1, 1),), 1)
        for n in range(max(1, seq - 1), seq + 1)
    )
    entry = Entry(
        seq,
        f"t{seq}",
        "batch",
        batch_id=seq - 1,
        version=1 if seq < 4 else 2,
        buckets=1,
        stages={"windows:": StageState({"": seq * 1_000_000}, (files,))},
        streams={"": StreamState({"rows": 10 * seq})},
        answers=(AnswerFile(f"{seq:010}-0000-t.arrow", 0, 1, 1, 1),),
    )
    return replace(entry, **fields)  # type: ignore[arg-type]


def commit(checkpoint: Checkpoint, entry: Entry) -> None:
    """Publish a step, with its files."""
    place = Path(checkpoint.place)
    (place / "slices" / f"{entry.seq:010}-0000-w-0-t.0.parquet").write_text("state")
    (place / "answers" / f"{entry.seq:010}-0000-t.arrow").write_text("answers")
    checkpoint.publish(entry)


def version_of(number: int, seq: int) -> QueryVersion:
    return QueryVersion(number, seq, {}, (), (), {"windows:": StageVersion({})}, {}, {})


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (path.parent / f".{path.name}.crc").write_text("checksum")


def spark_log(place: Path, batches: int, compacted: int | None = None) -> None:
    """Spark's log of one source of files and one of Kafka, after so many batches."""
    write(place / "spark" / "metadata", '{"id": "one"}')
    write(place / "spark" / "sources" / "1" / "0", 'v1\n{"t":{"0":0}}')
    for batch in range(batches):
        write(
            place / "spark" / "offsets" / str(batch),
            f'{HEADER}{{"logOffset":{batch}}}\n{{"t":{{"0":{batch}}}}}',
        )
        write(place / "spark" / "commits" / str(batch), "v1\n{}")
        name = f"{batch}.compact" if batch == compacted else str(batch)
        write(place / "spark" / "sources" / "0" / name, "v1\n{}")


def names(place: Path, *folder: str) -> set[str]:
    path = place.joinpath("spark", *folder)
    return {name for name in os.listdir(path) if not name.startswith(".")} if path.exists() else set()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkpoint of five steps, four of them delivered; the queries changed at the fourth."""
    place = tmp_path / "checkpoint"
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    for seq in range(1, STEPS + 1):
        if seq in (1, 4):
            checkpoint.write_version(version_of(1 if seq == 1 else 2, seq))
        commit(checkpoint, step(seq))
        if seq < STEPS:
            checkpoint.mark_delivered(seq)
    spark_log(place, STEPS)
    return place


def test_entries_are_listed(place: Path) -> None:
    entries = list_entries(str(place))
    assert [entry.seq for entry in entries] == list(range(STEPS + 1))
    last = entries[-1]
    assert (last.kind, last.version, last.rows, last.files, last.bytes) == ("batch", 2, 50, 2, 14)
    assert (last.marks, last.left) == ({"windows:": 5_000_000}, False)
    assert [entry.delivered for entry in entries] == [None, True, True, True, True, False]
    assert last.written is not None and last.written > 1_700_000_000_000_000


def test_after_a_rollback_the_steps_that_were_left_are_marked(place: Path) -> None:
    roll_back(str(place), 3)
    entries = list_entries(str(place))
    assert [entry.seq for entry in entries if entry.left] == [4, 5]
    assert (entries[-1].kind, entries[-1].seq, entries[-1].rows) == ("rollback", 5, 30)


def test_a_stream_goes_on_from_an_older_step(place: Path) -> None:
    old = Checkpoint(str(place))
    old.claim()
    done = roll_back(str(place), 3)
    assert (done.to, done.first_left, done.last_left) == (3, 4, 5)
    with pytest.raises(LostTurn):
        old.publish(step(6))
    checkpoint = Checkpoint(str(place))
    last = checkpoint.last
    assert last is not None
    assert (last.seq, last.rewind, last.batch_id, last.stages) == (5, 3, 2, step(3).stages)
    assert checkpoint.undelivered() == [], "what was left is not delivered any more"
    version = checkpoint.version()
    assert version is not None and version.version == 1, "the queries are those of that step"
    start = checkpoint.claim()
    assert (start.rewind, start.seq) == (3, 5), "until a step has been made, sinks may have what was left"
    assert checkpoint.next_version() == 3
    checkpoint.write_version(version_of(3, 6))
    version = Checkpoint(str(place)).version()
    assert version is not None and version.version == 3, "the step that is made again is made with the same"
    entry = checkpoint.publish(step(6, stages=step(3).stages, batch_id=3, version=3))
    assert entry.rewind is None
    assert [e.seq for e in Checkpoint(str(place)).folder.line(entry) if e.is_step] == [6, 3, 2, 1]


def test_queries_of_a_step_that_was_never_made_do_not_come_back_after_a_rollback(place: Path) -> None:
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    checkpoint.write_version(version_of(3, 6))  # and then it crashed
    before = Checkpoint(str(place)).version()
    assert before is not None and before.version == 3
    roll_back(str(place), 3)
    again = Checkpoint(str(place))
    for _ in range(2):
        version = again.version()
        assert version is not None and version.version == 1
        again.claim()


def test_what_was_committed_and_not_delivered_before_the_step_is_delivered(place: Path) -> None:
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    commit(checkpoint, step(6))
    commit(checkpoint, step(7))
    spark_log(place, 7)
    roll_back(str(place), 6)
    again = Checkpoint(str(place))
    assert [entry.seq for entry in again.undelivered()] == [5, 6]
    again.claim()
    assert [entry.seq for entry in again.undelivered()] == [5, 6]
    assert (place / "answers" / f"{5:010}-0000-t.arrow").exists()


def test_all_states_of_the_last_steps_are_kept_after_a_rollback(place: Path) -> None:
    roll_back(str(place), 2)
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    assert len(os.listdir(place / "slices")) == STEPS
    for seq in range(STEPS + 1, STEPS + 31):
        checkpoint.mark_delivered(seq - 1)
        checkpoint.publish(step(seq, version=1))
    checkpoint.sweep()
    left = {int(name[:10]) for name in os.listdir(place / "slices")}
    assert not left & set(range(1, STEPS + 1)), "and no longer"


def test_sparks_log_is_cut(place: Path) -> None:
    done = roll_back(str(place), 3)
    assert (
        names(place, "offsets") == names(place, "commits") == names(place, "sources", "0") == {"0", "1", "2"}
    )
    assert names(place, "sources", "1") == {"0"}, "the first offsets of Kafka"
    assert done.removed == 6
    assert not (place / "spark" / "offsets" / ".4.crc").exists()
    checkpoint = Checkpoint(str(place))
    assert not checkpoint.is_done(3)


def test_a_batch_that_was_taken_in_parts_goes_on_where_it_was(place: Path) -> None:
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    commit(checkpoint, step(6, batch_id=5, taken=2))
    commit(checkpoint, step(7, batch_id=5))
    commit(checkpoint, step(8, batch_id=6, taken=1))
    spark_log(place, 7)
    with pytest.raises(
        CheckpointError, match=r"from step 6 .*: 'files/0000000005.json', .* not there any more"
    ):
        roll_back(str(place), 6)
    for batch in (5, 6):
        write(place / "files" / f"{batch:010}.json", "{}")
    roll_back(str(place), 6)
    assert names(place, "offsets") == {str(n) for n in range(6)}
    assert names(place, "commits") == {str(n) for n in range(5)}
    assert {name for name in os.listdir(place / "files") if name[0] != "."} == {"0000000005.json"}
    again = Checkpoint(str(place))
    assert (again.is_done(5), again.taken(5)) == (False, 2)


def test_a_log_that_was_put_together_is_refused_by_name(place: Path) -> None:
    shutil.rmtree(place / "spark")
    spark_log(place, STEPS, compacted=3)
    (place / "spark" / "sources" / "0" / "1").unlink()
    with pytest.raises(
        CheckpointError,
        match=r"from step 3 .*: 'spark/sources/0/1', .* put together with later ones in '3.compact'; choose",
    ):
        roll_back(str(place), 3)
    assert [entry.kind for entry in list_entries(str(place))].count("rollback") == 0, "nothing has happened"
    roll_back(str(place), 4)
    assert names(place, "sources", "0") == {"0", "2", "3.compact"}


def test_a_log_that_was_put_together_is_no_matter_while_its_parts_are_there(place: Path) -> None:
    shutil.rmtree(place / "spark")
    spark_log(place, STEPS, compacted=3)
    roll_back(str(place), 2)
    assert names(place, "sources", "0") == {"0", "1"}


def test_a_rollback_that_ended_half_way_is_done_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = manage.cut_log

    def broken(*arguments: object) -> object:
        whole = cut(*arguments)  # type: ignore[arg-type]
        return replace(whole, after=())

    monkeypatch.setattr(manage, "cut_log", broken)
    roll_back(str(place), 3)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="Spark is at batch 5"):
        Checkpoint(str(place)).is_done(5)
    roll_back(str(place), 3)
    assert names(place, "offsets") == {"0", "1", "2"}
    kinds = [entry.kind for entry in list_entries(str(place))]
    assert kinds.count("rollback") == 1


@pytest.mark.parametrize(
    ("damage", "to", "message"),
    [
        (lambda place: None, 9, r"has no step 9 to go on from; there are: 1, 2, 3, 4, 5$"),
        (lambda place: None, 5, "is at step 5 already"),
        (
            lambda place: (place / "slices" / f"{2:010}-0000-w-0-t.0.parquet").unlink(),
            3,
            r"cannot go on from step 3 .*: 'slices/0000000002-.*' is missing",
        ),
        (
            lambda place: (place / "registry" / f"{1:010}.json").unlink(),
            3,
            r"cannot go on from step 3 .*: 'registry/0000000001.json' is missing",
        ),
        (
            lambda place: (place / "spark" / "offsets" / "2").unlink(),
            3,
            r"cannot go on from step 3 .*: 'spark/offsets/2', .* is not there any more",
        ),
        (lambda place: (place / "weft.json").unlink(), 3, r"is not a checkpoint: there is no 'weft.json'"),
        (lambda place: shutil.rmtree(place / "manifests"), 3, "has no step yet"),
    ],
)
def test_what_cannot_be_is_refused(
    place: Path, damage: Callable[[Path], None], to: int, message: str
) -> None:
    damage(place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=message):
        roll_back(str(place), to)
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_a_copy_is_a_stream_of_its_own(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    entry = copy_checkpoint(str(place), str(target), 3)
    assert before == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    copy = Checkpoint(str(target))
    assert copy.last == entry
    assert copy.stream != Checkpoint(str(place)).stream
    assert (entry.seq, entry.batch_id, entry.stages, entry.delivered) == (3, 2, step(3).stages, 3)
    assert copy.undelivered() == []
    assert set(os.listdir(target / "slices")) == {f"{n:010}-0000-w-0-t.0.parquet" for n in (2, 3)}
    assert os.listdir(target / "registry") == ["0000000001.json"]
    assert names(target, "offsets") == names(target, "commits") == {"0", "1", "2"}
    assert (target / "spark" / "offsets" / ".2.crc").exists()
    identities = [json.loads((p / "spark" / "metadata").read_text())["id"] for p in (place, target)]
    assert identities[0] != identities[1], "Spark runs no two queries of one id at a time"
    copy.claim()
    copy.publish(step(4))
    assert roll_back(str(target), 3).to == 3
    assert copy_checkpoint(str(target), str(tmp_path / "copy of copy")).seq == 3


def test_the_last_step_is_copied_unless_said(place: Path, tmp_path: Path) -> None:
    assert copy_checkpoint(str(place), str(tmp_path / "copy")).seq == 5
    with pytest.raises(CheckpointError, match=r"copy' is not empty; choose"):
        copy_checkpoint(str(place), str(tmp_path / "copy"))
    with pytest.raises(CheckpointError, match="has no step 8"):
        copy_checkpoint(str(place), str(tmp_path / "other"), 8)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("golden", sorted((GOLDEN / "checkpoints").glob("format-*")), ids=lambda p: p.name)
def test_golden_checkpoints_are_listed_copied_and_taken_back(tmp_path: Path, golden: Path) -> None:
    place = tmp_path / "checkpoint"
    shutil.copytree(golden / "checkpoint", place)
    entries = [entry for entry in list_entries(str(place)) if entry.kind != "start"]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    assert all(entry.queries and entry.rows and entry.files for entry in entries)
    copy_checkpoint(str(place), str(tmp_path / "copy"))
    assert Checkpoint(str(tmp_path / "copy")).undelivered() == []
    if "format-3" in golden.name:
        roll_back(str(place), 1)
        last = Checkpoint(str(place)).last
        assert last is not None and (last.rewind, last.seq) == (1, len(entries))
