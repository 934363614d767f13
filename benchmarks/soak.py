"""A stream that is killed again and again while its queries come and go: is every result right, and once?

A writer adds files all the time. In the first half the driver, its JVM or its Python workers are killed at
random moments, and the run is started again over the same checkpoint; in the second half only workers are,
so that the driver's memory can be watched. At the end every result is compared with a recomputation.
"""

from __future__ import annotations

import datetime
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
from _soak.check import Verdict, check, is_step
from rich.table import Table

from weft.cli.bench import BenchmarkResult, Progress
from weft.errors import WeftError
from weft.io.sources.generate import START, trades

ROWS = 500
RATE = 25.0
DISORDER = 15.0
PAUSE = 0.4
STEP_TIMEOUT_SECONDS = 180.0
LEAST_KILLS = 2
KILLS = ("everything", "driver", "jvm")
DRIVER = Path(__file__).parent / "_soak" / "driver.py"


def run(quick: bool, progress: Progress, minutes: float | None = None) -> BenchmarkResult:
    """Soak for so many minutes; ten unless said, one for the quick form."""
    minutes = minutes or (1 if quick else 10)
    place = Path(tempfile.mkdtemp(prefix="weft-soak-"))
    soak = Soak(place, seed=time.time_ns() % 1_000_000)
    soak.go_on(minutes * 60, progress)
    progress("checking every result", 1, 1)
    verdict = check(place)
    if verdict.wrong or soak.failures:
        told = "; ".join([*soak.failures, *verdict.wrong][:5])
        raise WeftError(
            f"{len(verdict.wrong)} results are wrong, {len(soak.failures)} drivers failed, seed {soak.seed}; "
            f"all is kept in '{place}': {told}"
        )
    shutil.rmtree(place)
    return BenchmarkResult("soak", soak.drivers, figures(soak, verdict), notes(soak, verdict, minutes))


@dataclass
class Soak:
    """One soak in a folder: writes ``in``, keeps what the checkpoint publishes, starts and kills drivers."""

    place: Path
    seed: int
    drivers: list[dict[str, Any]] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.done = threading.Event()
        for name in ("in", "kept"):
            (self.place / name).mkdir()

    def go_on(self, seconds: float, progress: Progress) -> None:
        """Write, run and kill for so long; then take what is left and close."""
        write(self.place / "in", 0)
        writer = threading.Thread(target=self._write)
        writer.start()
        began = time.monotonic()
        try:
            while not self.failures:
                spent, killed = time.monotonic() - began, len(self.drivers)
                if spent > seconds and killed >= LEAST_KILLS:
                    break
                progress(f"driver {killed + 1}", int(min(spent, seconds)), int(seconds))
                calm = spent > seconds / 2 and killed >= LEAST_KILLS
                self._one_driver(seconds - spent if calm else self.chance.uniform(0.2, 8.0))
        finally:
            self.done.set()
            writer.join()
        if not self.failures:
            progress("taking what is left", int(seconds), int(seconds))
            self._one_driver(10 * STEP_TIMEOUT_SECONDS, "finish")

    def _one_driver(self, kill_after: float, mode: str = "churn") -> None:
        """Start a driver; kill it so many seconds after its first step."""
        process, before = self._begin(mode), self.steps()
        began, first_step, workers = time.monotonic(), None, 0
        memory: list[tuple[float, float]] = []
        next_worker = math.inf
        ended = "by itself"
        while process.poll() is None:
            now = time.monotonic()
            self.keep()
            if not memory or now - memory[-1][0] > 1:
                memory.append((now, driver_megabytes(process.pid)))
            if first_step is None and self.steps() > before:
                first_step = now
                next_worker = now + self.chance.uniform(1, 20) if mode == "churn" else math.inf
            if now > next_worker:
                workers += kill_worker(process.pid, self.chance)
                next_worker = now + self.chance.uniform(10, 30)
            if first_step is None and now - began > STEP_TIMEOUT_SECONDS:
                ended = "without a step"
                break
            if first_step is not None and now - first_step > kill_after:
                ended = self.chance.choice(KILLS)
                break
            time.sleep(0.05)
        end(process, ended)
        self.keep()
        if ended == "without a step" or (ended == "by itself" and (mode == "churn" or process.returncode)):
            self.failures.append(f"driver {len(self.drivers) + 1} ended {ended}: {self._last_words()}")
        self.memory = memory if mode == "churn" else self.memory
        self.drivers.append(
            {
                "driver": len(self.drivers) + 1,
                "ended": "at the end" if mode == "finish" else f"{ended} killed",
                "seconds": round(time.monotonic() - began, 1),
                "steps": self.steps() - before,
                "workers_killed": workers,
                "driver_mb": round(max((mb for _, mb in memory), default=0.0)),
            }
        )

    def _begin(self, mode: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(DRIVER), str(self.place), str(self.chance.randrange(1 << 30)), mode]
        with self._log().open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def _log(self) -> Path:
        return self.place / f"driver-{len(self.drivers) + 1}.log"

    def _last_words(self) -> str:
        return " ".join(self._log().read_text().split()[-40:])

    def _write(self) -> None:
        number = 1
        while not self.done.wait(PAUSE):
            # The first step of all may have to wait for kernels to be compiled.
            if self.steps():
                write(self.place / "in", number)
                number += 1

    def steps(self) -> int:
        """Return the number of steps that have been committed."""
        return sum(is_step(file) for file in (self.place / "kept").glob("manifests-*"))

    def keep(self) -> None:
        """Keep manifests and versions, which the run itself removes after a while."""
        for folder in ("manifests", "registry"):
            for file in (self.place / "checkpoint" / folder).glob("[0-9]*.json"):
                with suppress(FileExistsError, FileNotFoundError):
                    os.link(file, self.place / "kept" / f"{folder}-{file.name}")


