"""The Python of pages is checked at its own lines."""

from __future__ import annotations

from pathlib import Path

import page_types
import pytest


def test_blocks_of_a_page_are_one_module_at_their_lines() -> None:
    page = "# Page\n\n```python\nx = 1\n```\n\n```sql\nSELECT 1\n```\n\n```python\ny = x\n```\n"
    lines = page_types.module_of(page).split("\n")
    assert {number: line for number, line in enumerate(lines, 1) if line} == {4: "x = 1", 12: "y = x"}
    assert page_types.module_of("# Page\n\n```sql\nSELECT 1\n```\n") == ""


def test_an_error_names_the_page_and_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text('```python\nx = 1\n```\n\n```python\ny: int = "one"\n```\n')
    monkeypatch.setattr(page_types, "ROOT", tmp_path)
    assert page_types.main() == 1
    assert "README.md:6: error: Incompatible types" in capsys.readouterr().out
