"""The process that is killed: ``python driver.py PLACE SEED churn|finish`` streams from ``in`` to ``out``.

With ``churn`` it never ends, and its queries change at random; each change that a batch has taken becomes a
line of ``PLACE/changes.jsonl``. With ``finish`` it takes all files that are there, closes and ends.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import weft
from _soak.questions import NAMES, question
from weft.errors import WeftError
from weft.runner.changes import Change
from weft.sinks import ParquetSink
from weft.spark import Files, Run, session, stream
from weft.testing.questions import text

LATENESS = "30 s"
MIN_QUERIES = 4
START_STRIDE = 2
"""Every second name is there from the start."""


def main(place: Path, seed: int, mode: str) -> None:
    """Stream until killed, or to the end."""
    ends = mode == "finish"
    fixed = random.Random(0)
    run = stream(
        Files(place / "in", max_files_per_batch=4),
        weft.sql(text(question(name, fixed) for name in NAMES[::START_STRIDE])),
        time="ts",
        lateness=LATENESS,
        checkpoint=place / "checkpoint",
        sink=ParquetSink(place / "out"),
        buckets=2,
        trigger="available now" if ends else None,
        close_at_end=ends,
        # A task whose worker was killed is tried again.
        spark=session("local[2,4]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "768m"}),
    )
    if not ends:
        churn = Churn(run, place / "changes.jsonl", random.Random(seed))
        threading.Thread(target=churn.go_on, daemon=True).start()
    run.await_done()


class Churn:
    """Changes to a run's queries, at random moments."""

    def __init__(self, run: Run, log: Path, chance: random.Random) -> None:
        self.run, self.log, self.chance = run, log, chance

    def go_on(self) -> None:
        """One change after another, some of them together."""
        while not threading.Event().wait(self.chance.expovariate(1.5)):
            try:
                self.change()
            except WeftError:
                # Another change of this name is still on its way, or the run has ended.
                continue

    def change(self) -> None:
        """Add, drop or replace one query."""
        running = {q.name for q in self.run.queries()}
        name, what = self.chance.choice(NAMES), self.chance.random()
        if name not in running:
            future = self.run.add(question(name, self.chance).sql(), name)
        elif what < 0.5 and len(running) > MIN_QUERIES:
            future = self.run.drop(name)
        else:
            future = self.run.replace(question(name, self.chance).sql(), name)
        future.add_done_callback(self.note)

    def note(self, future: Future[Change]) -> None:
        """Write down what was promised."""
        if future.cancelled() or future.exception() is not None:
            return
        change = future.result()
        since = None if change.exact_from is None else round(change.exact_from.timestamp() * 1e6)
        line = {"name": change.name, "version": change.version, "exact_from": since}
        with self.log.open("a") as log:
            log.write(json.dumps(line) + "\n")
            log.flush()
            os.fsync(log.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
