"""The commands as a person meets them: ``weft serve`` in a process of its own, ``weft query`` against it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from weft.cli import main as cli
from weft.cli import serve as commands
from weft.errors import JobError, QueryError
from weft.web.client import Client, ServerError

JOB = """
[source]
kind = "generator"
rows = 100_000_000
rate = 2000
symbols = 4
pace = true
[stream]
time = "ts"
trigger = "100 ms"
[queries]
sql = '''
-- name: shares
SELECT symbol, sum(volume) AS shares FROM trades [RANGE '1 s'] GROUP BY symbol
'''
[sink]
kind = "parquet"
path = "answers"
"""
WEFT = [sys.executable, "-c", "from weft.cli.main import main; main()"]


class Process:
    """``weft serve`` with its first words read."""

    def __init__(self, folder: Path, job: str, *options: str, **environment: str) -> None:
        (folder / "job.toml").write_text(job)
        self.environment = {**os.environ, **environment}
        self.said = (folder / "said.txt").open("w+")
        self.process = subprocess.Popen(
            [*WEFT, "serve", "job.toml", "--port", "0", *options],
            cwd=folder,
            env=self.environment,
            stdout=self.said,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.first = self._first()

    def _first(self) -> dict[str, str]:
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            for line in Path(self.said.name).read_text().splitlines():
                if line.startswith('{"serving"') and line.endswith("}"):
                    return json.loads(line)
            time.sleep(0.1)
        raise AssertionError(self.process.communicate(timeout=10)[1])

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        err = self.process.communicate(timeout=60)[1]
        return self.process.returncode, err


@pytest.fixture
def weft(monkeypatch, capsys):
    """The command, in this process: exit code, stdout, stderr."""
    monkeypatch.setattr(commands, "out", Console(width=150))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.mark.slow
def test_a_job_is_served_and_its_queries_changed_from_the_command_line(tmp_path, weft):
    serving = Process(tmp_path, JOB, "--engine", "local")

    def query(*arguments: str) -> tuple[int, str, str]:
        return weft("query", *arguments, "--server", serving.first["serving"])

    try:
        sql = "SELECT count(*) AS n FROM trades [RANGE '1 s']"
        code, out, err = query("add", sql, "--name", "n", "--wait", "60")
        assert (code, err) == (0, "")
        assert out.startswith("n: running, version 2, exact from ")
        code, out, _ = query("list")
        assert (code, "shares" in out, "running" in out) == (0, True, True)
        rows: list[dict[str, int]] = []
        until = time.monotonic() + 60
        while len(rows) < 3 and time.monotonic() < until:
            rows = json.loads(query("results", "n", "--json")[1])["rows"]
        # The first window may have begun before the stream did.
        assert rows[1]["n"] > 1000
        table = query("results", "shares", "--where", "symbol=AAA", "--limit", "1")[1]
        assert ("AAA" in table, "AAB" in table) == (True, False)
        code, _, err = query("add", "SELECT summ(volume) AS n FROM trades [RANGE '1 s']")
        assert (code, err.splitlines()) == (
            2,
            ["weft: query 'q1', line 1, column 8: function 'summ' is not supported; did you mean 'sum'?"],
        )
        replaced = query("replace", "n", sql.replace("1 s", "2 s"), "--json", "--wait", "60")[1]
        assert json.loads(replaced)["state"] == "running"
        assert query("drop", "n", "--wait", "60")[1] == "n: dropped, version 4\n"
        assert query("drop", "n")[0] == 2
        assert [q["name"] for q in json.loads(query("list", "--json")[1])] == ["shares"]
    finally:
        code, err = serving.end()
    assert (code, err) == (0, "")
    steps = [json.loads(line) for line in (tmp_path / "said.txt").read_text().splitlines()[1:]]
    assert {"version", "queries", "cost", "watermark_lag"} <= steps[0].keys()
    # The first change may have come before the first batch.
    assert {step["version"] for step in steps} | {1} == {1, 2, 3, 4}
    kept = pq.read_table(tmp_path / "answers" / "shares")
    others = pq.read_table(tmp_path / "answers" / "n")
    assert kept.num_rows + others.num_rows == sum(step["results"] for step in steps)


@pytest.mark.slow
def test_beyond_loopback_a_token_is_made_and_needed(tmp_path, weft, monkeypatch):
    job = JOB.replace('kind = "parquet"\npath = "answers"', 'kind = "memory"')
    serving = Process(tmp_path, job, "--engine", "local", "--host", "0.0.0.0", WEFT_TOKEN="")
    try:
        port = serving.first["serving"].rpartition(":")[2]
        token = serving.first["token"]
        assert len(token) >= 32
        listing = ("query", "list", "--server", f"http://127.0.0.1:{port}")
        code, _, err = weft(*listing)
        assert (code, "the token is missing or wrong" in err) == (2, True)
        assert weft(*listing, "--token", token)[0] == 0
        monkeypatch.setenv("WEFT_TOKEN", token)
        assert weft(*listing)[0] == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            assert json.load(answer)["state"] == "running"
    finally:
        code, err = serving.end(signal.SIGINT)
    assert (code, err) == (0, "")


@pytest.mark.slow
def test_a_run_that_fails_is_served_to_the_end_and_is_code_1(tmp_path):
    (tmp_path / "in").mkdir()
    job = """
