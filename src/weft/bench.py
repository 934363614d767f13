"""Benchmarks: found in the checkout's ``benchmarks`` folder, run by name, printed and saved as JSON.

A benchmark is a module whose docstring's first line says what it measures, with two functions:
``run(quick, progress) -> Result`` and ``render(result)``, something rich can print. One that has plots has a
third, ``draw(result, folder)``, which gives the files that it wrote. One that can go on for any time takes
``minutes`` too.
Its figures are ratios measured in one run, so they travel between machines better than seconds do.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import json
import math
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from weft.errors import JobError

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called as ``progress("native, 16 queries", done, total)`` before each piece of work."""


@dataclass(frozen=True)
class Result:
    """What one benchmark measured: the table's rows, and the few ratios that sum it up."""

    name: str
    rows: list[dict[str, Any]]
    figures: dict[str, float]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The saved form.

        >>> sorted(Result("x", [], {"gain": 2.0}).to_json())
        ['figures', 'machine', 'name', 'notes', 'rows']
        """
        return {
            "name": self.name,
            "machine": machine(),
            "rows": self.rows,
            "figures": self.figures,
            "notes": self.notes,
        }


def folder() -> Path:
    """The benchmarks of the source checkout that weft is installed from."""
    place = Path(__file__).resolve().parents[2] / "benchmarks"
    if not place.is_dir():
        raise JobError(
            "the benchmarks are not part of an installed package; run `weft bench` from a source checkout "
            "installed with `pip install -e .`"
        )
    return place


def names(place: Path | None = None) -> list[str]:
    """The names of the benchmarks in a folder.

    >>> "spark-native" in names()
    True
    """
    files = (place or folder()).glob("*.py")
    return sorted(p.stem.replace("_", "-") for p in files if not p.stem.startswith("_"))


def load(name: str, place: Path | None = None) -> ModuleType:
    """The module of one benchmark.

    >>> load("spark-natve")
    Traceback (most recent call last):
        ...
    weft.errors.JobError: no benchmark 'spark-natve'; did you mean 'spark-native'? See `weft bench --list`
    """
    place = place or folder()
    known = names(place)
    if name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise JobError(f"no benchmark '{name}'; {hint}See `weft bench --list`")
    spec = importlib.util.spec_from_file_location(
        f"weft_benchmark_{name}", place / f"{name.replace('-', '_')}.py"
    )
    if spec is None or spec.loader is None:
        raise JobError(f"benchmark '{name}' cannot be read as a Python module")
    module = importlib.util.module_from_spec(spec)
    # What several files of a benchmark share lies beside it, under a name that begins with an underscore.
    if str(place) not in sys.path:
        sys.path.append(str(place))
    # Registered before it runs, so that what it defines can be pickled by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def summary(module: ModuleType) -> str:
    """The one line that says what a benchmark measures."""
    return (module.__doc__ or "").strip().split("\n")[0]


def with_minutes(module: ModuleType, name: str, minutes: float) -> dict[str, float]:
    """How long to go on, as an argument of ``run``; JobError for a benchmark that ends of itself."""
    if "minutes" not in inspect.signature(module.run).parameters:
        raise JobError(f"benchmark '{name}' ends of itself; leave out --minutes")
    return {"minutes": minutes}


def draw(module: ModuleType, result: Result, folder: Path) -> list[Path]:
    """The plots of a benchmark, if it has any: the files written into the folder."""
    return module.draw(result, folder) if hasattr(module, "draw") else []


def save(results: list[Result], path: Path) -> None:
    """One result as an object; several as a list of them."""
    saved = [r.to_json() for r in results]
    path.write_text(json.dumps(saved[0] if len(saved) == 1 else saved, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        **{
            package: metadata.version(package) for package in ("weft", "pyspark", "pyarrow", "numpy", "numba")
        },
    }


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Seconds spent in the block so far; frozen when the block ends.

    >>> with stopwatch() as seconds:
    ...     total = sum(range(10))
    >>> seconds() >= 0
    True
    """
    start = time.perf_counter()
    end: float | None = None
    try:
        yield lambda: (time.perf_counter() if end is None else end) - start
    finally:
        end = time.perf_counter()


def best_of(times: int, work: Callable[[], Any]) -> float:
    """The fewest seconds that ``work`` took in so many tries."""
    seconds = []
    for _ in range(times):
        with stopwatch() as elapsed:
            work()
        seconds.append(elapsed())
    return min(seconds)


def race(works: Mapping[str, Callable[[], Any]], seconds: float, far: float = math.inf) -> dict[str, float]:
    """The fewest seconds that each work took, in turns: what disturbs the machine disturbs them all.

    Each is first done once untimed. Turns go on for so many seconds, three at least; who is then ``far``
    times slower than the fastest is out.

    >>> sorted(race({"one": lambda: sum(range(10)), "other": lambda: None}, seconds=0))
    ['one', 'other']
    """
    for work in works.values():
        work()
    best = dict.fromkeys(works, math.inf)
    left, turn, order = list(works), 0, random.Random(0)
    with stopwatch() as elapsed:
        while turn < 3 or elapsed() < seconds:
            # In any order, and each twice: nobody pays for what another left in the caches.
            for name in order.sample(left, len(left)):
                best[name] = min(best[name], best_of(2, works[name]))
            turn += 1
            if turn == 3:
                left = [name for name in works if best[name] <= far * min(best.values())]
    return best


def fewest(rounds: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The fewest seconds of each work over several races, run at different times.

    >>> fewest([{"one": 2.0, "other": 3.0}, {"one": 1.0, "other": 4.0}])
    {'one': 1.0, 'other': 3.0}
    """
    best: dict[str, float] = {}
    for took in rounds:
        for name, seconds in took.items():
            best[name] = min(best.get(name, math.inf), seconds)
    return best


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
