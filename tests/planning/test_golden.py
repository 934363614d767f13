"""Golden plans: each file has a title, options, queries, and after a line of dashes the plan they must give.

To accept changed plans after reading them: ``WEFT_GOLDEN=accept pytest tests/planning/test_golden.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import weft
from support.places import GOLDEN

FOLDER = GOLDEN / "plans"
LINE = "-" * 40
READ = {"rate": float, "nodes": int, "capacities": lambda text: [float(c) for c in text.split()]}


def read(path: Path) -> tuple[str, dict[str, Any], str]:
    """The queries, the options of ``plan``, and the plan's text."""
    text, _, expected = path.read_text().partition(f"{LINE}\n")
    options: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("-- plan "):
            name, _, value = line.removeprefix("-- plan ").partition(": ")
            options[name] = READ.get(name, str)(value)
    return text, options, expected


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_plan(path: Path) -> None:
    text, options, expected = read(path)
    plan = f"{weft.plan(weft.sql(text), **options)}\n"
    if os.environ.get("WEFT_GOLDEN") == "accept":
        path.write_text(f"{text}{LINE}\n{plan}")
        return
    assert plan == expected


def test_there_are_golden_plans() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 5
