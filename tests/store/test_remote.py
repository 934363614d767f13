"""A checkpoint on a store without renames or conditional writes: what can be noticed is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from weft.store import checkpoint as module
from weft.store.checkpoint import Checkpoint, LostTurn
from weft.store.log import Entry


@pytest.fixture(autouse=True)
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file system is one that only looks like a local one: nothing is linked or renamed."""

    def resolve(place: str) -> tuple[fs.FileSystem, str]:
        return fs.SubTreeFileSystem("/", fs.LocalFileSystem()), str(place)

    for name in ("folder", "version_file", "state_files"):
        monkeypatch.setattr(f"weft.store.{name}.resolve", resolve)


def step(seq: int, token: str = "") -> Entry:
    return Entry(seq, token, "batch", seq - 1, 1, 1)


def test_a_stream_is_kept_as_anywhere(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.claim()
    for seq in (1, 2):
        checkpoint.publish(step(seq))
    assert checkpoint.still_mine()
    again = Checkpoint(str(tmp_path))
    assert again.last == checkpoint.last
    again.claim()
    with pytest.raises(LostTurn):
        checkpoint.publish(step(3))


def test_a_driver_whose_entry_was_replaced_delivers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look, both see that the number is free, both write: the later one has the turn."""
    first = Checkpoint(str(tmp_path))
    first.claim()
    second = Checkpoint(str(tmp_path))
    write = module.write_atomically

    def raced(system: Any, path: str, data: bytes, *, replace: bool) -> None:
        monkeypatch.setattr(module, "write_atomically", write)
        first.publish(step(1, "first"))
        write(system, path, data, replace=True)  # it had looked before

    monkeypatch.setattr(module, "write_atomically", raced)
    start = second.claim()
    assert start.seq == 0
    assert second.still_mine()
    assert not first.still_mine()
    with pytest.raises(LostTurn):
        first.check_turn()
    with pytest.raises(LostTurn):
        first.publish(step(2))


def test_a_driver_whose_entry_is_replaced_while_it_writes_notices_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Checkpoint(str(tmp_path)), Checkpoint(str(tmp_path))
    first.claim()
    second._open()
    start = second._start()
    write = module.write_atomically

    def raced(system: Any, path: str, data: bytes, *, replace: bool) -> None:
        write(system, path, data, replace=replace)
        write(system, path, start.to_json(), replace=True)

    monkeypatch.setattr(module, "write_atomically", raced)
    with pytest.raises(LostTurn):
        first.publish(step(1))


class RenamingSystem:
    """A file system like HDFS: a rename to a name that is taken fails."""

    type_name = "hdfs"

    def __init__(self) -> None:
        self.local = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.local, name)

    def move(self, source: str, target: str) -> None:
        Path(target).write_text("another")  # between the look and the rename
        raise OSError(f"cannot rename {source}")


def test_a_name_that_is_taken_while_it_is_written_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "entry.json"
    with pytest.raises(FileExistsError):
        module.write_atomically(RenamingSystem(), str(path), b"mine", replace=False)
    assert [file.name for file in tmp_path.iterdir()] == ["entry.json"]
    assert path.read_text() == "another"
