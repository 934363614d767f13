"""The sharing that a plan would have, measured on a sample of the stream's rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from weft.errors import JobError
from weft.expr.types import UTC
from weft.io.files import Files
from weft.io.lookups import TableSource
from weft.operators.lookups.tables import LookupTables
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import partial
from weft.operators.windows.sharing import SharingChoice
from weft.planning.plan import Plan

MAX_SAMPLE_ROWS = 1 << 20
"""Rows of a file that are looked at."""


def sharing(
    plan: Plan,
    rows: pa.Table,
    time: str | None = None,
    tables: Mapping[str, TableSource] | None = None,
    zone: str = UTC,
) -> list[SharingChoice]:
    """Return how these rows would become partials: shared or not, for each group-by, with the counts.

    ``time`` is the time column; it need not be given where only one column is a timestamp. ``tables`` are the
    lookup tables that queries join, ``zone`` is that of local times.

    >>> import datetime, weft
    >>> rows = pa.table({"ts": [datetime.datetime(2024, 1, 1)] * 4, "x": [1, 2, 3, 4]})
    >>> plan = weft.plan(weft.sql("SELECT count(*) AS n FROM t [RANGE '1 min'] WHERE x > 2"))
    >>> print(sharing(plan, rows)[0])
    by nothing: shared; of 1 predicates a row satisfies 1; rows 2, fragments 1, shards 1, partials 1
    """
    lookups = LookupTables(tables)
    schemas = lookups.schemas(plan.queries)
    program = compile_plan(plan, rows.schema, time or _time(rows.schema), tables=schemas, zone=zone)
    lookups.refresh(program.lookups)
    return partial(rows, program, None, lookups=lookups.lookups(program.lookups)).choices


def read_sample(path: Path) -> pa.Table:
    """The first rows of a Parquet, CSV or JSON file, or of a folder of Parquet files."""
    ending = path.suffix.lstrip(".").replace("jsonl", "json").replace("ndjson", "json")
    tables, rows = [], 0
    for chunk in Files(path, format=ending if ending in ("csv", "json") else "parquet"):
        tables.append(chunk.table.slice(0, MAX_SAMPLE_ROWS - rows))
        rows += tables[-1].num_rows
        if rows >= MAX_SAMPLE_ROWS:
            break
    if not rows:
        raise JobError(f"'{path}' has no rows to look at")
    return pa.concat_tables(tables).unify_dictionaries()


def _time(schema: pa.Schema) -> str:
    candidates = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    if len(candidates) != 1:
        which = (
            f"columns {', '.join(candidates)} are timestamps" if candidates else "no column is a timestamp"
        )
        raise JobError(f"{which}; say which is the time column")
    return candidates[0]
