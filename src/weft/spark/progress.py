"""Progress: what one step of a stream did, for people, logs and dashboards."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine.sharing import Choice, total
from weft.spark.job import Outcome


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: a micro-batch, or a flush of the windows still open.

    ``watermark`` is in microseconds since the epoch, ``watermark_lag`` the seconds it is behind the clock.
    ``seconds`` is the time the step took, of which ``breakdown`` says where it went; ``late`` rows missed
    at least one of their windows, ``untimed`` rows had no event time, ``bad`` counts values and rows that
    could not be read or computed. ``sharing`` says how rows became partials, group-by by group-by.
    """

    seq: int
    batch_id: int
    kind: str
    rows: int
    rows_per_second: float
    late: int
    untimed: int
    bad: int
    watermark: int | None
    watermark_lag: float | None
    results: int
    state_rows: int
    state_bytes: int
    seconds: float
    breakdown: Mapping[str, float]
    skipped_files: tuple[str, ...] = ()
    sharing: tuple[Choice, ...] = ()


def measured(
    outcome: Outcome,
    *,
    seq: int,
    batch_id: int,
    kind: str,
    seconds: float,
    laps: Mapping[str, float],
    skipped: tuple[str, ...],
) -> Progress:
    """The progress of a step from what its job said."""
    reports, watermark = outcome.reports, outcome.watermark
    inside = {name: max(r["seconds"][name] for r in reports) for name in reports[0]["seconds"]}
    breakdown = {**laps, "map": max(r["map"] for r in reports), **inside}
    return Progress(
        seq=seq,
        batch_id=batch_id,
        kind=kind,
        rows=outcome.seen.rows,
        rows_per_second=outcome.seen.rows / seconds if seconds else 0.0,
        late=outcome.seen.late,
        untimed=outcome.seen.untimed,
        bad=outcome.seen.bad,
        watermark=watermark,
        watermark_lag=None if watermark is None else time.time() - watermark / 1e6,
        results=sum(table.num_rows for table in outcome.results.values()),
        state_rows=sum(r["rows"] for r in reports),
        state_bytes=sum(r["bytes"] for r in reports),
        seconds=seconds,
        breakdown={name: round(value, 4) for name, value in breakdown.items()},
        skipped_files=(*skipped, *(name for name in reports[0]["skipped"])),
        sharing=tuple(total(map(Choice.from_dict, reports[0]["choices"]))),
    )
