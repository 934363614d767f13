"""Ends a run at a named point, for streams in processes of their own.

Driver and workers import this module (``FaultyFiles`` brings it to the workers); the environment says at
which point the whole run is killed: ``DIE_AT``, once ``armed`` (driver) or once at all (workers).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from weft.io.files import Files
from weft.sinks import ParquetSink
from weft.store import stage_layers
from weft.store.checkpoint import Checkpoint

POINT = os.environ.get("DIE_AT", "")
armed = False


class FaultyFiles(Files):
    """Files whose reader knows of the faults."""


def die() -> None:
    """Kill the driver with all that is below it, at once."""
    os.killpg(os.getpid(), signal.SIGKILL)


def dying(point: str, function: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    """The function, which ends the run at this point before or after its work."""

    @wraps(function)
    def faulty(*args: Any, **options: Any) -> Any:
        if point == POINT and armed and not after:
            die()
        made = function(*args, **options)
        if point == POINT and armed and after:
            die()
        return made

    return faulty


def install_in_driver() -> None:
    """Patch what the driver does, in the order in which a step does it."""

    Checkpoint.write_version = dying("after the registry file", Checkpoint.write_version, after=True)  # type: ignore[method-assign]
    Checkpoint.publish = dying("before the manifest", Checkpoint.publish, after=False)  # type: ignore[method-assign]
    Checkpoint.publish = dying("after the manifest", Checkpoint.publish, after=True)  # type: ignore[method-assign]
    ParquetSink._write = dying("half delivered", ParquetSink._write, after=True)  # type: ignore[method-assign]


def install_in_worker() -> None:
    """Merge layers at every step, and die when the first merged file has been written."""
    how_many, write, merging = stage_layers.layers_to_merge, stage_layers.write_layer, []

    def remember(*args: Any) -> int:
        taken = how_many(*args)
        merging.append(taken > 1)
        return taken

    def written(place: str, *args: Any) -> Any:
        result = write(place, *args)
        marker = Path(place) / "died-while-merging"
        if POINT == "merging layers" and merging and merging[-1] and not marker.exists():
            marker.touch()
            os.killpg(int((Path(place) / "pid").read_text()), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    stage_layers.MAX_LAYERS, stage_layers.layers_to_merge = 2, remember  # type: ignore[misc]
    stage_layers.write_layer = written


if POINT:  # not in the tests' own process
    install_in_worker()
