"""The benchmark's plots, in the shape of the papers' figures, as SVG."""

from __future__ import annotations

from pathlib import Path

from weft.bench import Result


def draw(result: Result, folder: Path) -> list[Path]:
    """Write the plots into a folder; the files written."""
    return []