def write(folder: Path, number: int) -> None:
    """One more file of trades, out of order; never so late that a window would miss one."""
    start = START + datetime.timedelta(seconds=number * ROWS / RATE)
    (batch,) = trades(ROWS, rate=RATE, symbols=20, seed=number, disorder=DISORDER, start=start)
    unfinished = folder / f".{number:08}.parquet"
    with pq.ParquetWriter(unfinished, batch.schema) as writer:
        writer.write_batch(batch)
    unfinished.rename(folder / f"{number:08}.parquet")


def end(process: subprocess.Popen[bytes], how: str) -> None:
    """Kill a driver: with all its processes, or one of them, whereupon the others must end too."""
    if how == "jvm":
        for child in _below(process.pid, "java"):
            with suppress(psutil.Error):
                child.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STEP_TIMEOUT_SECONDS)
    elif how == "driver":
        process.kill()
        process.wait()
        # What it leaves behind goes on for a moment, beside the run that follows.
        time.sleep(0.5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_worker(pid: int, chance: random.Random) -> int:
    """Kill one of the Python workers below a driver, if there is any."""
    workers = [p for p in _below(pid, "python") if "pyspark.daemon" in _words(p)]
    forked = [p for p in workers if p.ppid() in {w.pid for w in workers}]
    if not forked:
        return 0
    with suppress(psutil.Error):
        chance.choice(forked).kill()
    return 1


def driver_megabytes(pid: int) -> float:
    """The memory of a driver and of its JVM."""
    family = []
    with suppress(psutil.Error):
        family.append(psutil.Process(pid))
    total = 0
    for process in [*family, *_below(pid, "java")]:
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total / 2**20


def _below(pid: int, name: str) -> list[psutil.Process]:
    processes = []
    with suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                if process.name().startswith(name):
                    processes.append(process)
    return processes


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def figures(soak: Soak, verdict: Verdict) -> dict[str, float]:
    """The share of right results, and the last driver's memory: last quarter of its life over the third."""
    taken = [mb for _, mb in soak.memory]
    third, last = taken[len(taken) // 2 : len(taken) * 3 // 4], taken[len(taken) * 3 // 4 :]
    growth = (sum(last) / len(last)) / (sum(third) / len(third)) if third and last else 1.0
    return {"right_results": 1.0, "driver_mb_growth": growth}


def notes(soak: Soak, verdict: Verdict, minutes: float) -> list[str]:
    """Return what was done and checked, in words."""
    killed, workers = len(soak.drivers) - 1, sum(d["workers_killed"] for d in soak.drivers)
    seconds = sum(d["seconds"] for d in soak.drivers)
    return [
        f"Seed {soak.seed}, {minutes:g} minutes: {killed} drivers and {workers} Python workers killed, "
        f"{verdict.promises} changes of queries reported, {verdict.lives} lives of queries.",
        f"{verdict.rows:,} rows in {verdict.steps:,} steps ({verdict.rows / seconds:,.0f} rows/s with all "
        f"restarts); {verdict.results:,} results checked: none lost, none twice, none wrong.",
    ]


def render(result: BenchmarkResult) -> Table:
    """A row for each driver."""
    table = Table(title="Drivers one after the other, over one checkpoint")
    for heading in ("driver", "ended", "seconds", "steps", "workers killed", "most MB"):
        table.add_column(heading, justify="left" if heading == "ended" else "right")
    for row in result.rows:
        table.add_row(*map(str, row.values()))
    return table
