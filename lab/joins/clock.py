"""The clock of one stream of a chain that is fed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.io.files import Chunk
from weft.operators.joins.clock import OrderedRows, judge_rows
from weft.operators.times import Seen
from weft.operators.watermark import IN_ORDER, StepClock, TimeRules


@dataclass
class Clock:
    """The time of one stream, kept from batch to batch: a batch is judged by what came before it.

    ``watermark`` is the least time that later rows can have.

    >>> import pyarrow as pa
    >>> clock = Clock("ts", TimeRules(lateness=1))
    >>> batch = Chunk(pa.table({"ts": pa.array([3, 1, None], pa.timestamp("us"))}))
    >>> clock.admit(batch, now=0)[0].times.tolist(), clock.watermark, clock.seen.untimed
    ([1, 3], 2, 1)
    """

    time: str
    rules: TimeRules = IN_ORDER
    watermark: int | None = None
    seen: Seen = field(default_factory=Seen)
    heard: Mapping[str, int] = field(default_factory=dict)

    def admit(self, chunk: Chunk, now: int) -> tuple[OrderedRows, Seen]:
        """The rows of a chunk that are in time, in order, its counts, and the watermark moved."""
        step = StepClock(self.rules, now, self.watermark, self.seen.latest, self.heard)
        judged = judge_rows(chunk.table, self.time, self.watermark, step.limit, chunk.origins)
        seen = judged.seen
        self.watermark = step.watermark_after(seen.latest, chunk.unread, chunk.mark)
        self.heard, self.seen = step.heard_after(seen.latest), self.seen + seen
        return judged.rows, seen
