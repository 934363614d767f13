"""Notes of positions: whole or refused, and deleted only by the driver whose turn it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft.errors import CheckpointError
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry
from weft.store.positions import CheckpointPositions, note_name


def opened(place: Path) -> Checkpoint:
    checkpoint = Checkpoint(str(place))
    checkpoint.claim()
    return checkpoint


def note(checkpoint: Checkpoint, data: bytes, seq: int) -> str:
    """Write a note, and a step whose position names it."""
    name = note_name(data)
    CheckpointPositions(checkpoint).write(name, data)
    offsets = {"trades": {"seen": [], "open": [name], "file": 0, "rows": 0}}
    checkpoint.publish(Entry(seq, f"t{seq}", "batch", version=1, buckets=1, offsets=offsets))
    return name


def flip(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


@pytest.mark.parametrize("damage", [lambda _: b"", lambda data: data[: len(data) // 2], flip])
def test_a_damaged_note_is_refused_and_its_file_named(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    checkpoint = opened(tmp_path)
    data = b'{"files": [["a.parquet", 1, 2]]}'
    name = note(checkpoint, data, 1)
    positions = CheckpointPositions(checkpoint)
    assert positions.read(name) == data
    (tmp_path / "positions" / name).write_bytes(damage(data))
    with pytest.raises(CheckpointError, match=f"{name}' is damaged; .*restore it from a backup"):
        positions.read(name)


def test_notes_that_no_entry_names_are_swept(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path)
    name = note(checkpoint, b"kept", 1)
    CheckpointPositions(checkpoint).write(note_name(b"left"), b"left")
    CheckpointPositions(checkpoint).sweep()
    assert [path.name for path in (tmp_path / "positions").iterdir()] == [name]


@pytest.mark.parametrize("moment", ["names", "kept_entries"])
def test_a_driver_that_lost_its_turn_while_it_sweeps_deletes_no_note_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    first = opened(tmp_path)
    note(first, b"one", 1)
    owner = first.folder if moment == "names" else first
    real, names = getattr(owner, moment), list[str]()

    def taken_over(*arguments: object) -> object:
        result = real(*arguments)
        if not names:
            names.append(note(opened(tmp_path), b"two", 2))
        return result

    monkeypatch.setattr(owner, moment, taken_over)
    CheckpointPositions(first).write(note_name(b"left"), b"left")
    CheckpointPositions(first).sweep()
    assert {*names, note_name(b"one")} <= {path.name for path in (tmp_path / "positions").iterdir()}
