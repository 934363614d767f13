"""Delivery of committed steps: from files that do not change to a sink, as often as it takes.

A step is committed first. What it answered is then read from its files and handed to the sinks, which change
nothing where they have it already. Whoever goes on with a checkpoint begins with what was committed and may
not have been delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import CheckpointError, JobError, WeftError
from weft.io.sinks import RewindingSink, Sink
from weft.model.join import RESULT_TIME
from weft.runner.late import late_tables
from weft.runner.program import Program
from weft.store.answers import RESULT_ROWS, read_answers
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry

Tables = Mapping[str, pa.Table]


class Delivery:
    """The sink of a stream's results, which knows the stream by name, and the one of its late rows."""

    def __init__(self, sink: Sink, stream: str, late: Sink | None = None) -> None:
        self.sink, self.stream, self.late = sink, stream, late
        self._opened: Mapping[str, pa.Schema] | None = None
        self._schemas: dict[str, tuple[Any, pa.Schema]] = {}

    def open(self, program: Program) -> None:
        """Make sinks ready for the queries of a program, where these are others than before."""
        before, first = self._schemas, self._opened is None
        # Schemas of thousands of queries are worked out once.
        self._schemas = {
            q.name: before[q.name]
            if q.name in before and before[q.name][0] is q
            else (q, program.result_schema(q.name))
            for q in program.queries
        }
        self._open({name: schema for name, (_, schema) in self._schemas.items()})
        if first and self.late is not None:
            open_sink(self.late, late_tables(program.schemas), self.stream)

    def catch_up(self, checkpoint: Checkpoint, program: Program) -> None:
        """Bring sinks to where a checkpoint is: taken back after a rollback, given what they may lack."""
        self.open(program)
        rewind = None if checkpoint.last is None else checkpoint.last.rewind
        if rewind is not None:
            for sink in self._sinks():
                if isinstance(sink, RewindingSink):
                    sink.rewind(rewind)
        current = self._opened or {}
        for entry in checkpoint.undelivered():
            results, late = self._read(checkpoint, entry)
            # The queries may have changed since; a result has the columns that it was made with.
            self._open({**current, **{name: table.schema for name, table in results.items()}})
            checkpoint.check_turn()
            self.deliver(results, late, entry.seq)
            checkpoint.mark_delivered(entry.seq)
        self._open(current)

    def deliver_committed(self, checkpoint: Checkpoint, entry: Entry) -> dict[str, pa.Table]:
        """Hand over what a step that was just committed has answered; return the results."""
        results, late = self._read(checkpoint, entry)
        checkpoint.check_turn()
        self.deliver(results, late, entry.seq)
        checkpoint.mark_delivered(entry.seq)
        return results

    def deliver(self, results: Tables, late: Tables, seq: int) -> None:
        """Hand over the results of a step, and its late rows."""
        deliver_to(self.sink, results, seq)
        if self.late is not None:
            deliver_to(self.late, late, seq)

    def close(self) -> None:
        """Close both sinks, also where one cannot be closed."""
        try:
            self.sink.close()
        finally:
            if self.late is not None:
                self.late.close()

    def _read(self, checkpoint: Checkpoint, entry: Entry) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """Read what a step answered; whoever has taken over may have delivered it, and swept its files."""
        try:
            return read_step(checkpoint.place, entry)
        except CheckpointError:
            checkpoint.check_turn()
            raise

    def _sinks(self) -> list[Sink]:
        return [self.sink] if self.late is None else [self.sink, self.late]

    def _open(self, schemas: Mapping[str, pa.Schema]) -> None:
        if schemas != self._opened:
            open_sink(self.sink, schemas, self.stream)
            self._opened = dict(schemas)


def open_sink(sink: Sink, schemas: Mapping[str, pa.Schema], stream: str) -> None:
    """Make a sink ready; JobError says which one failed."""
    try:
        sink.open(schemas, stream)
    except WeftError:
        raise
    except Exception as error:
        raise JobError(f"the sink {type(sink).__name__} cannot be opened: {error}") from error


def deliver_to(sink: Sink, results: Tables, seq: int) -> None:
    """Hand results to a sink; JobError says which one failed, and what that means."""
    try:
        sink.deliver(results, seq)
    except WeftError:
        raise
    except Exception as error:
        raise JobError(
            f"the sink {type(sink).__name__} failed at step {seq}: {error}; with a checkpoint the step is "
            "committed, and the next run delivers it first"
        ) from error


def read_step(place: str, entry: Entry) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    """Return what a step answered, by query, and its late rows, by table, as they are in its files."""
    results: dict[str, list[pa.Table]] = {}
    late: dict[str, list[pa.Table]] = {}
    for file in sorted(entry.answers, key=lambda file: (file.bucket, file.name)):
        for (kind, name), table in read_answers(place, file).items():
            (results if kind == RESULT_ROWS else late).setdefault(name, []).append(table)
    return (
        {name: in_order(tables) for name, tables in results.items()},
        {name: pa.concat_tables(tables) for name, tables in late.items()},
    )


def in_order(tables: list[pa.Table]) -> pa.Table:
    """Return the results that buckets have given as one table; joined rows in order of time."""
    whole = pa.concat_tables(tables)
    if len(tables) == 1 or "window_end" in whole.column_names:
        return whole
    times = whole.column(RESULT_TIME).cast(pa.int64()).to_numpy()
    return whole.take(pa.array(np.argsort(times, kind="stable")))
