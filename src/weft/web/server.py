"""``weft serve``: a job's run and the API over it in one process, until it is told to stop."""

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
from weft.job import Job
from weft.job_sinks import ToMemory
from weft.latest import KEPT, LatestSink
from weft.launch import RunFailed, make_sink, start
from weft.progress import Progress
from weft.query import JoinQuery, Query
from weft.report import Report
from weft.sinks import Sinks
from weft.sql import sql
from weft.sql.text import split
from weft.web.api import make_api
from weft.web.connections import guarded
from weft.web.doors import Doors, is_loopback
from weft.web.limits import Limits
from weft.web.record import Record
from weft.web.served import Served

LEAST_TOKEN = 16
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Door:
    """Where the server listens, and who may come in."""

    host: str = "127.0.0.1"
    port: int = 8787
    token: str | None = None
    open_reads: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not self.token.isascii()):
            raise JobError(f"the token must have at least {LEAST_TOKEN} characters, all of them ASCII")


def serve(
    job: Job,
    engine: str,
    report: Report,
    door: Door,
    *,
    master: str | None = None,
    keep: int = KEPT,
    limits: Limits | None = None,
) -> None:
    """Run a job and serve it until SIGINT or SIGTERM; the step being made is finished.

    A run that ends or fails leaves the server up, so that its results and its error can be read; RunFailed
    is raised in the end for one that failed.
    """
    token, generated = door.token, False
    if token is None and not is_loopback(door.host):
        token, generated = secrets.token_urlsafe(32), True
    record, latest = Record(), LatestSink(keep)
    sink = latest if isinstance(job.sink, ToMemory) else Sinks(make_sink(job, report), latest)

    def told(progress: Progress) -> None:
        record.step(progress)
        report.step(progress)

    with (
        listening(door.host, door.port) as listener,
        start(job, engine, sink, report, master, on_progress=told, serving=True) as running,
    ):
        served = Served(running, latest, record, engine, limits, texts(job.sql, running.queries()))
        app = Doors(make_api(served), is_loopback(door.host), token, door.open_reads)
        stopping = _told_to_stop()
        with up(app, listener):
            report.note(serving=address(listener), **({"token": token} if generated else {}))
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
    asked = zip(sql(text), split(text))
    return {query.name: each.written for query, each in asked if running.get(query.name) == query}


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


def address(listener: socket.socket) -> str:
    """The URL of what listens."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _told_to_stop() -> threading.Event:
    """An event that is set when the process is asked to stop."""
    stopping = threading.Event()
    for number in SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    return stopping
