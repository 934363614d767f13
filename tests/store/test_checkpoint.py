"""The checkpoint: one driver at a time, what is committed, what is delivered, and how it stays small."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from support.places import GOLDEN
from weft.errors import CheckpointError
from weft.store.checkpoint import Checkpoint, LostTurn
from weft.store.log import AnswerFile, Entry, StageState, StateFile, StateLayer
from weft.store.manage import roll_back
from weft.store.sweeping import KEPT_STEPS
from weft.store.version_file import QueryVersion, StageVersion

DAMAGE = [b"", b"{", b'{"format": 1, "crc": 1}', b"[]"]


def step(seq: int, *files: str, answers: Sequence[str] = (), version: int = 1, token: str = "") -> Entry:
    """A step of one bucket, whose state is made of these files."""
    state = tuple(
        StateLayer(seq, seq, (StateFile(f, "0", 1, 1, 1, 1, 1),), int(f[0] if f[0].isdigit() else 1) and 1)
        for f in files
    )
    return Entry(
        seq,
        token or f"t{seq}",
        "batch",
        batch_id=seq - 1,
        version=version,
        buckets=1,
        stages={"windows:": StageState({"": None}, (state,))},
        answers=tuple(AnswerFile(name, 0, 1, 1, 1) for name in answers),
    )


def version_of(number: int, seq: int) -> QueryVersion:
    return QueryVersion(number, seq, {}, (), (), {"windows:": StageVersion({"v": number})}, {}, {})


def opened(place: Path) -> Checkpoint:
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    return checkpoint


def touch(place: Path, folder: str, *names: str) -> None:
    for name in names:
        (place / folder / name).write_text("content")


def there(place: Path, folder: str) -> set[str]:
    return set(os.listdir(place / folder))


def state_file(seq: int, token: str = "t") -> str:
    return f"{seq:010}-0000-windows_3a-0-{token}.0.parquet"


def answer_file(seq: int, token: str = "t") -> str:
    return f"{seq:010}-0000-{token}.arrow"


def test_a_checkpoint_opens_where_it_was(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert (checkpoint.last, checkpoint.is_done(0)) == (None, False)
    start = checkpoint.claim()
    assert (start.entry, start.seq, start.epoch, start.kind, start.batch_id) == (1, 0, 1, "start", -1)
    for seq in (1, 2):
        checkpoint.publish(step(seq))
    again = Checkpoint(str(tmp_path))
    assert (
        again.last
        == checkpoint.last
        == replace(step(2), entry=3, epoch=1, driver=checkpoint.driver, parent=2)
    )
    assert again.stream == checkpoint.stream
    assert [again.is_done(batch_id) for batch_id in (0, 1, 2)] == [True, True, False]
    start = again.claim()
    assert (start.entry, start.seq, start.epoch, start.parent) == (4, 2, 2, 3)
    assert (start.token, start.stages) == ("t2", step(2).stages)


def test_a_step_must_follow(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    with pytest.raises(ValueError, match="step 2 does not follow step 0"):
        checkpoint.publish(step(2))
    with pytest.raises(LostTurn):
        Checkpoint(str(tmp_path)).publish(step(1))


def test_a_driver_that_was_replaced_does_nothing_any_more(tmp_path: Path) -> None:
    old = opened(tmp_path)
    old.publish(step(1, answers=[answer_file(1)]))
    assert old.still_mine()
    new = opened(tmp_path)
    touch(tmp_path, "slices", state_file(1, "unnamed"))
    touch(tmp_path, "answers", answer_file(1, "unnamed"))
    assert not old.still_mine()
    with pytest.raises(LostTurn, match=rf"another run has taken over checkpoint '{tmp_path}'; .* delivered"):
        old.check_turn()
    with pytest.raises(LostTurn):
        old.publish(step(2))
    with pytest.raises(LostTurn):
        old.write_version(version_of(1, 2))
    old.mark_delivered(1)
    old.sweep()
    old.close()
    assert not (tmp_path / "delivered.json").exists()
    assert there(tmp_path, "slices") and there(tmp_path, "answers") and not there(tmp_path, "registry")
    new.publish(step(2))
    assert Checkpoint(str(tmp_path)).last == new.last


def test_a_driver_that_wakes_when_its_number_has_been_swept_is_noticed(tmp_path: Path) -> None:
    old = opened(tmp_path)
    old.publish(step(1))
    new = opened(tmp_path)
    for seq in range(2, 40):
        new.mark_delivered(seq - 1)
        new.publish(step(seq))
    assert not (tmp_path / "manifests" / "0000000003.json").exists(), "the old driver's next number is free"
    with pytest.raises(LostTurn):
        old.publish(step(2, token="stale"))
    assert not old.still_mine()
    assert Checkpoint(str(tmp_path)).last == new.last
    third = opened(tmp_path)
    assert not (tmp_path / "manifests" / "0000000003.json").exists(), "what it wrote is swept away"
    assert third.last is not None and third.last.seq == 39


def test_an_entry_whose_acknowledgement_was_lost_is_published_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = opened(tmp_path)
    from weft.store import checkpoint as module

    write = module.write_atomically

    def lost(*arguments: object, **options: object) -> None:
        write(*arguments, **options)  # type: ignore[arg-type]
        raise OSError("connection lost")

    monkeypatch.setattr(module, "write_atomically", lost)
    with pytest.raises(CheckpointError, match=r"cannot write .*connection lost.*next run finds out"):
        checkpoint.publish(step(1))
    assert not checkpoint.still_mine()
    monkeypatch.undo()
    again = Checkpoint(str(tmp_path))
    assert again.last is not None and again.last.seq == 1


class Turns:
    """Two drivers that each claim, then make steps; what the stream has in the end is as if of one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.drivers: dict[str, Checkpoint] = {}
        self.committed: list[tuple[int, str]] = []

    def act(self, name: str, action: str) -> None:
        if action == "open":
            self.drivers[name] = Checkpoint(str(self.place))
        elif action == "claim":
            self.drivers[name].claim()
        else:
            driver = self.drivers[name]
            assert driver.last is not None
            seq = driver.last.seq + 1
            try:
                driver.publish(step(seq, token=name))
            except LostTurn:
                assert not driver.still_mine()
            else:
                self.committed.append((seq, name))


