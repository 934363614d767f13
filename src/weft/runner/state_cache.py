"""States that a process still holds from earlier steps: only a cache, every miss can be rebuilt.

Spark sends a bucket's task to any worker, so what a worker holds may be old, of an attempt that was never
committed, or nothing at all. A state is known by the token of the step that made it. It is taken out
while it is changed: a task that fails leaves none behind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from weft.operators.contract import Marks, Stage, State
from weft.runner.request import StateReference
from weft.store.log import StateLayer
from weft.store.stage_layers import catch_up, load

MAX_CACHED_BYTES = 1 << 30

HELD_SOURCE = "held"

_states: OrderedDict[tuple[str, str, int], tuple[str, State]] = OrderedDict()


class LoadedState(NamedTuple):
    """A bucket's state, and its ``source``: held, caught up with layers that it lacked, or rebuilt."""

    state: State
    source: str


def load_state(saved: StateReference, stage: Stage, bucket: int, buckets: int, marks: Marks) -> LoadedState:
    """Take the state of a bucket after the last step out of the cache, or rebuild it from its layers."""
    state, missing, source = _look_up(saved, stage.name, bucket)
    if state is None:
        return LoadedState(load(saved.place, stage, bucket, buckets, missing, marks), source)
    if state.stage is not stage:
        state = state.moved(stage)
    if source != HELD_SOURCE:
        # Also where it lacks no layer: a step may have moved the marks alone.
        catch_up(saved.place, state, missing, marks)
    return LoadedState(state, source)


def save_state(saved: StateReference, state: State) -> None:
    """Cache the state that a step made."""
    _cache(saved, saved.token, state)


def restore_state(saved: StateReference, state: State) -> None:
    """Cache the state after the last step again, which was only read."""
    if saved.before is not None:
        _cache(saved, saved.before, state)


def _look_up(
    saved: StateReference, stage: str, bucket: int
) -> tuple[State | None, Sequence[StateLayer], str]:
    layers = saved.of(stage, bucket)
    token, state = _states.pop((saved.place, stage, bucket), ("", None))
    if state is not None and token == saved.before:
        return state, (), HELD_SOURCE
    if state is not None and token in saved.history:
        age = saved.history[token]
        newer = [layer for layer in layers if layer.last > age]
        if all(layer.first > age for layer in newer):
            return state, newer, "caught up"
    return None, layers, "rebuilt"


def _cache(saved: StateReference, token: str, state: State) -> None:
    """Cache a state; the oldest are let go where they take too much memory."""
    _states[saved.place, state.stage.name, state.bucket] = (token, state)
    size = sum(state.bytes for _, state in _states.values())
    while size > MAX_CACHED_BYTES and _states:
        _, (_, oldest) = _states.popitem(last=False)
        size -= oldest.bytes
