"""The outcome of a job: results, counts and reports, read from the parcels of its bucket tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.late import LATE_ROWS, REJECTED_ROWS
from weft.operators.times import Seen
from weft.spark.payload import LATE_TAG, NOTE, REJECTED_TAG, Parcel


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a job: results of the queries that have any, counts of rows, each bucket's report, and,
    where asked for, late rows and those that could not be read, by the names of their tables. ``heard`` says
    when each partition, or stream, was last heard of. Where queries ``failed`` it has given nothing else, and
    is to be run without them."""

    results: dict[str, pa.Table]
    seen: Seen
    watermark: int | None
    reports: tuple[dict[str, Any], ...]
    late: Mapping[str, pa.Table] = field(default_factory=dict)
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


def outcome_of(parcels: Sequence[Parcel], queries: Sequence[Query | JoinQuery]) -> Outcome:
    """Read the outcome from the parcels of bucket tasks."""
    reports = [p.note for p in sorted(parcels, key=lambda p: p.bucket) if p.tag == NOTE]
    failed = {name: message for report in reports for name, message in report.get("failed", {}).items()}
    if failed:
        return Outcome({}, Seen(), None, tuple(reports), failed=failed)
    tables: dict[int, list[pa.Table]] = {}
    for parcel in sorted(parcels, key=lambda p: (p.tag, p.bucket)):
        if parcel.tag != NOTE:
            tables.setdefault(parcel.tag, []).append(parcel.table)
    tags = {LATE_ROWS: LATE_TAG, REJECTED_ROWS: REJECTED_TAG}
    late = {name: pa.concat_tables(tables.pop(tag)) for name, tag in tags.items() if tag in tables}
    results = {queries[tag].name: pa.concat_tables(parts) for tag, parts in tables.items()}
    first = reports[0]  # all buckets have heard the same of the rows
    seen, marks = Seen(**first["seen"]), first.get("watermarks", {})
    return Outcome(results, seen, first["watermark"], tuple(reports), late, marks, first["heard"])
