"""Results of queries by name: Arrow tables, and the same for pandas and Polars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.errors import WeftError
from weft.model.instants import python_rows
from weft.runner.notebook import html_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

MAX_ROWS_SHOWN = 10
MAX_QUERIES_SHOWN = 20


class Results(dict[str, pa.Table]):
    """The results of each query: a dict of Arrow tables that a notebook shows as tables.

    >>> results = Results(n=pa.table({"window_end": [60], "n": [7]}))
    >>> results["n"].num_rows, results.pandas()["n"]["n"].tolist(), results.polars()["n"]["n"].to_list()
    (1, [7], [7])

    ``rows`` were read, of which ``late`` ones missed a window that had been answered, ``untimed`` ones had no
    event time, and ``ahead`` ones were further ahead of the clock than is believed; ``bad`` counts rows and
    values that could not be read or computed, and ``skipped_files`` are those left out. ``failed`` are the
    queries that could not be answered, each with its error: it is raised wherever their results are asked
    for.
    """

    rows = late = untimed = ahead = bad = 0
    skipped_files: tuple[str, ...] = ()

    def __init__(
        self,
        tables: Mapping[str, pa.Table] | Iterable[tuple[str, pa.Table]] = (),
        failed: Mapping[str, WeftError] | None = None,
        **more: pa.Table,
    ) -> None:
        super().__init__(tables, **more)
        self.failed = dict(failed or {})

    def __missing__(self, name: str) -> pa.Table:
        raise self.failed[name] if name in self.failed else KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The results of a query, or something else where there is no such query."""
        return self[name] if name in self or name in self.failed else default

    def pandas(self) -> dict[str, pd.DataFrame]:
        """The results as pandas DataFrames."""
        return {name: table.to_pandas() for name, table in self.items()}

    def polars(self) -> dict[str, pl.DataFrame]:
        """The results as Polars DataFrames; needs Polars."""
        import polars as pl

        return {name: pl.DataFrame(table) for name, table in self.items()}

    def _repr_html_(self) -> str:
        """The first results of each query, for a notebook."""
        parts = []
        for name, table in list(self.items())[:MAX_QUERIES_SHOWN]:
            rows = python_rows(table.slice(0, MAX_ROWS_SHOWN))
            count = f"{name}: {table.num_rows:,} result{'s' * (table.num_rows != 1)}"
            parts.append(html_table(table.column_names, [list(row.values()) for row in rows], count))
        if len(self) > MAX_QUERIES_SHOWN:
            parts.append(f"<p>and {len(self) - MAX_QUERIES_SHOWN} more queries</p>")
        parts += [f"<p>{escape(str(error))}</p>" for error in self.failed.values()]
        return "".join(parts) or "<p>no query</p>"