[source]
kind = "files"
path = "in"
format = "json"
schema = { ts = "timestamp", n = "bigint" }
[stream]
time = "ts"
trigger = "100 ms"
[queries]
sql = "SELECT sum(n) AS n FROM s [RANGE '1 s']"
[sink]
kind = "memory"
"""
    serving = Process(tmp_path, job, "--engine", "local")
    client = Client(serving.first["serving"])
    try:
        lines = [{"ts": f"2024-01-01T00:00:0{second}Z", "n": second} for second in range(3)]
        (tmp_path / "in" / "a.json").write_text("\n".join(map(json.dumps, lines)))
        _until(lambda: len(client.results("q1")["rows"]) == 2)
        (tmp_path / "in" / "b.json").mkdir()
        (tmp_path / "in").rename(tmp_path / "gone")
        _until(lambda: _state(client) == "failed")
        assert [row["n"] for row in client.results("q1")["rows"]] == [1, 0]
        with pytest.raises(QueryError, match="has ended"):
            client.drop("q1")
    finally:
        code, err = serving.end()
    assert code == 1
    assert "does not exist" in err


def test_what_cannot_be_served_is_code_2(tmp_path, weft):
    job = tmp_path / "job.toml"
    job.write_text(JOB)

    def serve(*options: str) -> tuple[int, str]:
        code, _, err = weft("serve", str(job), "--engine", "local", *options)
        return code, err

    code, err = serve("--host", "256.1.1.1")
    assert (code, "cannot listen on 256.1.1.1" in err) == (2, True)
    code, err = serve("--token", "short")
    assert (code, "at least 16" in err) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, err = serve("--port", str(taken.getsockname()[1]))
    assert (code, "choose others by --host and --port" in err) == (2, True)
    job.write_text(JOB.replace('trigger = "100 ms"', 'trigger = "available now"'))
    code, err = serve("--port", "0")
    assert (code, "has no end" in err) == (2, True)


def test_a_server_that_is_not_there():
    with pytest.raises(ServerError, match="start one with weft serve"):
        Client("http://127.0.0.1:9").queries()
    with pytest.raises(JobError, match="is not a server"):
        Client("file:///etc/passwd")


def _until(done) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.1)


def _state(client: Client) -> str:
    try:
        with urllib.request.urlopen(f"{client.server}/health") as answer:
            return json.load(answer)["state"]
    except urllib.error.HTTPError as error:
        return json.load(error)["state"]
