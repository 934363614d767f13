"""States that a Python worker still holds from earlier steps: only a cache, every miss can be rebuilt.

Spark sends a bucket's task to any worker, so what a worker holds may be old, of an attempt that was never
committed, or nothing at all. A state is known by the token of the step that made it. It is taken out
while it is changed: a task that fails leaves none behind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from weft.operators.windows.carry_over import WindowCarryOver
from weft.operators.windows.program import Program
from weft.operators.windows.state import State
from weft.spark.step import StateReference
from weft.store.layers import catch_up, rebuild
from weft.store.manifest import Layer

MAX_CACHED_BYTES = 1 << 30


class CachedState(Protocol):
    """A state; ``bytes`` is about how much memory it takes."""

    @property
    def bytes(self) -> int:
        """Size in memory."""
        ...


class CacheLookup(NamedTuple):
    """A bucket's cached state, or None, the layers that it lacks, and the state's ``source``: held, caught up
    with these layers, or rebuilt from them."""

    state: Any
    missing_layers: Sequence[Layer]
    source: str


_states: OrderedDict[tuple[str, str, int], tuple[str, CachedState]] = OrderedDict()


def load(saved: StateReference, bucket: int, watermark: int | None, program: Program) -> tuple[State, str]:
    """Return the state of a bucket after the last step, and its source: held, caught up, or rebuilt."""
    state, missing, source = look_up(saved, bucket)
    if state is None:
        return rebuild(saved.place, missing, bucket, watermark, program), source
    if state.program.version != program.version:
        state = WindowCarryOver(state.program.layout, program).state(state)
    if source != "held":
        catch_up(saved.place, state, missing, watermark)
    return state, source


def look_up(saved: StateReference, bucket: int) -> CacheLookup:
    """Take the cached state of a bucket out of the cache."""
    layers = saved.layers[bucket] if saved.layers else ()
    token, state = _states.pop((saved.place, saved.about, bucket), ("", None))
    if state is not None and token == saved.before:
        return CacheLookup(state, (), "held")
    if state is not None and token in saved.history:
        age = saved.history[token]
        newer = [layer for layer in layers if layer.last > age]
        if all(layer.first > age for layer in newer):
            return CacheLookup(state, newer, "caught up")
    return CacheLookup(None, layers, "rebuilt")


def save(saved: StateReference, bucket: int, state: CachedState) -> None:
    """Cache the state that a step made."""
    _cache(saved, bucket, saved.token, state)


def restore(saved: StateReference, bucket: int, state: CachedState) -> None:
    """Cache the state after the last step again, which was only read."""
    if saved.before is not None:
        _cache(saved, bucket, saved.before, state)


def _cache(saved: StateReference, bucket: int, token: str, state: CachedState) -> None:
    """Cache a state; the oldest are let go where they take too much memory."""
    _states[saved.place, saved.about, bucket] = (token, state)
    size = sum(state.bytes for _, state in _states.values())
    while size > MAX_CACHED_BYTES and _states:
        _, (_, oldest) = _states.popitem(last=False)
        size -= oldest.bytes
