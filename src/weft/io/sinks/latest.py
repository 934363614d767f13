"""The latest results of each query, kept in memory beside a job's own sink."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.model.join import time_column

DEFAULT_LATEST_ROWS = 1000
MAX_WINDOW_ROWS = 100_000
"""Rows of the latest window that are kept, where it has more than are to be kept in all."""

MAX_FOLLOWED_GROUPS = 256
"""Groups whose latest results are kept apart at once."""

Group: TypeAlias = tuple[tuple[str, Any], ...]
"""Columns that a query groups by, and their values."""


@dataclass(slots=True)
class _Ring:
    """A query's latest steps with results, oldest first."""

    schema: pa.Schema
    steps: deque[tuple[int, pa.Table]] = field(default_factory=deque)

    def put(self, seq: int, table: pa.Table, most: int) -> None:
        self.steps.append((seq, table))
        self._merge(most // 8)
        rows = sum(table.num_rows for _, table in self.steps)
        while rows - self.steps[0][1].num_rows >= most:
            rows -= self.steps.popleft()[1].num_rows

    def _merge(self, most: int) -> None:
        """Bring small steps together, but for the newest."""
        if len(self.steps) < 4:
            return
        (_, older), (seq, newer) = self.steps[-4], self.steps[-3]
        if older.num_rows + newer.num_rows <= most:
            self.steps[-4] = (seq, pa.concat_tables([older, newer]).combine_chunks())
            del self.steps[-3]

    @property
    def table(self) -> pa.Table:
        return pa.concat_tables([self.schema.empty_table(), *(t for _, t in self.steps)])


class LatestSink:
    """At least the latest ``rows`` results of each query, with all groups of its latest window, and of
    single groups the latest ``rows`` from when they are first asked for.

    A step that is not newer than all that were delivered was delivered before, and is passed over.

    >>> sink = LatestSink(rows=2)
    >>> sink.open({"q": pa.schema({"window_end": pa.int64(), "k": pa.string()})}, stream="run")
    >>> for seq in range(1, 5):
    ...     sink.deliver({"q": pa.table({"window_end": [seq] * 3, "k": ["a", "b", "c"]})}, seq)
    >>> sink.table("q").column("window_end").to_pylist(), sink.delivered["q"], sink.windows["q"]
    ([4, 4, 4], 12, 4)
    """

    def __init__(self, rows: int = DEFAULT_LATEST_ROWS) -> None:
        self.rows = rows
        self.delivered: Counter[str] = Counter()
        self.windows: Counter[str] = Counter()
        self._last_step = 0
        self._rings: dict[str, _Ring] = {}
        self._followed: OrderedDict[tuple[str, Group], _Ring] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make ready for new queries; results of queries that were dropped are forgotten."""
        with self._lock:
            old = self._rings
            self._rings = {
                name: old[name] if name in old and old[name].schema == schema else _Ring(schema)
                for name, schema in schemas.items()
            }
            self.delivered = Counter({name: self.delivered[name] for name in schemas})
            self.windows = Counter({name: self.windows[name] for name in schemas})
            for name in old.keys() - {n for n, ring in self._rings.items() if ring is old.get(n)}:
                self._unfollow(name)

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Keep the step's results."""
        with self._lock:
            if seq <= self._last_step:
                return
            self._last_step = seq
            for (name, group), ring in self._followed.items():
                if name in results and (matches := of_group(results[name], group)).num_rows:
                    ring.put(seq, _latest(matches, self.rows)[0], self.rows)
            for name, table in results.items():
                if table.num_rows:
                    self.delivered[name] += table.num_rows
                    latest, windows = _latest(table, self.rows, MAX_WINDOW_ROWS)
                    self.windows[name] += windows
                    self._rings.setdefault(name, _Ring(table.schema)).put(seq, latest, self.rows)

    def rewind(self, after: int) -> None:
        """Forget all results where there are later ones: what is still there would be no latest rows."""
        with self._lock:
            if self._last_step > after:
                self.delivered.clear()
                self.windows.clear()
                self._followed.clear()
                for ring in self._rings.values():
                    ring.steps.clear()

    def close(self) -> None:
        """Nothing to do: the results stay."""

    def forget(self, name: str) -> None:
        """Forget the results of a query, for another that takes its place."""
        with self._lock:
            self.delivered.pop(name, None)
            self.windows.pop(name, None)
            self._unfollow(name)
            if name in self._rings:
                self._rings[name].steps.clear()

    def table(self, name: str) -> pa.Table | None:
        """The latest results of a query, oldest first; None for one that has not been opened."""
        with self._lock:
            ring = self._rings.get(name)
            return None if ring is None else ring.table

    def series(self, name: str, group: Group) -> pa.Table | None:
        """The latest results of one group, oldest first, which is followed from now on; None as above.

        One that nobody has asked for in a long time makes room for others.
        """
        with self._lock:
            series, ring = self._followed.get((name, group)), self._rings.get(name)
            if series is None:
                if ring is None:
                    return None
                series = _Ring(ring.schema)
                for seq, table in ring.steps:
                    if (matches := of_group(table, group)).num_rows:
                        series.put(seq, matches, self.rows)
                self._followed[name, group] = series
            self._followed.move_to_end((name, group))
            if len(self._followed) > MAX_FOLLOWED_GROUPS:
                self._followed.popitem(last=False)
            return series.table

    def newest(self, name: str) -> int:
        """The number of the latest step with results of a query; 0 for none."""
        with self._lock:
            ring = self._rings.get(name)
            return ring.steps[-1][0] if ring is not None and ring.steps else 0

    def _unfollow(self, name: str) -> None:
        for key in [key for key in self._followed if key[0] == name]:
            del self._followed[key]


def of_group(table: pa.Table, group: Group) -> pa.Table:
    """The rows of one group; null is a value as others are.

    >>> of_group(pa.table({"k": ["a", None, "a"], "n": [1, 2, 3]}), (("k", None),)).column("n").to_pylist()
    [2]
    """
    for column, value in group:
        values = pa.array([value], table.schema.field(column).type)
        table = table.filter(pc.is_in(table.column(column), value_set=values, skip_nulls=False))
    return table


def _latest(table: pa.Table, rows: int, of_last_window: int = 0) -> tuple[pa.Table, int]:
    """The latest rows of a step, by the ends of their windows, and how many windows the step answered.

    There are more of them where the last window has more, up to a bound of its own.
    """
    ends = table.column(time_column(table.column_names)).cast(pa.int64()).to_numpy()
    # Buckets come one by one, each in order.
    order = np.argsort(ends, kind="stable")
    ends = ends[order]
    last_window = len(ends) - int(np.searchsorted(ends, ends[-1]))
    first = max(0, len(ends) - max(rows, min(of_last_window, last_window)))
    # Taken, not sliced: a slice would keep all of the step's memory.
    return table.take(pa.array(order[first:])), 1 + int(np.count_nonzero(np.diff(ends)))
