"""The groups of a query with their latest answers: there may be many, so they are found and paged here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import QueryError
from weft.model.instants import python_rows
from weft.web.filters import text


@dataclass(frozen=True)
class Groups:
    """The newest row of each group among a query's latest results.

    >>> table = pa.table({"k": ["b", "a", "b"], "window_end": [1, 1, 2], "n": [5, 6, 7]})
    >>> groups = Groups(table, ("k",))
    >>> groups.newest.to_pylist()
    [{'k': 'a', 'window_end': 1, 'n': 6}, {'k': 'b', 'window_end': 2, 'n': 7}]
    >>> groups.page("B", "", 0, 10)[1].column("n").to_pylist()
    [7]
    """

    results: pa.Table = field(repr=False)
    keys: Sequence[str]

    @cached_property
    def newest(self) -> pa.Table:
        """One row per group, in order of the keys."""
        rows = self.results.num_rows
        if not self.keys or not rows:
            return self.results.slice(max(0, rows - 1))
        at = "at" * (1 + max(map(len, self.keys)))
        numbered = self.results.select(list(self.keys)).append_column(at, pa.array(np.arange(rows)))
        last = numbered.group_by(list(self.keys)).aggregate([(at, "max")]).column(f"{at}_max")
        newest = self.results.take(last)
        return newest.take(pc.sort_indices(newest, sort_keys=[(key, "ascending") for key in self.keys]))

    @cached_property
    def labels(self) -> list[str]:
        """The text that each group is found by, in lower case."""
        rows = python_rows(self.newest.select(list(self.keys)))
        return [
            ", ".join("null" if v is None else text(v) or "" for v in row.values()).lower() for row in rows
        ]

    def page(self, search: str, order: str, offset: int, limit: int) -> tuple[int, pa.Table]:
        """Return the number of matches and a page of them; ``order`` is a column, after a - from the top."""
        matches, words = self.newest, search.strip().lower()
        if words and self.keys:
            matches = matches.filter(pa.array([words in label for label in self.labels], pa.bool_()))
        column = order.removeprefix("-")
        if column and column not in matches.column_names:
            raise QueryError(
                f"there is no column '{column}' to order by", hint=f"take {', '.join(matches.column_names)}"
            )
        if column:
            way = "descending" if order.startswith("-") else "ascending"
            matches = matches.take(pc.sort_indices(matches.column(column), sort_keys=[("", way)]))
        return matches.num_rows, matches.slice(offset, limit)
