"""Rows of another version, fitted to a chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.operators.joins.rows import JoinRows
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.slices import useful
from weft.operators.joins.union import columns as with_columns


def fitted(side: int, rows: JoinRows, chain: Sliced[Any]) -> JoinRows:
    """Rows of another version, signed as in a chain, that are of use to it, with its columns."""
    reach = chain.signatures[side].reach([m.ranges[side] for m in chain.members])
    rows = useful(rows, 0, reach)
    return replace(rows, table=with_columns(rows.table, chain.program.schemas[side]))
