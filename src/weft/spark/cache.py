"""States that a Python worker still holds from earlier steps: only a cache, every miss can be rebuilt.

Spark sends a bucket's task to any worker, so what a worker holds may be old, of an attempt that was never
committed, or nothing at all. A state is known by the token of the step that made it. It is taken out
while it is changed: a task that fails leaves none behind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

from weft.engine.layers import catch_up, rebuild
from weft.engine.manifest import Layer
from weft.engine.migrate import Migration
from weft.engine.program import Program
from weft.engine.state import State
from weft.spark.step import Saved

MOST_BYTES = 1 << 30


class Held(Protocol):
    """A state; ``bytes`` is about how much memory it takes."""

    @property
    def bytes(self) -> int:
        """Its size."""
        ...


_held: OrderedDict[tuple[str, str, int], tuple[str, Held]] = OrderedDict()


def take(saved: Saved, bucket: int, watermark: int | None, program: Program) -> tuple[State, str]:
    """The state of a bucket after the last step, and how it was had: held, caught up, or rebuilt."""
    state, newer, how = find(saved, bucket)
    if state is None:
        return rebuild(saved.place, newer, bucket, watermark, program), how
    if state.program.version != program.version:
        state = Migration(state.program.layout, program).state(state)
    if how != "held":
        catch_up(saved.place, state, newer, watermark)
    return state, how


def find(saved: Saved, bucket: int) -> tuple[Any, Sequence[Layer], str]:
    """What is held of a bucket, or None, the layers that it lacks, and how the state is had of them."""
    layers = saved.layers[bucket] if saved.layers else ()
    token, state = _held.pop((saved.place, saved.about, bucket), ("", None))
    if state is not None and token == saved.before:
        return state, (), "held"
    if state is not None and token in saved.history:
        age = saved.history[token]
        newer = [layer for layer in layers if layer.last > age]
        if all(layer.first > age for layer in newer):
            return state, newer, "caught up"
    return None, layers, "rebuilt"


def keep(saved: Saved, bucket: int, state: Held) -> None:
    """Hold on to the state that a step made."""
    _hold(saved, bucket, saved.token, state)


def put_back(saved: Saved, bucket: int, state: Held) -> None:
    """Hold on to the state after the last step, which was only read."""
    if saved.before is not None:
        _hold(saved, bucket, saved.before, state)


def _hold(saved: Saved, bucket: int, token: str, state: Held) -> None:
    """Hold a state; the oldest are let go where they take too much memory."""
    _held[saved.place, saved.about, bucket] = (token, state)
    size = sum(state.bytes for _, state in _held.values())
    while size > MOST_BYTES and _held:
        _, (_, oldest) = _held.popitem(last=False)
        size -= oldest.bytes
