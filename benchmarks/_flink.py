"""Flink as a rival in `peers`: its SQL, its input and its answers, through a process of its own.

PyFlink pins versions of NumPy and Arrow that weft excludes; `make flink` sets the environment up.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import duckdb
import pyarrow as pa
from pyarrow import csv

from weft.errors import JobError
from weft.testing.questions import Question

PYTHON = Path(__file__).resolve().parents[1] / ".venv-flink" / "bin" / "python"
PARTS = os.cpu_count() or 1
ANSWERS = pa.schema(
    {
        "symbol": pa.string(),
        "window_start": pa.timestamp("us"),
        "shares": pa.int64(),
        "trades": pa.int64(),
        "top": pa.float64(),
    }
)


@contextmanager
def serving(path: str, folder: Path, python: Path = PYTHON) -> Iterator[Flink]:
    """A process with a Flink cluster, which ends with the block.

    ``path`` is a Parquet file of trades in the order of time. Flink gets it as CSV: its wheel has no Parquet.
    """
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    write_rows(path, folder / "rows")
    program = [python, Path(__file__).with_name("_flink_process.py"), str(PARTS)]
    settings = {**os.environ, "JVM_ARGS": f"-Xmx6g -Djava.io.tmpdir={temporary}"}
    pipe = subprocess.PIPE
    with (
        (folder / "log").open("w+") as log,
        subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=log, text=True, env=settings) as process,
    ):
        flink = Flink(process, log, folder / "answers")
        flink.run([source(folder / "rows")], [])
        yield flink


@dataclass(frozen=True)
class Flink:
    """The running process, where it writes what it has to say, and where it puts answers."""

    process: subprocess.Popen[str]
    log: TextIO
    answers: Path

    def ask(self, questions: list[Question]) -> dict[str, pa.Table]:
        """The answers to all questions, found in one job."""
        shutil.rmtree(self.answers, ignore_errors=True)
        self.run([sink(q, self.answers) for q in questions], [insert(q) for q in questions])
        return {q.name: read((self.answers / q.name).glob("part-*")) for q in questions}

    def run(self, create: list[str], insert: list[str]) -> None:
        """Run the statements in the process; an error there is one here."""
        assert self.process.stdin and self.process.stdout
        print(json.dumps({"create": create, "insert": insert}), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            raise JobError(f"Flink's process ended:\n{self.log.read()[-2000:]}")
        if error := json.loads(line):
            raise JobError(f"Flink did not run the queries:\n{error[-2000:]}")


def write_rows(path: str, folder: Path) -> None:
    """The trades as one CSV file per reader. Each has rows of all times, so that no reader runs ahead."""
    folder.mkdir()
    for part in range(PARTS):
        duckdb.sql(
            f"COPY (SELECT epoch_us(ts) // 1000, symbol, price, volume "
            f"FROM read_parquet('{path}', file_row_number = true) WHERE file_row_number % {PARTS} = {part}) "
            f"TO '{folder}/{part}.csv' (HEADER false)"
        )


def source(folder: Path) -> str:
    """The trades as a table with a watermark."""
    return (
        "CREATE TABLE trades (ms BIGINT, symbol STRING, price DOUBLE, volume BIGINT, "
        "ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts) "
        f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder}')"
    )


def sink(question: Question, folder: Path) -> str:
    """A table for the answers to a question."""
    return (
        f"CREATE TABLE IF NOT EXISTS {question.name} "
        "(symbol STRING, window_start TIMESTAMP(3), shares BIGINT, trades BIGINT, top DOUBLE) "
        f"WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{folder / question.name}')"
    )


def insert(question: Question) -> str:
    """A question as Flink takes it.

    Its table function HOP wants the range to be a multiple of the slide; the older group window does not.

    >>> print(insert(Question("busy", ("sum(volume) AS shares",), range=720, slide=300)))
    INSERT INTO busy
    SELECT symbol, HOP_START(ts, INTERVAL '300' SECOND(3), INTERVAL '720' SECOND(3)), sum(volume) AS shares
    FROM trades GROUP BY symbol, HOP(ts, INTERVAL '300' SECOND(3), INTERVAL '720' SECOND(3))
    """
    slide, length = (f"INTERVAL '{n}' SECOND({len(str(n))})" for n in (question.slide, question.range))
    return (
        f"INSERT INTO {question.name}\n"
        f"SELECT symbol, HOP_START(ts, {slide}, {length}), {', '.join(question.values)}\n"
        f"FROM trades GROUP BY symbol, HOP(ts, {slide}, {length})"
    )


def read(files: Iterable[Path]) -> pa.Table:
    """The answers to one question, of which each task of Flink's writes files of its own."""
    options = csv.ReadOptions(column_names=ANSWERS.names), None, csv.ConvertOptions(column_types=ANSWERS)
    return pa.concat_tables([ANSWERS.empty_table(), *(csv.read_csv(file, *options) for file in files)])
