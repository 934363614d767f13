"""Progress: what one step of a stream did, for people, logs, dashboards and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.model.instants import END_OF_TIME
from weft.operators.contract import Marks
from weft.operators.times import Seen
from weft.operators.windows.sharing import SharingChoice
from weft.runner.clock import StreamTime, least_mark, wall_clock
from weft.runner.program import Program


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: a batch, or a flush of the windows still open.

    ``version`` is that of the queries it was made with, ``queries`` how many there were, ``cost`` what the
    plan says they cost together, in its unit per second. ``watermark`` is in microseconds since the epoch,
    ``watermark_lag`` the seconds it is behind the clock. ``seconds`` is the time the step took, of which
    ``breakdown`` says where it went; ``late`` rows missed at least one of their windows, ``untimed`` rows
    had no event time, ``bad`` counts values and rows that could not be read or computed. ``batch_id`` is
    Spark's number of the batch. ``ahead`` rows were further ahead of the clock than is believed, and moved no
    watermark. ``remark`` says what a person should know of the step: why no window is answered yet, or that
    a flush makes rows late. ``sharing`` says how rows became partials, group-by by group-by.
    ``partial_seconds`` and ``tree_seconds`` are work, added up over all tasks: what making partials of the
    rows took, and what answering the windows of each tree of the plan did. ``failed`` are the queries that
    could not be answered, in this step or one before, and why: they have left, until they are replaced.
    ``costs`` has the plan's cost by unit: that of trees, and that of joins. ``marks`` are the watermarks of
    each stage, of which ``watermark`` is the least, and ``source_lag`` the seconds that the latest row read
    is behind the clock. ``work`` counts the work of the step.
    """

    seq: int
    kind: str
    version: int
    queries: int
    cost: float
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
    breakdown: Mapping[str, float] = field(default_factory=dict)
    batch_id: int | None = None
    ahead: int = 0
    remark: str = ""
    skipped_files: tuple[str, ...] = ()
    sharing: tuple[SharingChoice, ...] = ()
    partial_seconds: float = 0.0
    tree_seconds: tuple[float, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    source_lag: float | None = None
    work: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepFacts:
    """The facts of a step as its runner knows them: the program, the counts of its rows, how far streams
    and stages have come, what it answered and keeps, and what that took."""

    seq: int
    kind: str
    program: Program
    seen: Seen
    streams: Mapping[str, StreamTime]
    marks: Mapping[str, Marks]
    results: int
    state_rows: int
    state_bytes: int
    seconds: float
    breakdown: Mapping[str, float]
    remark: str = ""
    batch_id: int | None = None
    skipped: Sequence[str] = ()
    choices: Sequence[SharingChoice] = ()
    partial_seconds: float = 0.0
    tree_seconds: Sequence[float] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


def progress_of(facts: StepFacts) -> Progress:
    """Return the progress of a step, the same for both engines."""
    seen, program = facts.seen, facts.program
    marks = {stage.name: dict(facts.marks.get(stage.name, {})) for stage in program.stages}
    own = [mark for stage in marks.values() for mark in stage.values()]
    watermark = least_mark(own or [stream.mark for stream in facts.streams.values()])
    latest = [stream.seen.max_time for stream in facts.streams.values() if stream.seen.max_time is not None]
    now = wall_clock()
    return Progress(
        seq=facts.seq,
        kind=facts.kind,
        version=program.version,
        queries=len(program.queries),
        cost=program.plan.cost,
        rows=seen.rows,
        rows_per_second=seen.rows / facts.seconds if facts.seconds else 0.0,
        late=seen.late,
        untimed=seen.untimed,
        bad=seen.bad,
        watermark=watermark,
        watermark_lag=None if watermark in (None, END_OF_TIME) else now - watermark / 1e6,
        results=facts.results,
        state_rows=facts.state_rows,
        state_bytes=facts.state_bytes,
        seconds=facts.seconds,
        breakdown={name: round(seconds, 4) for name, seconds in facts.breakdown.items()},
        batch_id=facts.batch_id,
        ahead=seen.ahead,
        remark=facts.remark,
        skipped_files=tuple(facts.skipped),
        sharing=tuple(facts.choices),
        partial_seconds=round(facts.partial_seconds, 6),
        tree_seconds=tuple(round(seconds, 6) for seconds in facts.tree_seconds),
        failed=dict(facts.failed),
        costs={unit: cost.cost for unit, cost in program.plan.costs.items()},
        marks=marks,
        source_lag=now - max(latest) / 1e6 if latest else None,
    )
