"""Final aggregation: windows from slices. One technique, one file; the engine finds them here.

A technique is built from a monoid and the states of consecutive slices (of many groups, one after the
other) and answers runs of them: ``answer(low, high)`` gives one state per run ``[low[k], high[k])``.
"""

from __future__ import annotations

from weft.errors import QueryError
from weft.final.bulk import Bulk
from weft.final.recompute import Recompute
from weft.final.technique import Technique


TECHNIQUES: dict[str, type[Technique]] = {t.name: t for t in (Recompute, Bulk)}


def technique(name: str) -> type[Technique]:
    """The technique of this name; ``auto`` is bulk.

    >>> technique("auto").name
    'bulk'
    """
    if name == "auto":
        return Bulk
    if name not in TECHNIQUES:
        raise QueryError(
            f"no technique is called {name!r}", hint=f"choose auto or one of {', '.join(TECHNIQUES)}"
        )
    return TECHNIQUES[name]


__all__ = ["TECHNIQUES", "Technique", "technique"]
