"""Layouts: what the state of one version of a stream's queries looks like, as plain data.

Versions number predicates, groupings and parts as they like; what the numbers mean is written down as text,
the same in every process, so that state can be carried from any version to any other by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from weft.aggregates import Part
from weft.model.as_data import canonical

ShapeName: TypeAlias = tuple[str, tuple[str, ...], str | None, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """One grouping: axis, keys, predicate and beginning, and its parts with the number of their columns."""

    axis: str
    keys: tuple[str, ...]
    predicate: str | None
    since: int
    parts: tuple[tuple[str, int], ...]

    @property
    def name(self) -> ShapeName:
        """Return what tells groupings apart."""
        return self.axis, self.keys, self.predicate, self.since

    @property
    def columns(self) -> dict[str, range]:
        """Return where the columns of each part are in a table of partials."""
        columns, at = {}, len(self.keys) + 3
        for name, width in self.parts:
            columns[name] = range(at, at + width)
            at += width
        return columns


@dataclass(frozen=True, slots=True)
class WindowLayout:
    """The predicates in the order of their bits, and the groupings in the order of their numbers.

    >>> layout = WindowLayout(("null",), (Shape("time", ("symbol",), None, 0, (("count(*)", 1),)),))
    >>> WindowLayout.from_dict(layout.to_dict()) == layout
    True
    """

    predicates: tuple[str, ...]
    groupings: tuple[Shape, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WindowLayout:
        """The layout behind ``to_dict``."""
        shapes = (
            Shape(
                g["axis"],
                tuple(g["keys"]),
                g["predicate"],
                g["since"],
                tuple((name, width) for name, width in g["parts"]),
            )
            for g in data["groupings"]
        )
        return cls(tuple(data["predicates"]), tuple(shapes))


def part_text(part: Part) -> str:
    """Return a text that tells parts apart."""
    words = ", ".join(f"{name} {word.value}" for name, word in part.words)
    return f"{part.kind}({', '.join(map(canonical, part.args))}) of {', '.join(part.types)}: {words}"