@pytest.mark.parametrize("mine", sorted(set(itertools.permutations("AAAABBBB"))), ids="".join)
def test_every_interleaving_of_two_drivers_is_as_one(tmp_path: Path, mine: tuple[str, ...]) -> None:
    turns = Turns(tmp_path)
    actions = {name: iter(["open", "claim", "publish", "publish"]) for name in "AB"}
    claimed = ""
    for name in mine:
        action = next(actions[name])
        turns.act(name, action)
        claimed = name if action == "claim" else claimed
        for other, driver in turns.drivers.items():
            assert driver.still_mine() == (other == claimed), "the one who claimed last has the turn"
    seqs = [seq for seq, _ in turns.committed]
    assert seqs == list(range(1, len(seqs) + 1)), "no step is lost, none is there twice"
    last = Checkpoint(str(tmp_path)).last
    assert last is not None
    line = list(Checkpoint(str(tmp_path)).folder.line(last))
    assert [(e.seq, e.token) for e in reversed(line) if e.is_step] == turns.committed
    assert len({e.epoch for e in line if e.kind == "start"}) == len([e for e in line if e.kind == "start"])


def test_a_gap_is_refused(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.publish(step(1))
    with pytest.raises(CheckpointError, match=r"Spark is at batch 3, but .* no manifest of batch 2"):
        checkpoint.is_done(3)


def test_a_batch_that_is_taken_in_parts_is_not_done(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.publish(replace(step(1), taken=7))
    assert (checkpoint.is_done(0), checkpoint.taken(0), checkpoint.taken(1)) == (False, 7, 0)
    with pytest.raises(CheckpointError, match="Spark is at batch 1"):
        checkpoint.is_done(1)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_manifest_is_stepped_over_once(tmp_path: Path, damage: bytes) -> None:
    checkpoint = opened(tmp_path)
    for seq in (1, 2, 3):
        checkpoint.publish(step(seq))
    newest = tmp_path / "manifests" / "0000000004.json"
    newest.write_bytes(damage)
    again = Checkpoint(str(tmp_path))
    assert again.last is not None and again.last.seq == 2
    assert not again.is_done(2), "Spark has not finished batch 2 either, and gives it again"
    with pytest.raises(CheckpointError, match="Spark is at batch 3"):
        again.is_done(3)
    start = again.claim()
    assert (start.entry, start.parent, start.epoch) == (5, 3, 3), "nobody knows the epoch of the damaged one"
    again.publish(step(3, token="again"))
    last = Checkpoint(str(tmp_path)).last
    assert last is not None and (last.seq, last.token, last.entry) == (3, "again", 6)
    for number in (5, 6):
        (tmp_path / "manifests" / f"{number:010}.json").write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"newest manifests .* are damaged; restore"):
        Checkpoint(str(tmp_path))


@pytest.mark.parametrize("marked", [False, True])
def test_a_step_before_a_damaged_one_can_be_delivered_again(tmp_path: Path, marked: bool) -> None:
    checkpoint = opened(tmp_path)
    for seq in (1, 2, 3):
        touch(tmp_path, "answers", answer_file(seq))
        checkpoint.write_clock(seq, {"now": seq})
        checkpoint.publish(step(seq, answers=[answer_file(seq)]))
        checkpoint.mark_delivered(seq)
    if marked:
        checkpoint.close()
    (tmp_path / "manifests" / "0000000004.json").write_bytes(b"{")
    again = opened(tmp_path)
    assert again.delivered == (2 if marked else 1)
    waiting = [] if marked else [2]
    assert [entry.seq for entry in again.undelivered()] == waiting
    assert all((tmp_path / "answers" / answer_file(seq)).exists() for seq in waiting)
    assert again.write_clock(3, {"now": 99}) == {"now": 3}, "the step made again decides the same"


def test_a_manifest_of_another_version_is_not_stepped_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.publish(step(1))
    monkeypatch.setattr("weft.store.sealed.FORMAT", 99)
    checkpoint.publish(step(2))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="another version of weft"):
        Checkpoint(str(tmp_path))


