"""The progress of a step on Spark, put together from what its tasks reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from weft.operators.windows.sharing import SharingChoice, total
from weft.runner.clock import wall_clock
from weft.runner.progress import Progress
from weft.spark.outcome import Outcome


class StepRecord(NamedTuple):
    """Facts of a step that the driver knows without its job."""

    kind: str
    seq: int
    batch_id: int
    version: int
    queries: int
    cost: float
    skipped: tuple[str, ...]
    failed: Mapping[str, str]
    remark: str


def measured(outcome: Outcome, step: StepRecord, seconds: float, laps: Mapping[str, float]) -> Progress:
    """Return the progress of a step from the outcome of its job."""
    reports, watermark = outcome.reports, outcome.watermark
    inside = {name: max(r["seconds"][name] for r in reports) for name in reports[0]["seconds"]}
    breakdown = {**laps, "map": max(r["map"] for r in reports), **inside}
    return Progress(
        seq=step.seq,
        batch_id=step.batch_id,
        kind=step.kind,
        version=step.version,
        queries=step.queries,
        cost=step.cost,
        rows=outcome.seen.rows,
        rows_per_second=outcome.seen.rows / seconds if seconds else 0.0,
        late=outcome.seen.late,
        untimed=outcome.seen.untimed,
        bad=outcome.seen.bad,
        ahead=outcome.seen.ahead,
        remark=step.remark,
        watermark=watermark,
        watermark_lag=None if watermark is None else wall_clock() - watermark / 1e6,
        results=sum(table.num_rows for table in outcome.results.values()),
        state_rows=sum(r["rows"] for r in reports),
        state_bytes=sum(r["bytes"] for r in reports),
        seconds=seconds,
        breakdown={name: round(value, 4) for name, value in breakdown.items()},
        skipped_files=(*step.skipped, *(name for name in reports[0]["skipped"])),
        sharing=tuple(total(map(SharingChoice.from_dict, reports[0]["choices"]))),
        # Joins report neither: they have no trees.
        partial_seconds=round(reports[0].get("partial", 0.0), 6),
        tree_seconds=tuple(round(sum(spent), 6) for spent in zip(*(r.get("trees", ()) for r in reports))),
        failed=step.failed,
    )
