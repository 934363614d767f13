"""A run in this process that takes a batch when a test gives it one, and the API over it."""

from __future__ import annotations

import datetime
import queue
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from weft.errors import JobError
from weft.io.arrow import as_chunk
from weft.io.sinks.latest import LatestSink
from weft.local.feed import Feed
from weft.local.readers import Read
from weft.local.running import LocalRun
from weft.local.streaming import LocalStream
from weft.runner.delivery import Delivery
from weft.runner.program import UNNAMED
from weft.sinks import MemorySink, Sinks
from weft.sql import sql
from weft.web.api import make_api
from weft.web.guard import RequestGuard
from weft.web.limits import Limits
from weft.web.record import Record
from weft.web.run_service import RunService
from weft.web.server import texts

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "symbol": pa.string(),
        "price": pa.float64(),
        "volume": pa.int64(),
    }
)
QUERIES = """
-- name: shares
SELECT symbol, sum(volume) AS shares FROM trades [RANGE '10 s'] GROUP BY symbol;
-- name: top
SELECT max(price) AS top FROM trades [RANGE '20 s' SLIDE '10 s']
"""
NEW = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def batch(second: int, *rows: tuple[str | None, float | None, int | None]) -> pa.Table:
    """Trades of one second."""
    when = START + datetime.timedelta(seconds=second)
    return pa.Table.from_pylist(
        [{"ts": when, "symbol": s, "price": p, "volume": v} for s, p, v in rows], schema=SCHEMA
    )


class World:
    """A served run that tests feed, its reader too; ``held`` keeps it from taking changes."""

    schema, bounded = SCHEMA, False

    def __init__(self, limits: Limits | None = None, keep: int = 1000, queries: str = QUERIES) -> None:
        self._given: queue.Queue[pa.Table | Exception | None] = queue.Queue()
        self.held = False
        self.latest, self.own, self.record = LatestSink(keep), MemorySink(), Record()
        sink = Sinks(self.own, self.latest)
        run = LocalRun(sql(queries), SCHEMA, "ts", threads=2, accept=sink.check)
        self.stream = LocalStream(
            run,
            Feed({UNNAMED: self}, run.columns),
            Delivery(sink, "run"),
            pause=0.01,
            on_progress=self._record_step,
        )
        written = texts(queries, self.stream.queries())
        self.served = RunService(self.stream, self.latest, self.record, "local", limits, written)
        self.api = make_api(self.served)

    def _record_step(self, progress: Any) -> None:
        self.record.step(progress)
        if progress.rows:
            self._given.task_done()

    def reads(self, columns: Any, position: Any) -> Iterator[Read | None]:
        """Yield batches as they are given; None while there is none."""
        while True:
            try:
                given = self._given.get(timeout=0.005)
            except queue.Empty:
                if not self.held:
                    yield None
                elif not self.stream._stopped.is_set():
                    continue
                else:
                    return
            else:
                if given is None:
                    return
                if isinstance(given, Exception):
                    raise given
                yield Read(as_chunk(given), None)

    def position_for_next_run(self, position: Any) -> Any:
        """Return None: no run goes on."""

    def feed(self, second: int, *rows: tuple[str | None, float | None, int | None]) -> None:
        """Give rows, and wait until they have been taken."""
        self._given.put(batch(second, *rows))
        self._given.join()

    def fail(self, why: str = "the disk is full") -> None:
        """Let the run fail."""
        self._given.put(JobError(why))
        with pytest.raises(JobError):
            self.stream.await_done(10)

    def end(self) -> None:
        """Let the run end."""
        self._given.put(None)
        assert self.stream.await_done(10)

    def client(self, host: str = "127.0.0.1:8787", **guard: Any) -> TestClient:
        """Make a client behind a guard; errors of the server itself are answers, as over a network."""
        return TestClient(
            RequestGuard(self.api, **guard),
            base_url=f"http://{host}",
            raise_server_exceptions=False,
            follow_redirects=False,
        )
