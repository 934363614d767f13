"""``run``: queries over one stream or several, to their end, in this process."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

import pyarrow as pa

from weft.errors import JobError
from weft.io.arrow import Batch
from weft.io.files import Chunk
from weft.local import run as local
from weft.local.batches import as_chunks, is_bounded
from weft.local.join_run import JoinRun
from weft.local.results import Results
from weft.local.run import answered
from weft.model.names import time_of
from weft.model.query import Query
from weft.planning.plan import Plan
from weft.runner.options import RunOptions, filled, with_options
from weft.sql.read import QueryInput, built


@with_options(RunOptions)
def run(
    queries: Iterable[QueryInput] | Plan,
    batches: Batch | Iterable[Batch] | Mapping[str, Batch | Iterable[Batch]],
    time: str | Mapping[str, str],
    lateness: str | datetime.timedelta | None = None,
    **options: Unpack[RunOptions],
) -> Results:
    """Answer queries over a table, or over batches in order of arrival; all windows are closed at the end.

    Input that ends (tables, a list of them, `Files`, a topic as it is now) loses no row, whatever its order:
    a window is answered once no row of it can be unread. Give ``lateness`` to have rows dropped that come so
    much behind the latest; of an iterator, whose end nobody knows, all that come behind the latest are
    (``lateness="0 s"``). How many were late is ``late`` of the results, with a warning.

    For joins ``batches`` is a mapping from each stream to its table or batches. ``time`` names the time
    column, of all streams or of each.

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
    if isinstance(queries, Plan):
        if isinstance(batches, Mapping) or not isinstance(time, str):
            raise JobError("a plan runs over one stream; give queries to run over several")
        return local.run(queries, batches, time, lateness, **options)
    built_queries = [built(q) for q in queries]
    plain = [q for q in built_queries if isinstance(q, Query)]
    if not isinstance(batches, Mapping):
        if len(plain) < len(built_queries) or not isinstance(time, str):
            raise JobError(
                "a join needs its streams by name; give {'temperature': batches, 'humidity': batches}"
            )
        return local.run(plain, batches, time, lateness, **options)
    if len(batches) == 1 and len(plain) == len(built_queries):
        ((stream, only),) = batches.items()
        column = time if isinstance(time, str) else time_of(time, stream)
        return local.run(plain, only, column, lateness, streams=batches, **options)
    bounded = [stream for stream, source in batches.items() if is_bounded(source)]
    runner = JoinRun(built_queries, time, lateness, bounded=bounded, streams=batches, **options)
    return _run_all(runner, batches, time)


def _run_all(
    runner: JoinRun, batches: Mapping[str, Batch | Iterable[Batch]], time: str | Mapping[str, str]
) -> Results:
    """Feed every batch, always of the stream that is furthest behind, so that little has to be kept."""
    column = {s: time if isinstance(time, str) else time_of(time, s) for s in runner.streams}
    left: dict[str, Iterator[Chunk]] = {s: as_chunks(batches[s], column[s]) for s in runner.streams}
    results: dict[str, list[pa.Table]] = {name: [] for name in runner.names}
    try:
        while left:
            behind = min(left, key=lambda s: (runner.watermark(s) is not None, runner.watermark(s) or 0, s))
            batch = next(left[behind], None)
            if batch is None:
                del left[behind]
                continue
            for name, table in runner.step({behind: batch}).items():
                results[name].append(table)
        for name, table in runner.close().items():
            results[name].append(table)
        errors = runner.errors
        schemas = {name: runner.result_schema(name) for name in runner.names if name not in errors}
    finally:
        runner.shutdown()
    return answered(schemas.__getitem__, results, errors, runner.seen, runner.skipped)
