"""A standalone Spark cluster on this machine, a master and some workers: to try and to test cluster runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyspark

from weft.errors import JobError
from weft.spark.java import provide_java

HOST = "127.0.0.1"
START_TIMEOUT_SECONDS = 60.0


class Cluster:
    """A master and its workers, each a process of its own, until ``stop`` or the end of a ``with`` block.

    ``url`` is what ``--master`` takes. Everything listens on this machine's loopback address only.
    """

    def __init__(self, workers: int = 2, cores: int = 1, memory: str = "1g", port: int | None = None) -> None:
        if workers < 1 or cores < 1:
            raise JobError(f"a cluster needs workers and cores, not {workers} and {cores}")
        provide_java()
        self.url = f"spark://{HOST}:{port or _free_port()}"
        self.workers = workers
        self._status = f"http://{HOST}:{_free_port()}/json/"
        self._folder = tempfile.TemporaryDirectory(prefix="weft-cluster-", ignore_cleanup_errors=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        at, status = self.url.rsplit(":", 1)[1], self._status.rsplit(":", 1)[1].split("/")[0]
        try:
            self._start("master.Master", "--port", at, "--webui-port", status)
            self._wait(0)
            for number in range(workers):
                place = Path(self._folder.name) / f"worker-{number}"
                options = ["--cores", str(cores), "--memory", memory, "--work-dir", str(place)]
                self._start("worker.Worker", "--webui-port", "0", *options, self.url)
            self._wait(workers)
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes of the master and of each worker."""
        return [process.pid for process in self._processes]

    def alive(self) -> int:
        """Return the number of workers that the master hears of; -1 where it does not answer."""
        try:
            with urllib.request.urlopen(self._status, timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, urllib.error.URLError, ValueError, KeyError):
            return -1

    def stop(self) -> None:
        """End all processes, executors included."""
        for process in reversed(self._processes):
            try:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                process.kill()
        self._processes.clear()
        self._folder.cleanup()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, kind: str, *arguments: str) -> None:
        command = Path(pyspark.__file__).parent / "bin" / "spark-class"
        log = Path(self._folder.name) / f"{len(self._processes)}-{kind}.log"
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": HOST}
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [command, f"org.apache.spark.deploy.{kind}", "--host", HOST, *arguments],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            )

    def _wait(self, workers: int) -> None:
        """Wait until so many workers have registered; JobError with the log where a process ends instead."""
        until = time.monotonic() + START_TIMEOUT_SECONDS
        while self.alive() < workers:
            ended = [number for number, p in enumerate(self._processes) if p.poll() is not None]
            if ended or time.monotonic() > until:
                logs = sorted(Path(self._folder.name).glob(f"{ended[0] if ended else ''}*.log"))
                lines = logs[0].read_text(errors="replace").strip().splitlines()[-3:] if logs else []
                raise JobError(f"the Spark cluster did not start: {' '.join(lines)}")
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
