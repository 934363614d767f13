"""``run``: any mix of queries over one stream or several, to their end, in this process."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Unpack

import pyarrow as pa

from weft.errors import JobError, LateRowsWarning, late_message
from weft.io.arrow import Batch
from weft.local.committing import LocalCommits
from weft.local.feed import Feed, Reads
from weft.local.file_history import PositionLog
from weft.local.readers import InputReader, reader_of
from weft.local.results import Results
from weft.local.running import LocalRun, LocalSetup, StepOutcome
from weft.model.duration import parse_optional
from weft.model.join import JoinQuery
from weft.model.names import time_of
from weft.operators.contract import Failed
from weft.operators.times import Seen
from weft.planning.plan import Plan
from weft.runner.delivery import read_step
from weft.runner.lateness import Lateness, read_lateness, time_rules
from weft.runner.memory import without_collections
from weft.runner.options import RunOptions, filled, with_options
from weft.runner.program import UNNAMED
from weft.runner.running_queries import RunningQueries
from weft.sql.read import QueryInput
from weft.store.log import BATCH, FLUSH

SMALL_RESULT_ROWS = 256
"""Rows of a result table below which many are copied into one."""


@with_options(RunOptions)
def run(
    queries: Iterable[QueryInput] | Plan | str,
    batches: Batch | Iterable[Batch] | Mapping[str, Batch | Iterable[Batch]],
    time: str | Mapping[str, str],
    lateness: Lateness = None,
    **options: Unpack[RunOptions],
) -> Results:
    """Answer queries over a table, or over batches in order of arrival; all windows are closed at the end.

    Input that ends (tables, a list of them, `Files`, a topic as it is now) loses no row, whatever its order:
    a window is answered once no row of it can be unread. Give ``lateness``, for all streams or by name, to
    have rows dropped that come so much behind the latest; of an iterator, whose end nobody knows, all that
    come behind the latest are (``lateness="0 s"``). How many were late is ``late`` of the results, with a
    warning.

    Over several streams, which joins need, ``batches`` is a mapping from each stream to its table or batches.
    ``time`` names the time column, of all streams or of each.

    With a ``checkpoint`` the windows still open at the end stay so, for the run that goes on with it. A run
    that was interrupted is given the same tables again: it skips those that it had taken, and returns
    everything that has been answered since a run last came to its end.

    >>> import datetime, weft
    >>> ts = [datetime.datetime(2024, 1, 1, 0, minute) for minute in (1, 4, 7)]
    >>> trades = pa.table({"ts": ts, "price": [10.0, 12.0, 11.0]})
    >>> queries = weft.sql("SELECT max(price) AS top FROM trades [RANGE '5 min']")
    >>> weft.run(queries, trades, time="ts")["q1"].column("top").to_pylist()
    [12.0, 11.0]
    >>> quotes = pa.table({"ts": ts[1:2], "bid": [11.5]})
    >>> near = weft.sql('''SELECT t.price, q.bid FROM trades t [RANGE '4 min'], quotes q [RANGE '1 min']
    ...                    WHERE t.price < q.bid''')
    >>> weft.run(near, {"trades": trades, "quotes": quotes}, time="ts")["q1"].column("price").to_pylist()
    [10.0]
    """
    options = filled(RunOptions, options, "run")
    named = isinstance(batches, Mapping)
    sources: Mapping[str, Any] = batches if isinstance(batches, Mapping) else {UNNAMED: batches}
    if not named and not isinstance(time, str):
        raise JobError("one stream has one time column; give time='ts'")
    times = {name: time if isinstance(time, str) else time_of(time, name) for name in sources}
    place = options["checkpoint"]
    commits = None if place is None else LocalCommits(place)
    log = None if commits is None else commits.positions
    readers = {name: _reader_of(name, source, times[name], log) for name, source in sources.items()}
    schemas = {name: reader.schema for name, reader in readers.items()}
    setup = LocalSetup.of(queries, schemas if named else schemas[UNNAMED], times if named else time, options)
    if not named and any(isinstance(query, JoinQuery) for query in setup.queries):
        raise JobError("a join needs its streams by name; give {'temperature': batches, 'humidity': batches}")
    bounded = [name for name, reader in readers.items() if reader.bounded]
    ahead = parse_optional(options["max_ahead"], "max_ahead")
    rules = time_rules(read_lateness(lateness, schemas), ahead, None, bounded, goes_on=commits is not None)
    with ThreadPoolExecutor(1) as worker, without_collections():
        if commits is None:
            program = setup.compiler.compile(setup.queries)
            runner = LocalRun.of(RunningQueries(setup.compiler, program), setup, rules)
        else:
            runner = commits.open(setup, rules)
        feed = Feed(readers, runner.columns, {} if commits is None else commits.offsets())
        try:
            return _Run(runner, feed, commits, options["close_at_end"]).results(worker)
        finally:
            runner.shutdown()


def _reader_of(name: str, source: Any, time: str, log: PositionLog | None) -> InputReader:
    try:
        return reader_of(source, time, log=log)
    except JobError as error:
        if not name:
            raise
        raise JobError(f"the stream {name!r}: {error}") from error


class _Run:
    """One call of ``run``."""

    def __init__(
        self, runner: LocalRun, feed: Feed, commits: LocalCommits | None, close_at_end: bool | None
    ) -> None:
        self.runner, self.feed, self.commits = runner, feed, commits
        self.closes = commits is None if close_at_end is None else close_at_end
        self.answers: dict[str, list[pa.Table]] = {q.name: [] for q in runner.program.queries}
        self.before = runner.seen

    def results(self, worker: ThreadPoolExecutor) -> Results:
        """Take everything in; the next batch is read, in this thread, while the last one is worked on."""
        step: Future[None] | None = None
        schema_of = {q.name: self.runner.program.result_schema(q.name) for q in self.runner.program.queries}
        for reads in self.feed.in_turn(self._mark):
            if step is not None:
                step.result()
            if len(self.feed.readers) > 1:
                self._take(reads)  # which stream comes next is known after it
            else:
                step = worker.submit(self._take, reads)
        if step is not None:
            step.result()
        self._end()
        schema_of |= {q.name: self.runner.program.result_schema(q.name) for q in self.runner.program.queries}
        if self.commits is not None:
            self._collect_committed(schema_of)
        return answered(
            schema_of, self.answers, self.runner.errors, self.runner.seen - self.before, self.runner.skipped
        )

    def _mark(self, stream: str) -> int | None:
        time = self.runner.streams.get(stream)
        return None if time is None else time.mark

    def _take(self, reads: Reads) -> None:
        outcome = self.runner.take({name: read.chunk for name, read in reads.items()})
        positions = {name: read.position for name, read in reads.items()}
        self._keep(BATCH, outcome, positions)

    def _end(self) -> None:
        """Answer what is open, unless another run goes on; commit that this one's input is read."""
        if self.commits is None:
            if self.closes:
                self._keep(FLUSH, self.runner.take_end(), {})
            return
        outcome = self.runner.take_flush() if self.closes else None
        kind = BATCH if outcome is None else FLUSH
        positions = self.feed.positions_at_end()
        if outcome is not None or positions != self.commits.offsets():
            self._keep(kind, outcome or self.runner.take({}), positions)

    def _keep(self, kind: str, outcome: StepOutcome, positions: Mapping[str, Any]) -> None:
        if self.commits is not None:
            self.commits.commit(self.runner, outcome, kind, positions)
            return
        for name, tables in outcome.answers.items():
            self.answers.setdefault(name, []).extend(tables)

    def _collect_committed(self, schemas: dict[str, pa.Schema]) -> None:
        """Collect what was committed since a run last returned: the caller is the sink."""
        assert self.commits is not None
        checkpoint = self.commits.checkpoint
        for entry in checkpoint.undelivered():
            results, _ = read_step(checkpoint.place, entry)
            for name, table in results.items():
                self.answers.setdefault(name, []).append(table)
                schemas.setdefault(name, table.schema)
            checkpoint.mark_delivered(entry.seq)
        checkpoint.close()


