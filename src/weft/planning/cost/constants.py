"""Constants: what the model's operations cost on a machine, in nanoseconds.

The defaults are of one core of a common server; ``constants`` gives those of this machine.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache

from weft.errors import JobError
from weft.final.calibration import stored


@dataclass(frozen=True, slots=True)
class Constants:
    """Nanoseconds per row read and put in its slice, per combine, per window answered, per slice merged into
    a tree's own slice, and per predicate evaluated on a row.

    >>> Constants().row > Constants().combine
    True
    """

    row: float = 15.0
    combine: float = 6.0
    answer: float = 80.0
    merge: float = 11.0
    predicate: float = 2.0

    def __post_init__(self) -> None:
        for constant in fields(self):
            value = getattr(self, constant.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
                raise JobError(f"the constant {constant.name!r} must be nanoseconds from 0, not {value!r}")


@cache
def constants() -> Constants:
    """Return the constants measured on this machine by ``weft bench calibrate``, or the defaults."""
    return stored("constants", lambda section: Constants(**section), Constants())
