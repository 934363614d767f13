"""Windows: range, slide and offset, in time or counted in rows."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import QueryError
from weft.model.bounds import MAX_DURATION, MAX_WINDOW_ROWS, MAX_WINDOWS_PER_ROW


@dataclass(frozen=True, slots=True)
class Window:
    """Instance k is ``[offset + k*slide, offset + k*slide + range)``, in microseconds since the epoch.

    Or, where ``rows``, in rows of a group that satisfy the predicate, numbered from 0 in order of event time.

    >>> Window(range=12, slide=5, offset=-12).offset          # kept in [0, slide)
    3
    """

    range: int
    slide: int
    offset: int = 0
    rows: bool = False

    def __post_init__(self) -> None:
        unit, least, most = (
            ("rows", "1 row", "1e12 rows") if self.rows else ("µs", "1 microsecond", "100 years")
        )
        for name in ("range", "slide"):
            if getattr(self, name) <= 0:
                raise QueryError(
                    f"the window's {name} must be positive, not {getattr(self, name)} {unit}",
                    hint=f"give a {name} of at least {least}",
                )
            if getattr(self, name) > (MAX_WINDOW_ROWS if self.rows else MAX_DURATION):
                raise QueryError(
                    f"the window's {name} is longer than {most}",
                    hint=f"give a shorter {name}",
                )
        if self.range // self.slide > MAX_WINDOWS_PER_ROW:
            raise QueryError(
                f"each {'row' if self.rows else 'instant'} would be in {self.range // self.slide:,} windows "
                "(range / slide)",
                hint=f"the most is {MAX_WINDOWS_PER_ROW:,}: take a longer slide or a shorter range",
            )
        object.__setattr__(self, "offset", self.offset % self.slide)

    @classmethod
    def ending_at_multiples(cls, size: int, slide: int, offset: int = 0, rows: bool = False) -> Window:
        """The window of the papers and of CQL, whose instances *end* at multiples of the slide."""
        return cls(size, slide, offset - size, rows)
