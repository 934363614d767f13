"""The progress of a step on Spark, put together from what its tasks said."""

from __future__ import annotations

import time
from collections.abc import Mapping

from weft.engine.sharing import Choice, total
from weft.progress import Progress
from weft.spark.job import Outcome


def measured(
    outcome: Outcome,
    *,
    version: int,
    queries: int,
    cost: float,
    seq: int,
    batch_id: int,
    kind: str,
    seconds: float,
    laps: Mapping[str, float],
    skipped: tuple[str, ...],
    failed: Mapping[str, str],
    remark: str = "",
) -> Progress:
    """The progress of a step from what its job said."""
    reports, watermark = outcome.reports, outcome.watermark
    inside = {name: max(r["seconds"][name] for r in reports) for name in reports[0]["seconds"]}
    breakdown = {**laps, "map": max(r["map"] for r in reports), **inside}
    return Progress(
        seq=seq,
        batch_id=batch_id,
        kind=kind,
        version=version,
        queries=queries,
        cost=cost,
        rows=outcome.seen.rows,
        rows_per_second=outcome.seen.rows / seconds if seconds else 0.0,
        late=outcome.seen.late,
        untimed=outcome.seen.untimed,
        bad=outcome.seen.bad,
        ahead=outcome.seen.ahead,
        remark=remark,
        watermark=watermark,
        watermark_lag=None if watermark is None else time.time() - watermark / 1e6,
        results=sum(table.num_rows for table in outcome.results.values()),
        state_rows=sum(r["rows"] for r in reports),
        state_bytes=sum(r["bytes"] for r in reports),
        seconds=seconds,
        breakdown={name: round(value, 4) for name, value in breakdown.items()},
        skipped_files=(*skipped, *(name for name in reports[0]["skipped"])),
        sharing=tuple(total(map(Choice.from_dict, reports[0]["choices"]))),
        # Joins report neither: they have no trees.
        partial_seconds=round(reports[0].get("partial", 0.0), 6),
        tree_seconds=tuple(round(sum(each), 6) for each in zip(*(r.get("trees", ()) for r in reports))),
        failed=failed,
    )
