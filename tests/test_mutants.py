"""The seeded bugs themselves: each says what it is, and can still be planted (``make mutants`` hunts it)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))


def test_there_are_enough() -> None:
    assert len(PATCHES) >= 14


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no patch command")
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_seeded_bug_can_still_be_planted(patch: Path) -> None:
    first, blank, *_ = patch.read_text().splitlines()
    assert first.endswith(".") and not blank
    command = ["patch", "-p1", "--forward", "--dry-run", "--input", str(patch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"change {patch.name} as the code has changed: {done.stdout}"
