"""The parts that pictures of plans are made of: a canvas, boxes on a scale, texts, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, LINE, HEAD = 1000, 190, 20, 16, 46
MOST_LINES = 24
"""Lines that are drawn of one tree or chain."""


def box(start: float, end: float, y: int, scale: float, kind: str, title: str) -> str:
    """Draw a box from one place of the scale to another."""
    x, width = LEFT + start * scale, (end - start) * scale
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 4}">'
        f"<title>{escape(title)}</title></rect>"
    )


def text(x: int, y: int, words: str, kind: str = "", title: str = "") -> str:
    """Write words."""
    more = f"<title>{escape(title)}</title>" if title else ""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}{more}</text>'


def short(name: str) -> str:
    """Return a name as it fits beside a line.

    >>> short("a_very_long_name")
    'a_very_long_n…'
    """
    return name if len(name) <= 14 else name[:13] + "…"


def few(names: Sequence[str]) -> str:
    """The first few of some names.

    >>> few(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, its columns under each other."""
    widths = [max(len(row[c]) for row in table) for c in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
