"""Flink as a rival in the benchmark peers, without Flink: what it is asked and given, what is read of it.

A program that takes the place of Flink's Python reads the same statements and answers them row by row.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import weft
from weft.cli import bench
from weft.errors import JobError
from weft.testing import write_parquet
from weft.testing.questions import sliding, text

PLACE_OF_FLINK = """
import json, re, sys
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path

found = {}

def create(statement):
    name, path = re.search(r"TABLE (?:IF NOT EXISTS )?(\\w+) .* 'path' = '(.*)'", statement).groups()
    found[name] = Path(path)

def insert(statement):
    into = re.search(r"INSERT INTO (\\w+)", statement)[1]
    interval = r"INTERVAL '(\\d+)' SECOND\\(3\\)"
    hops = re.findall(rf"HOP(?:_START)?\\(ts, {interval}, {interval}\\)", statement)
    assert len(hops) == 2 and hops[0] == hops[1], statement
    assert "sum(volume) AS shares, count(*) AS trades, max(price) AS top" in statement
    slide, length = (int(n) * 1000 for n in hops[0])
    windows = defaultdict(list)
    for file in found["trades"].iterdir():
        for line in file.read_text().splitlines():
            ms, symbol, price, volume = line.split(",")
            start = int(ms) // slide * slide
            while start > int(ms) - length:
                windows[symbol, start].append((float(price), int(volume)))
                start -= slide
    folder = found[into]
    folder.mkdir(parents=True)
    parts = [folder / "part-a-0-0", folder / "part-a-1-0"]
    for number, ((symbol, start), rows) in enumerate(windows.items()):
        at = datetime.fromtimestamp(start / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
        values = sum(v for _, v in rows), len(rows), max(p for p, _ in rows)
        with parts[number % 2].open("a") as out:
            print(symbol, f'"{at}"', *values, sep=",", file=out)

for line in sys.stdin:
    said = ""
    try:
        for kind, statements in json.loads(line).items():
            for statement in statements:
                {"create": create, "insert": insert}[kind](statement)
    except Exception as error:
        said = repr(error)
    print(json.dumps(said), flush=True)
"""


@pytest.fixture
def program(tmp_path):
    """Makes a program that stands for Flink's Python."""

    def made(lines):
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\n{lines}")
        path.chmod(0o755)
        return path

    return made


@pytest.fixture
def trades(tmp_path):
    (path,) = write_parquet(tmp_path / "trades", 4_000, files=1, rate=2.0)
    return str(path)


@pytest.fixture
def flink():
    bench.load("peers")
    return sys.modules["_flink"]


def test_flink_is_asked_what_weft_is(flink, program, trades, tmp_path):
    peers, questions = bench.load("peers"), sliding(10)
    expected = weft.run(weft.sql(text(questions)), weft.Files(trades), time="ts")
    with flink.serving(trades, tmp_path / "flink", program(PLACE_OF_FLINK)) as running:
        world = peers.World(trades, tmp_path, None, 0, running)
        for _ in range(2):
            answers = dict(peers.flink_streams(world, questions))
            assert list(answers) == [q.name for q in questions]
            assert {name: peers.summary(table) for name, table in answers.items()} == {
                name: peers.summary(table) for name, table in expected.items()
            }
    assert running.process.returncode == 0


def test_rows_are_the_same_in_parts_in_the_order_of_time(flink, trades, tmp_path, monkeypatch):
    monkeypatch.setattr(flink, "PARTS", 3)
    flink.write_rows(trades, tmp_path / "rows")
    names = ["ms", "symbol", "price", "volume"]
    options = pa.csv.ReadOptions(column_names=names)
    parts = [pa.csv.read_csv(tmp_path / "rows" / f"{n}.csv", options) for n in range(3)]
    assert all(part["ms"].to_pylist() == sorted(part["ms"].to_pylist()) for part in parts)
    given = pq.read_table(trades)
    ms = given["ts"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    rows = pa.table([ms, *(given[name] for name in names[1:])], names)
    order = [(name, "ascending") for name in names]
    assert pa.concat_tables(parts).sort_by(order).equals(rows.sort_by(order))


def test_a_question_without_an_answer_has_an_empty_table(flink):
    assert flink.read([]).equals(flink.ANSWERS.empty_table())


def test_an_error_of_flinks_is_an_error_here(flink, program, trades, tmp_path):
    refuses = "import json, sys\nfor line in sys.stdin: print(json.dumps('no such table'), flush=True)"
    with (
        pytest.raises(JobError, match="Flink did not run the queries:\nno such table"),
        flink.serving(trades, tmp_path / "flink", program(refuses)),
    ):
        pass


def test_a_process_that_ends_says_why(flink, program, trades, tmp_path):
    ends = "import sys\nsys.stdin.readline()\nsys.exit('no Java')"
    with (
        pytest.raises(JobError, match="Flink's process ended:\nno Java"),
        flink.serving(trades, tmp_path / "flink", program(ends)),
    ):
        pass
