"""Layouts: what the state of one version of a stream's queries looks like, as plain data.

Versions number predicates, groupings and parts as they like; what the numbers mean is written down as text,
the same in every process, so that state can be carried from any version to any other by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from weft.aggregates import Part
from weft.query_json import canonical

Named: TypeAlias = tuple[str, tuple[str, ...], str | None, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """One grouping: axis, keys, predicate and beginning, and its parts with the number of their columns."""

    axis: str
    keys: tuple[str, ...]
    predicate: str | None
    since: int
    parts: tuple[tuple[str, int], ...]

    @property
    def name(self) -> Named:
        """What tells groupings apart."""
        return self.axis, self.keys, self.predicate, self.since

    @property
    def columns(self) -> dict[str, range]:
        """Where the columns of each part are in a table of partials."""
        found, at = {}, len(self.keys) + 3
        for name, width in self.parts:
            found[name] = range(at, at + width)
            at += width
        return found


@dataclass(frozen=True, slots=True)
class Layout:
    """The predicates in the order of their bits, and the groupings in the order of their numbers.

    >>> layout = Layout(("null",), (Shape("time", ("symbol",), None, 0, (("count(*)", 1),)),))
    >>> Layout.from_dict(layout.to_dict()) == layout
    True
    """

    predicates: tuple[str, ...]
    groupings: tuple[Shape, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Layout:
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
    """What tells parts apart."""
    words = ", ".join(f"{name} {word.value}" for name, word in part.words)
    return f"{part.kind}({', '.join(map(canonical, part.args))}) of {', '.join(part.types)}: {words}"
