"""Figures of a paper beside those measured here."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table


def beside(title: str, lines: Iterable[tuple[str, object, object]]) -> Table:
    """A table of (what, the paper's, ours)."""
    shown = Table(title=title)
    for heading, side in (("", "left"), ("paper", "right"), ("ours", "right")):
        shown.add_column(heading, justify=side)
    for what, paper, ours in lines:
        shown.add_row(what, _text(paper), _text(ours))
    return shown


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)
