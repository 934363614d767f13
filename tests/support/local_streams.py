"""Streams in this process that tests feed by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from weft.io.arrow import as_chunk
from weft.io.files.source import Columns
from weft.io.sinks import Sink
from weft.local.feed import Feed
from weft.local.readers import Read
from weft.local.running import LocalRun
from weft.local.streaming import LocalStream
from weft.runner.delivery import Delivery
from weft.runner.program import UNNAMED

Batches = Iterable[pa.Table | None]


class HandFed:
    """The reader of batches that are given one by one; None says that none has come."""

    bounded = False

    def __init__(self, schema: pa.Schema, batches: Batches) -> None:
        self.schema, self._batches = schema, batches

    def reads(self, columns: Columns, position: int | None) -> Iterator[Read | None]:
        """Yield the batches, from the first on."""
        number = 0
        for batch in self._batches:
            number += batch is not None
            yield None if batch is None else Read(as_chunk(batch), number)

    def position_for_next_run(self, position: int) -> int:
        """Return 0: those of another run are new."""
        return 0


def start_stream(
    run: LocalRun,
    batches: Batches | Mapping[str, Batches],
    sink: Sink,
    late: Sink | None = None,
    **options: Any,
) -> LocalStream:
    """Start a stream over batches, of its one stream or of each by name."""
    given = batches if isinstance(batches, Mapping) else {UNNAMED: batches}
    readers = {name: HandFed(run.program.schemas[name], lots) for name, lots in given.items()}
    return LocalStream(run, Feed(readers, run.columns), Delivery(sink, "run", late), **options)