def answered(
    schemas: Mapping[str, pa.Schema],
    results: Mapping[str, list[pa.Table]],
    errors: Failed,
    seen: Seen,
    skipped: Sequence[str],
) -> Results:
    """Return the results of queries at the end of a run, without those that failed, and the counts of rows.

    Raises where all queries failed; warns of those that did, and of rows that came too late.
    """
    left = {name: tables for name, tables in results.items() if name not in errors}
    if errors and not left:
        raise next(iter(errors.values()))
    for error in errors.values():
        warnings.warn(f"{error}; it has no results", RuntimeWarning, stacklevel=5)
    if seen.late:
        warnings.warn(late_message(seen.late, seen.rows), LateRowsWarning, stacklevel=5)
    tables = {name: _joined(schemas[name], parts) for name, parts in left.items()}
    answers = Results(tables, errors)
    answers.rows, answers.late, answers.untimed = seen.rows, seen.late, seen.untimed
    answers.bad, answers.ahead, answers.skipped_files = seen.bad, seen.ahead, tuple(skipped)
    return answers


def _joined(schema: pa.Schema, tables: list[pa.Table]) -> pa.Table:
    """Return one table of many; copied only where they are small."""
    whole = pa.concat_tables([schema.empty_table(), *tables])
    return whole.combine_chunks() if whole.num_rows < SMALL_RESULT_ROWS * len(tables) else whole
