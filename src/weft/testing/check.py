"""``check_query``: a unit test of a query: given rows, expect answers."""

from __future__ import annotations

import datetime
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Unpack

import pyarrow as pa

from weft.errors import LateRowsWarning
from weft.io.arrow import Batch, as_table
from weft.local.run_queries import run
from weft.model.duration import parse_optional
from weft.model.join import RESULT_TIME, JoinQuery
from weft.model.query import Query
from weft.runner.options import RunOptions, with_options
from weft.sql.read import QueryInput
from weft.testing.brute_force.windows import micros
from weft.testing.compare import differences
from weft.testing.literals import WINDOW_BOUNDS, Row, RowSource, header, read_rows
from weft.testing.streams import StreamRows, is_table, read_streams, read_test_query, time_columns

MAX_LINES = 20
"""Differences that a message lists."""

MAX_BATCHES = 6
"""Batches that a random split makes of a stream."""


class Arrival(NamedTuple):
    """The batches of each stream in order of arrival, and in words how they were made."""

    batches: Mapping[str, list[pa.Table]]
    description: str


@with_options(RunOptions)
def check_query(
    query: str | QueryInput,
    rows: StreamRows | Mapping[str, StreamRows],
    answers: RowSource | Batch,
    time: str | Mapping[str, str] = "ts",
    lateness: str | datetime.timedelta | None = None,
    *,
    splits: int = 0,
    seed: int = 0,
    **options: Unpack[RunOptions],
) -> None:
    """Run a query over rows with `weft.run`; AssertionError, with the differences, where its answers differ.

    Rows and answers are text as `rows` reads it, dictionaries, or tables; rows also a list of tables, the
    batches in order of arrival, or a mapping from each stream to one of these. Answers come in any order,
    floats may differ by 1e-9, relative, and only the columns that they name are compared. ``splits`` more
    runs have the rows in random batches and orders, of ``seed``: in any order, or where a ``lateness`` is
    given, none later than that.

    >>> from weft.testing import check_query
    >>> trades = '''
    ...     ts     symbol  price
    ...     00:01  A       10.0
    ...     00:04  A       12.0
    ...     00:07  B       11.0
    ... '''
    >>> check_query(
    ...     "SELECT symbol, max(price) AS top FROM trades [RANGE '5 min'] GROUP BY symbol",
    ...     trades,
    ...     '''
    ...     symbol  window_start  window_end  top
    ...     A       00:00         00:05       12.0
    ...     B       00:05         00:10       11.0
    ...     ''',
    ...     splits=5,
    ... )
    """
    question = read_test_query(query)
    streams = read_streams(question, rows, time)
    expected, columns = _expected(question, answers)
    keys = [name for name in (*question.result_keys, *WINDOW_BOUNDS) if name in columns]
    times, source = time_columns(question, time), random.Random(seed)
    arrivals = [Arrival(streams, "")]
    arrivals += [
        _shuffled(streams, times, parse_optional(lateness, "lateness"), source, _counts_rows(question))
        for _ in range(splits)
    ]
    for batches, description in arrivals:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LateRowsWarning)
            results = run([question], batches, times, lateness, **options)
        table = results[question.name].select(columns)
        lines = list(differences(table.to_pylist(), expected, keys))
        if lines:
            remarks = [f"{results.late} of {results.rows} rows came too late"] if results.late else []
            raise AssertionError(_message(question.name, lines, [*remarks, description]))


def _expected(query: Query | JoinQuery, answers: RowSource | Batch) -> tuple[list[Row], list[str]]:
    """Return the rows that a test expects, and the columns that it names: all where there is no row."""
    if not isinstance(answers, str) and is_table(answers):
        table = as_table(answers)
        rows, columns = table.to_pylist(), table.column_names
    else:
        rows = read_rows(answers, (RESULT_TIME,) if isinstance(query, JoinQuery) else ())
        names = header(answers) if isinstance(answers, str) else [name for row in rows for name in row]
        columns = list(dict.fromkeys(names)) or list(query.result_columns)
    unknown = [name for name in columns if name not in query.result_columns]
    if unknown:
        raise AssertionError(
            f"query '{query.name}' has no column {unknown[0]!r}; it has {', '.join(query.result_columns)}"
        )
    return rows, columns


def _shuffled(
    streams: Mapping[str, list[pa.Table]],
    times: Mapping[str, str],
    lateness: int | None,
    source: random.Random,
    keep_ties: bool,
) -> Arrival:
    """Return the rows of each stream in a random order, none later than the lateness, in random batches."""
    batches, sizes = {}, []
    for name, parts in streams.items():
        table = pa.concat_tables(parts)
        order = _order([micros(value) for value in _times(table, times[name])], lateness, source, keep_ties)
        cuts = sorted(source.randint(0, len(order)) for _ in range(source.randrange(MAX_BATCHES)))
        table = table.take(pa.array(order, pa.int64()))
        batches[name] = [table.slice(low, high - low) for low, high in pairwise([0, *cuts, len(order)])]
        sizes.append(f"'{name}' in batches of {', '.join(str(b.num_rows) for b in batches[name])} rows")
    return Arrival(batches, f"with {' and '.join(sizes)}, in another order")


def _order(
    instants: Sequence[int | None], lateness: int | None, source: random.Random, keep_ties: bool
) -> list[int]:
    """Return the numbers of the rows in a random order of arrival.

    Each row is delayed by at most the lateness, so that none comes behind a row that is later by more.
    ``keep_ties`` leaves rows of one time in their order, which windows counted in rows depend on.
    """
    order = list(range(len(instants)))
    source.shuffle(order)
    if lateness is not None:
        last = max((instant for instant in instants if instant is not None), default=0)
        arrivals = [(last if t is None else t) + source.randint(0, lateness) for t in instants]
        order.sort(key=arrivals.__getitem__)
    if keep_ties:
        by_time: dict[int | None, list[int]] = {}
        for row in sorted(order, reverse=True):
            by_time.setdefault(instants[row], []).append(row)
        order = [by_time[instants[row]].pop() for row in order]
    return order


def _times(table: pa.Table, time: str) -> Iterable[datetime.datetime | None]:
    column = table.column(time)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.to_pylist()


def _counts_rows(query: Query | JoinQuery) -> bool:
    """Return whether the windows of a query are counted in rows."""
    window_query = query.aggregate if isinstance(query, JoinQuery) else query
    return window_query is not None and window_query.window.rows


def _message(name: str, lines: Sequence[str], remarks: Sequence[str]) -> str:
    """Return the text of the error: how the answers differ, and what else a person should know."""
    shown = [*lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(f"... and {len(lines) - MAX_LINES} more")
    shown += [remark for remark in remarks if remark]
    return "\n  ".join([f"query '{name}' gives other answers:", *shown])
