"""Runs of joins in this process, and a look at the state that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from support.join_cases import SCHEMA
from weft.local.running import LocalRun
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.joins.stage import JOINS
from weft.runner.lateness import Lateness


def join_run(
    queries: Sequence[Query | JoinQuery],
    lateness: Lateness = "0 s",
    streams: Mapping[str, pa.Schema | pa.Table] | None = None,
    **options: Any,
) -> LocalRun:
    """Return a run over streams with these columns; those of ``join_cases`` where none are given."""
    if streams is None:
        streams = dict.fromkeys("abc", SCHEMA)
    schemas = {n: s if isinstance(s, pa.Schema) else s.schema for n, s in streams.items()}
    return LocalRun(queries, schemas, "ts", lateness, threads=1, **options)


def chains_of(run: LocalRun) -> list[Any]:
    """Return the chains, and the joins of more than two streams, that a run keeps."""
    return [chain for state in run.states.get(JOINS, ()) for chain in state.chains]  # type: ignore[attr-defined]


def kept_rows(run: LocalRun) -> int:
    """Return how many rows its joins keep."""
    return sum(chain.state_rows for chain in chains_of(run))
