"""Progress: what one step of a stream did, for people, logs, dashboards and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.operators.windows.sharing import SharingChoice


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
