"""Constants: what the model's operations cost on a machine, in nanoseconds.

The defaults are of one core of a common server; ``store`` and ``load`` keep what was measured on another.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from weft.errors import JobError


@dataclass(frozen=True, slots=True)
class Constants:
    """Nanoseconds per row read and put in its slice, per combine, per window answered, per slice merged into
    a tree's own slice, and per predicate evaluated on a row.

    >>> Constants().row > Constants().combine
    True
    """

    row: float = 60.0
    combine: float = 6.0
    answer: float = 40.0
    merge: float = 15.0
    predicate: float = 2.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
                raise JobError(f"the constant {each.name!r} must be nanoseconds from 0, not {value!r}")

    def store(self, path: Path) -> None:
        """Write them as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, path: Path) -> Constants:
        """Read what ``store`` wrote; unknown names are refused, missing ones keep their default."""
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise JobError(f"the constants cannot be read from {path}: {error}") from error
        known = {each.name for each in fields(cls)}
        if not isinstance(values, dict) or not values.keys() <= known:
            raise JobError(f"{path} must hold an object with some of {', '.join(sorted(known))}")
        return cls(**values)
