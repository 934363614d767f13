"""Benchmarks: found in the checkout's ``benchmarks`` folder, run by name, printed and saved as JSON.

A benchmark is a module whose docstring's first line says what it measures, with two functions:
``run(quick, progress) -> Result`` and ``render(result)``, something rich can print. One that has plots has a
third, ``draw(result, folder)``, which gives the files that it wrote. One that can go on for any time takes
``minutes`` too.
Its figures are ratios measured in one run, so they travel between machines better than seconds do.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
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
class BenchmarkResult:
    """The result of one benchmark: the table's rows, and the few ratios that sum it up."""

    name: str
    rows: list[dict[str, Any]]
    figures: dict[str, float]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The saved form.

        >>> sorted(BenchmarkResult("x", [], {"gain": 2.0}).to_json())
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
    place = Path(__file__).resolve().parents[3] / "benchmarks"
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
    choices = names(place)
    if name not in choices:
        close = difflib.get_close_matches(name, choices, 1)
        hint = f"did you mean '{close[0]}'? " if close else ""
        raise JobError(f"no benchmark '{name}'; {hint}See `weft bench --list`")
    spec = importlib.util.spec_from_file_location(
        f"weft_benchmark_{name}", place / f"{name.replace('-', '_')}.py"
    )
    if spec is None or spec.loader is None:
        raise JobError(f"benchmark '{name}' cannot be read as a Python module")
    module = importlib.util.module_from_spec(spec)
    # What several files of a benchmark share lies beside it, under a name that begins with an underscore.
    for folder_of_modules in (place, place.parent):  # the parent has the laboratory
        if str(folder_of_modules) not in sys.path:
            sys.path.append(str(folder_of_modules))
    # Registered before it runs, so that what it defines can be pickled by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise JobError(
            f"benchmark '{name}' needs the package {error.name}; `make bench` installs it, and so does "
            "`pip install -e '.[dev]'`"
        ) from error
    return module


def summary(name: str, place: Path | None = None) -> str:
    """The one line that says what a benchmark measures, read without running it: its packages may be missing.

    >>> summary("memory").startswith("Memory of one process")
    True
    """
    text = ((place or folder()) / f"{name.replace('-', '_')}.py").read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]


def with_minutes(module: ModuleType, name: str, minutes: float) -> dict[str, float]:
    """Return the minutes as an argument of ``run``; JobError for a benchmark that ends of itself."""
    if "minutes" not in inspect.signature(module.run).parameters:
        raise JobError(f"benchmark '{name}' ends of itself; leave out --minutes")
    return {"minutes": minutes}


def draw(module: ModuleType, result: BenchmarkResult, folder: Path) -> list[Path]:
    """The plots of a benchmark, if it has any: the files written into the folder."""
    return module.draw(result, folder) if hasattr(module, "draw") else []


def save(results: list[BenchmarkResult], path: Path) -> None:
    """One result as an object; several as a list of them."""
    saved = [r.to_json() for r in results]
    path.write_text(json.dumps(saved[0] if len(saved) == 1 else saved, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Return the machine that figures are measured on."""
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


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
