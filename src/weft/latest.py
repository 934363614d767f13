"""The latest results of each query, kept in memory beside a job's own sink."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

KEPT = 1000


@dataclass(slots=True)
class _Ring:
    """A query's latest steps with results, oldest first."""

    schema: pa.Schema
    steps: deque[tuple[int, pa.Table]] = field(default_factory=deque)

    def put(self, seq: int, table: pa.Table, most: int) -> None:
        while self.steps and self.steps[-1][0] >= seq:
            self.steps.pop()
        first = max(0, table.num_rows - most)
        # Taken, not sliced: a slice would keep all of the step's memory.
        self.steps.append((seq, table.take(pa.array(range(first, table.num_rows), pa.int64()))))
        rows = sum(kept.num_rows for _, kept in self.steps)
        while rows - self.steps[0][1].num_rows >= most:
            rows -= self.steps.popleft()[1].num_rows


class LatestSink:
    """Keeps at least the latest ``rows`` results of each query, and never twice as many.

    >>> sink = LatestSink(rows=2)
    >>> sink.open({"q": pa.schema({"n": pa.int64()})}, stream="run")
    >>> for seq in range(1, 5):
    ...     sink.deliver({"q": pa.table({"n": [seq, -seq]})}, seq)
    >>> sink.table("q").column("n").to_pylist(), sink.delivered["q"]
    ([4, -4], 8)
    """

    def __init__(self, rows: int = KEPT) -> None:
        self.rows = rows
        self.delivered: Counter[str] = Counter()
        self._rings: dict[str, _Ring] = {}
        self._lock = threading.Lock()

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Make ready for new queries; what queries that left have given is forgotten."""
        with self._lock:
            old = self._rings
            self._rings = {
                name: old[name] if name in old and old[name].schema == schema else _Ring(schema)
                for name, schema in schemas.items()
            }
            self.delivered = Counter({name: self.delivered[name] for name in schemas})

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Keep the step's results."""
        with self._lock:
            for name, table in results.items():
                if table.num_rows:
                    self.delivered[name] += table.num_rows
                    self._rings.setdefault(name, _Ring(table.schema)).put(seq, table, self.rows)

    def close(self) -> None:
        """Nothing to do: the results stay."""

    def forget(self, name: str) -> None:
        """Forget the results of a query, for another that takes its place."""
        with self._lock:
            self.delivered.pop(name, None)
            if name in self._rings:
                self._rings[name].steps.clear()

    def table(self, name: str) -> pa.Table | None:
        """The latest results of a query, oldest first; None for one that has not been opened."""
        with self._lock:
            ring = self._rings.get(name)
            tables = None if ring is None else [ring.schema.empty_table(), *(t for _, t in ring.steps)]
        return None if tables is None else pa.concat_tables(tables)
