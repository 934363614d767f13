"""``weft serve``: a job's run and the API over it in one process, until it is stopped."""

from __future__ import annotations

import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from weft.errors import JobError
from weft.io.sinks import Sinks
from weft.io.sinks.latest import DEFAULT_LATEST_ROWS, LatestSink
from weft.io.sinks.memory import ToMemory
from weft.jobs.job import Job
from weft.jobs.launch import RunFailed, make_sink, start
from weft.jobs.report import Report
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.runner.progress import Progress
from weft.sql import sql
from weft.sql.text import split
from weft.web.api import make_api
from weft.web.connections import guarded
from weft.web.guard import RequestGuard, is_loopback
from weft.web.limits import Limits
from weft.web.record import Record
from weft.web.run_service import RunService

MIN_TOKEN_CHARACTERS = 16
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address that the server listens on, and the token that clients need there."""

    host: str = "127.0.0.1"
    port: int = 8787
    token: str | None = None
    open_reads: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < MIN_TOKEN_CHARACTERS or not self.token.isascii()):
            raise JobError(
                f"the token must have at least {MIN_TOKEN_CHARACTERS} characters, all of them ASCII"
            )


def serve(
    job: Job,
    engine: str,
    report: Report,
    address: ServerAddress,
    *,
    master: str | None = None,
    keep: int = DEFAULT_LATEST_ROWS,
    limits: Limits | None = None,
) -> None:
    """Run a job and serve it until SIGINT or SIGTERM; the step being made is finished.

    A run that ends or fails leaves the server up, so that its results and its error can be read; RunFailed
    is raised in the end for one that failed.
    """
    token, generated = address.token, False
    if token is None and not is_loopback(address.host):
        token, generated = secrets.token_urlsafe(32), True
    record, latest = Record(), LatestSink(keep)
    sink = latest if isinstance(job.sink, ToMemory) else Sinks(make_sink(job, report), latest)

    def note_step(progress: Progress) -> None:
        record.step(progress)
        report.step(progress)

    with (
        listening(address.host, address.port) as listener,
        start(job, engine, sink, report, master, on_progress=note_step, serving=True) as running,
    ):
        served = RunService(running, latest, record, engine, limits, texts(job.sql, running.queries()))
        app = RequestGuard(make_api(served), is_loopback(address.host), token, address.open_reads)
        stopping = _stop_event()
        with up(app, listener):
            report.note(serving=url_of(listener), **({"token": token} if generated else {}))
            stopping.wait()
            running.stop()
        failed = running.exception
    if failed is not None:
        raise RunFailed(str(failed)) from failed


def texts(text: str, queries: Iterable[Query | JoinQuery]) -> dict[str, str]:
    """The text of each query of a job that is running; a checkpoint may have others under their names.

    >>> job = "SELECT count(*) AS n FROM s [RANGE '1 s']; SELECT sum(x) AS n FROM s [RANGE '2 s']"
    >>> texts(job, sql(job)[1:])
    {'q2': "SELECT sum(x) AS n FROM s [RANGE '2 s']"}
    """
    running = {query.name: query for query in queries}
    statements = zip(sql(text), split(text))
    return {
        query.name: statement.written for query, statement in statements if running.get(query.name) == query
    }


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to a host and port (0: any that is free)."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
        except OSError:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise JobError(
            f"cannot listen on {host}, port {port}: {why}; choose others by --host and --port"
        ) from error
    with listener:
        yield listener


@contextmanager
def up(app: ASGIApp, listener: socket.socket) -> Iterator[None]:
    """The application behind a socket, served by a thread for as long as the block lasts."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        # Whoever comes through a proxy is not thereby on this machine.
        proxy_headers=False,
        server_header=False,
        http=guarded(),
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="weft-http", daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listener."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _stop_event() -> threading.Event:
    """Return an event that is set when the process is asked to stop."""
    stopping = threading.Event()
    for number in SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    return stopping