@pytest.mark.parametrize("closed", [False, True])
def test_what_may_not_have_been_delivered_is_delivered_again(tmp_path: Path, closed: bool) -> None:
    checkpoint = opened(tmp_path)
    for seq in range(1, 6):
        touch(tmp_path, "answers", answer_file(seq))
        checkpoint.publish(step(seq, answers=[answer_file(seq)] if seq != 4 else []))
        if seq < 4:
            checkpoint.mark_delivered(seq)
    if closed:
        checkpoint.mark_delivered(5)
        checkpoint.close()
    again = Checkpoint(str(tmp_path))
    waiting = [] if closed else [5]
    assert [entry.seq for entry in again.undelivered()] == waiting
    again.claim()
    assert [entry.seq for entry in again.undelivered()] == waiting
    assert all((tmp_path / "answers" / answer_file(seq)).exists() for seq in waiting)
    third = opened(tmp_path)
    assert [entry.seq for entry in third.undelivered()] == waiting
    assert [entry.seq for entry in Checkpoint(str(tmp_path)).undelivered()] == waiting


def test_steps_that_nobody_could_deliver_are_kept_however_many(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for seq in range(1, 31):
        touch(tmp_path, "answers", answer_file(seq))
        checkpoint.publish(step(seq, answers=[answer_file(seq)]))
    again = opened(tmp_path)
    assert [entry.seq for entry in again.undelivered()] == list(range(1, 31))
    assert len(there(tmp_path, "answers")) == 30
    again.mark_delivered(30)
    for seq in (31, 32, 33):
        again.publish(step(seq))
        again.mark_delivered(seq)
    assert there(tmp_path, "answers") == set()
    assert len(there(tmp_path, "manifests")) <= KEPT_STEPS + 2


def test_a_missing_manifest_of_a_step_that_may_not_have_been_delivered_is_said(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for seq in (1, 2):
        checkpoint.publish(step(seq, answers=[answer_file(seq)]))
    (tmp_path / "manifests" / "0000000002.json").unlink()
    with pytest.raises(CheckpointError, match=r"manifest 2 of checkpoint .* may not have been delivered"):
        Checkpoint(str(tmp_path)).undelivered()


def test_a_damaged_note_of_what_was_delivered_only_delivers_again(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.publish(step(1, answers=[answer_file(1)]))
    checkpoint.mark_delivered(1)
    checkpoint.close()
    assert Checkpoint(str(tmp_path)).undelivered() == []
    (tmp_path / "delivered.json").write_text("{")
    assert [entry.seq for entry in Checkpoint(str(tmp_path)).undelivered()] == [1]


@pytest.mark.parametrize("to", [None, 1])
def test_a_step_made_again_in_the_place_of_a_damaged_one_is_not_taken_for_delivered(
    tmp_path: Path, to: int | None
) -> None:
    """The note of a clean end named step 3, whose manifest was damaged; step 3 of the next run was lost."""
    checkpoint = opened(tmp_path)
    checkpoint.write_version(version_of(1, 1))
    for seq in (1, 2, 3):
        checkpoint.publish(step(seq, answers=[answer_file(seq)]))
        checkpoint.mark_delivered(seq)
    checkpoint.close()
    (tmp_path / "manifests" / "0000000004.json").write_bytes(b"{")
    if to is not None:
        roll_back(str(tmp_path), to)
    opened(tmp_path).publish(step(3, answers=[answer_file(3, "again")]))  # killed before it delivers
    again = opened(tmp_path)
    assert [file.name for entry in again.undelivered() for file in entry.answers] == [answer_file(3, "again")]
    again.mark_delivered(3)
    again.close()
    assert Checkpoint(str(tmp_path)).undelivered() == []


def test_the_state_of_the_last_steps_is_kept_and_no_more(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for seq in range(1, 41):
        names = [state_file(n) for n in range(max(1, seq - 1), seq + 1)]
        touch(tmp_path, "slices", state_file(seq))
        touch(tmp_path, "answers", answer_file(seq))
        checkpoint.publish(step(seq, *names, answers=[answer_file(seq)]))
        checkpoint.mark_delivered(seq)
    kept = {state_file(seq) for seq in range(40 - KEPT_STEPS, 41)}
    assert there(tmp_path, "slices") == kept
    assert there(tmp_path, "answers") == {answer_file(39), answer_file(40)}
    assert len(there(tmp_path, "manifests")) == KEPT_STEPS
    opened(tmp_path)
    assert there(tmp_path, "slices") == kept


def test_files_of_attempts_that_failed_are_swept_away(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    touch(tmp_path, "slices", state_file(1, "good"), state_file(1, "failed"), state_file(2, "running"))
    touch(tmp_path, "answers", answer_file(1, "good"), answer_file(1, "failed"), answer_file(2, "running"))
    checkpoint.publish(step(1, state_file(1, "good"), answers=[answer_file(1, "good")]))
    opened(tmp_path)
    assert there(tmp_path, "slices") == {state_file(1, "good"), state_file(2, "running")}
    assert there(tmp_path, "answers") == {answer_file(1, "good"), answer_file(2, "running")}


def test_nothing_is_swept_while_an_entry_cannot_be_read(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for seq in (1, 2):
        touch(tmp_path, "slices", state_file(seq))
        checkpoint.publish(step(seq, state_file(seq)))
    (tmp_path / "manifests" / "0000000003.json").write_bytes(b"{")
    opened(tmp_path)
    assert there(tmp_path, "slices") == {state_file(1), state_file(2)}


def test_starts_that_no_step_has_followed_do_not_pile_up(tmp_path: Path) -> None:
    opened(tmp_path).publish(step(1))
    for _ in range(30):
        last = opened(tmp_path).last
    assert last is not None and (last.entry, last.epoch, last.parent) == (32, 31, 2)
    assert len(there(tmp_path, "manifests")) == 3


@pytest.mark.parametrize(
    "stray",
    [
        "manifests/12abc.json",
        "manifests/12.json",
        "manifests/0000000009 (copy).json",
        "manifests/\u0663\u0663.json",
        "registry/7 old.json",
        "slices/12abc.parquet",
        "slices/9.parquet",
        "answers/9.arrow",
    ],
)
def test_files_that_are_not_the_stores_own_are_left_alone(tmp_path: Path, stray: str) -> None:
    opened(tmp_path).publish(step(1))
    (tmp_path / stray).write_text("not ours")
    again = opened(tmp_path)
    assert again.last is not None and again.last.seq == 1
    again.publish(step(2))
    again.sweep()
    assert again.next_version() == 2
    assert (tmp_path / stray).read_text() == "not ours"


def test_the_version_of_the_next_step_is_found(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    assert (checkpoint.version(), checkpoint.next_version()) == (None, 1)
    for number, seq in ((1, 1), (2, 2), (3, 3)):
        checkpoint.write_version(version_of(number, seq))
    assert checkpoint.version() == replace(version_of(1, 1), epoch=1), "as after a crash before a commit"
    checkpoint.publish(step(1))
    again = opened(tmp_path)
    found = again.version()
    assert found is not None and found.version == 2
    assert again.next_version() == 4, "a number is never given twice"
    with pytest.raises(CheckpointError, match="another run has changed the queries"):
        again.write_version(version_of(1, 2))
    assert again.layout(1, "windows:") == {"v": 1}
    assert again.layout(1, "windows:named") == {"v": 1}, "the only stream may get a name"
    with pytest.raises(CheckpointError, match=r"version 1 of checkpoint .* has no state of 'joins'"):
        again.layout(1, "joins")


def test_a_step_without_changes_goes_on_with_its_queries(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.write_version(version_of(1, 1))
    for seq in (1, 2, 3):
        checkpoint.publish(step(seq))
    found = Checkpoint(str(tmp_path)).version()
    assert found is not None and found.version == 1


def test_versions_that_no_layer_needs_are_swept_away(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    for number in (1, 2, 3, 4):
        checkpoint.write_version(version_of(number, number))
    checkpoint.publish(step(1, state_file(1)))
    checkpoint.publish(step(2, state_file(1), version=3))
    opened(tmp_path)
    left = sorted(int(p.stem) for p in (tmp_path / "registry").iterdir())
    assert left == [1, 3, 4], "that of the layer, of the last step, and of the next"


def test_a_damaged_version_is_said(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    checkpoint.write_version(version_of(1, 1))
    path = tmp_path / "registry" / "0000000001.json"
    path.write_text(path.read_text().replace('"seq": 1', '"seq": 2'))
    with pytest.raises(CheckpointError, match=r"damaged, .*its checksum does not match; restore"):
        checkpoint.version()
    path.unlink()
    checkpoint.publish(step(1))
    with pytest.raises(CheckpointError, match=r"queries of checkpoint .* are missing"):
        checkpoint.version()


def test_the_first_clock_of_a_step_counts(tmp_path: Path) -> None:
    assert opened(tmp_path).write_clock(1, {"now": 7}) == {"now": 7}
    again = opened(tmp_path)
    assert again.write_clock(1, {"now": 9}) == {"now": 7}
    (tmp_path / "clocks" / "0000000001.json").write_text("{")
    with pytest.raises(CheckpointError, match="remove it, and the step is made by the clock of now"):
        again.write_clock(1, {"now": 9})


def test_a_place_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("here")
    with pytest.raises(CheckpointError, match=r"cannot use .*file' as checkpoint"):
        Checkpoint(str(file))
    with pytest.raises(CheckpointError, match="choose a directory"):
        Checkpoint("/proc/weft")


def test_a_stream_without_its_name_is_refused(tmp_path: Path) -> None:
    opened(tmp_path)
    (tmp_path / "weft.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"weft.json' is damaged; restore"):
        Checkpoint(str(tmp_path))
    (tmp_path / "weft.json").unlink()
    with pytest.raises(CheckpointError, match=r"weft.json' is missing; restore"):
        Checkpoint(str(tmp_path))


GOLDEN_CHECKPOINTS = sorted((GOLDEN / "checkpoints").glob("format-*"))


@pytest.mark.parametrize("golden", GOLDEN_CHECKPOINTS, ids=lambda path: path.name)
def test_golden_checkpoints_go_on(tmp_path: Path, golden: Path) -> None:
    place = tmp_path / "checkpoint"
    shutil.copytree(golden / "checkpoint", place)
    before = there(place, "slices")
    checkpoint = Checkpoint(str(place))
    assert checkpoint.last is not None and checkpoint.undelivered() == []
    old = checkpoint.last
    start = checkpoint.claim()
    assert (start.seq, start.stages) == (old.seq, old.stages)
    assert (start.entry, start.epoch) == (old.entry + 1, old.epoch + 1)
    assert there(place, "slices") == before
    checkpoint.publish(replace(old, seq=old.seq + 1, kind="batch", batch_id=old.batch_id + 1))
    last = Checkpoint(str(place)).last
    assert last is not None and (last.seq, last.delivered) == (old.seq + 1, old.seq)
