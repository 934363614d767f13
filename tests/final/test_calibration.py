"""The file of measured costs: where it is, what happens without it, and when it is damaged or foreign."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.errors import JobError
from weft.final import calibration


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_COSTS", str(tmp_path / "new" / "costs.json"))
    return tmp_path / "new" / "costs.json"


def test_it_lies_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_COSTS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert calibration.path() == tmp_path / "weft" / "costs.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert calibration.path() == tmp_path / ".cache" / "weft" / "costs.json"
    monkeypatch.setenv("WEFT_COSTS", "elsewhere.json")
    assert calibration.path() == Path("elsewhere.json")


def test_what_was_stored_is_read(file: Path) -> None:
    assert calibration.stored("numbers", sum, default=0) == 0
    assert calibration.store({"numbers": [1, 2]}) == file
    assert calibration.stored("numbers", sum, default=0) == 3
    assert [each.name for each in file.parent.iterdir()] == ["costs.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("[1]", "not a file of costs in format 1"),
        (json.dumps({"format": 2, "numbers": [1]}), "not a file of costs in format 1"),
        (json.dumps({"format": 1}), "lacks 'numbers'"),
        (json.dumps({"format": 1, "numbers": ["one"]}), "unsupported operand"),
        (json.dumps({"format": 1, "numbers": None}), "not iterable"),
        (b"\xff\xfe", "codec can't decode"),
    ],
)
def test_a_damaged_or_foreign_file_is_ignored_with_a_warning(file: Path, text: str | bytes, why: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.warns(UserWarning, match=f"built-in ones used: .*{why}.*weft bench calibrate") as said:
        assert calibration.stored("numbers", sum, default=7) == 7
    assert str(file) in str(said[0].message)


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("WEFT_COSTS", str(tmp_path / "taken" / "costs.json"))
    with pytest.raises(JobError, match=r"cannot be written to .*; name another file by WEFT_COSTS"):
        calibration.store({})
