"""One job of joins as its tasks receive it, and the state that a task begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.state import Joins, JoinState, Marks
from weft.operators.times import Seen
from weft.operators.watermark import StepClock, without_silent
from weft.planning.joins.orders import Orders
from weft.spark import cache
from weft.spark.step import StateReference
from weft.store.join_layers import catch_up


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One step: the streams' watermarks before it, what it decides time by, and where the state is kept.

    A stream from which nothing has come for ``idle`` holds the others back no more. ``until``, where given,
    is every watermark after the step, whatever the rows say. ``results`` is the watermark of the joins'
    results. ``orders`` are the join orders of each join of more than two streams.
    """

    buckets: int
    marks: Marks
    results: int | None
    clock: StepClock
    until: int | None
    saved: StateReference
    orders: tuple[Orders | None, ...] = ()
    idle: int | None = None

    def marks_after(self, seen: Mapping[str, Seen]) -> Marks:
        """The watermarks once these rows are in."""
        if self.until is not None:
            return dict.fromkeys(self.marks, self.until)
        after = {
            stream: replace(self.clock, watermark=mark, latest={}, heard={}).watermark_after(
                seen[stream].latest
            )
            for stream, mark in self.marks.items()
        }
        return without_silent(after, self.heard_after(seen), self.clock.now, self.idle)

    def heard_after(self, seen: Mapping[str, Seen]) -> dict[str, int]:
        """Return the times at which each stream was last heard of, once these rows are in."""
        return self.clock.heard_after({stream: 0 for stream, counts in seen.items() if counts.rows})


def state_of(joins: Joins, step: JoinStep, bucket: int) -> tuple[JoinState, str]:
    """Return a bucket's state after the last step, and its source."""
    state, missing, source = cache.look_up(step.saved, bucket)
    if state is None:
        state = JoinState(joins, bucket)
    elif state.joins.version != joins.version:
        state = state.carried_over(joins, step.marks)
    if source != "held":
        catch_up(state, step.saved.place, missing, step.marks)
    for chain, orders in zip(state.chains, step.orders):
        if isinstance(chain, MultiwayJoin) and orders is not None:
            chain.orders, chain.work = orders, {}
    return state, source
