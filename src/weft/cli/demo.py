"""The demo: many different questions about generated trades in one run, and a sample of them run alone.

The sample says what the rest would have cost; it is run one query at a time, warm, on the same rows.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from weft.cli.bench import stopwatch
from weft.errors import WeftError
from weft.io.files import Files
from weft.io.files.kind import FromFiles
from weft.io.settings import Options
from weft.io.sinks import MemorySink
from weft.io.sinks.memory import ToMemory
from weft.io.sources.generate import write_parquet
from weft.jobs import launch
from weft.jobs.job import Job, Spark, Stream
from weft.jobs.report import Report, step_bar
from weft.local.run_queries import run as run_in_process
from weft.planning.planner import plan
from weft.sql import sql
from weft.testing.questions import Question, text, varied

TRADES_PER_SECOND = 200.0
"""Two million trades cover almost three hours."""

FILE_COUNT = 8
WARM_UP_TRADES = 1000
"""Trades that everything is started and loaded with before the clock runs."""

SAMPLED_QUERIES = 8


def run(queries: int, rows: int, engine: str, console: Console) -> None:
    """Run the demo and print what it shows."""
    questions = varied(queries)
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        minutes = rows / TRADES_PER_SECOND / 60
        _say(console, f"Generating {rows:,} trades of 500 symbols, {minutes:,.0f} minutes of them ...")
        write_parquet(folder, rows, files=FILE_COUNT, rate=TRADES_PER_SECOND)
        _say(console, f"{queries:,} queries, for example")
        example = questions[0].sql()
        if console.is_terminal:
            console.print(Syntax(example, "sql", background_color="default"))
        else:
            console.out(example, highlight=False)
        _say(console, str(plan(sql(text(questions)), rate=TRADES_PER_SECOND)).splitlines()[0])
        where = "on Spark (local)" if engine == "spark" else "in this process"
        answers, seconds = _together(questions, Path(folder), engine, where, console)
        console.print(_sample_table(questions, answers))
        _compare(questions, Path(folder), engine, answers, seconds, console)


def _together(
    questions: Sequence[Question], folder: Path, engine: str, where: str, console: Console
) -> tuple[dict[str, pa.Table], float]:
    """Run every query in one run: the answers, and the seconds it took once everything was warm."""
    _say(console, f"Warming up with {WARM_UP_TRADES:,} trades ...")
    with tempfile.TemporaryDirectory(prefix="weft-warm-") as few:
        write_parquet(few, WARM_UP_TRADES, rate=TRADES_PER_SECOND)
        launch.run(_job(questions, Path(few)), engine, Report(Console(quiet=True)))
    _say(console, f"One stream answers all of them {where}:")
    with Report(console, brief=True) as report, stopwatch() as elapsed:
        sink = launch.run(_job(questions, folder), engine, report)
    assert isinstance(sink, MemorySink)
    return sink.tables, elapsed()


def _job(questions: Sequence[Question], folder: Path) -> Job:
    return Job(
        sources={"": FromFiles(folder, max_files_per_batch=1)},
        stream=Stream("ts"),
        sql=text(questions),
        sink=ToMemory(),
        spark=Spark(conf=Options({"spark.driver.memory": "2g"})),
    )


def _compare(
    questions: Sequence[Question],
    folder: Path,
    engine: str,
    answers: dict[str, pa.Table],
    seconds: float,
    console: Console,
) -> None:
    """Run a sample of the queries one by one, check its answers, and say what all would have taken."""
    sample = questions[:: max(1, len(questions) // SAMPLED_QUERIES)][:SAMPLED_QUERIES]
    ask, how = _alone(folder, engine)
    durations = []
    ask(sample[0])
    with step_bar(Console(stderr=True)) as progress:
        for done, question in enumerate(sample):
            progress(f"{how}: {question.name}", done, len(sample))
            with stopwatch() as elapsed:
                alone = ask(question)
            durations.append(elapsed())
            check(question, alone, answers[question.name])
    mean = sum(durations) / len(durations)
    _say(
        console,
        f"{len(sample)} of the {len(questions)} queries, run one by one {how}, took {mean:.2f} s each "
        f"({min(durations):.2f} to {max(durations):.2f} s), with the same answers.",
    )
    _say(
        console,
        f"weft ran all {len(questions)} in {seconds:.1f} s; one by one they would take about "
        f"{mean * len(questions):.0f} s: [bold]{mean * len(questions) / seconds:.1f} times[/bold] as long.",
    )


def _alone(folder: Path, engine: str) -> tuple[Callable[[Question], pa.Table], str]:
    """Return a function that asks one query alone, and the name of that way."""
    if engine == "local":
        files = Files(folder)
        return lambda q: run_in_process(sql(text([q])), files, time="ts")[q.name], "by weft itself"
    from weft.spark import session

    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", 4)
    spark.read.parquet(str(folder)).createOrReplaceTempView("trades")
    return lambda q: spark.sql(q.spark_sql()).toArrow(), "as native Spark batch queries"


def check(question: Question, alone: pa.Table, shared: pa.Table) -> None:
    """Raise unless both tables hold the same answers, in whatever order.

    >>> asked = Question("n", ("count(*) AS trades",), 60, 60, group_by=())
    >>> one, other = {"window_start": [1, 2], "trades": [3, 4]}, {"window_start": [2, 1], "trades": [4, 3]}
    >>> check(asked, pa.table(one), pa.table(other))
    """
    keys = [*question.group_by, "window_start"]
    one, other = (t.to_pandas().sort_values(keys, ignore_index=True) for t in (alone, shared))
    try:
        pd.testing.assert_frame_equal(one, other, check_dtype=False, rtol=1e-9, atol=1e-9)
    except AssertionError as error:
        raise WeftError(f"query '{question.name}' alone and shared differ: {error}") from error


def _sample_table(questions: Sequence[Question], answers: dict[str, pa.Table]) -> Table:
    """The latest answers of one query by symbol."""
    chosen = next((q for q in questions if q.group_by == ("symbol",) and not q.where), questions[0])
    latest = answers[chosen.name].to_pandas().tail(500)
    order = latest.columns[-1]
    top = latest[latest.window_start == latest.window_start.max()].nlargest(5, order)
    table = Table(*top.columns, title=f"{chosen.name}: one window of {len(answers[chosen.name]):,} answers")
    for row in top.itertuples(index=False):
        table.add_row(*map(_cell, row))
    return table


def _say(console: Console, line: str) -> None:
    """A line that is not broken: a terminal does that itself, a file or a pipe gets it whole."""
    console.print(line, highlight=False, soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return f"{value:,.2f}" if isinstance(value, float | np.floating) else str(value)
