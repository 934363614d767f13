"""``Kafka``: a topic as a source that reads itself, in the very task that aggregates its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from weft.errors import JobError
from weft.io.files.chunk import Chunk
from weft.io.files.types import read_schema
from weft.io.kafka import client
from weft.io.kafka.messages import FACTS, FORMATS, decode, find_schema
from weft.io.sources.ranges import Offsets, Range, Ranged

SAMPLED_MESSAGES = 1000
"""Messages of each partition in which columns are looked for, where no schema is given."""


@dataclass(frozen=True)
class Kafka(Ranged):
    """A topic, each message of which is one JSON object, or some rows as an Arrow IPC stream.

    ``schema`` maps columns to types, and is found in the topic's last messages where it is not given.
    ``columns`` makes columns of what a message has besides its value: ``{"sent": "timestamp", "device":
    "key", "trace": "headers.trace-id"}``; there are ``key``, ``timestamp``, ``partition``, ``offset`` and
    ``headers.NAME``. A new stream begins at the ``start``: ``earliest`` or ``latest``. A message that
    cannot be read is counted and left out, or stops the run (``on_bad="fail"``). Messages that were
    deleted before they were read stop the run, or are left out (``on_lost="skip"``). ``options`` are
    librdkafka's settings. Offsets are in the stream's checkpoint; no consumer group is used.

    >>> Kafka("localhost:9092", "trades", schema={"ts": "timestamp", "price": "double"}).stream_schema().names
    ['ts', 'price']
    """

    servers: str
    topic: str
    format: str = "json"
    schema: pa.Schema | Mapping[str, str | pa.DataType] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    start: str = "earliest"
    max_rows_per_batch: int | None = None
    on_bad: str = "skip"
    on_lost: str = "fail"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        choices = {
            "format": FORMATS,
            "start": ("earliest", "latest"),
            "on_bad": ("skip", "fail"),
            "on_lost": ("fail", "skip"),
        }
        for name, values in choices.items():
            if getattr(self, name) not in values:
                given = getattr(self, name)
                raise JobError(f"a Kafka source's {name} must be one of {', '.join(values)}, not '{given}'")
        for column, fact in self.columns.items():
            if fact not in FACTS and not fact.startswith("headers."):
                raise JobError(
                    f"column '{column}' cannot be a message's '{fact}'; choose from {', '.join(FACTS)} and "
                    "headers.NAME"
                )
        if self.max_rows_per_batch is not None and self.max_rows_per_batch < 1:
            raise JobError(f"max_rows_per_batch must be at least 1, not {self.max_rows_per_batch}")
        client.load()

    def stream_schema(self) -> pa.Schema:
        """The columns of the value, as given or as found, and those of the rest of the message."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        schema = read_schema(self.schema) if self.schema is not None else self._infer_schema()
        for name, fact in self.columns.items():
            if name not in schema.names:
                schema = schema.append(pa.field(name, FACTS.get(fact, pa.string())))
        return schema

    def _infer_schema(self) -> pa.Schema:
        """Infer the columns from the latest messages."""
        values: list[bytes | None] = []
        with client.consumer(self.servers, self.options) as reader:
            for partition in client.partitions(reader, self.servers, self.topic):
                low, high = client.bounds(reader, self.topic, partition)
                sampled = Range(str(partition), max(low, high - SAMPLED_MESSAGES), high)
                if sampled.start < sampled.end:
                    values += [
                        m.value() for batch in client.messages(reader, self.topic, sampled) for m in batch
                    ]
        try:
            schema = find_schema(values, self.format)
        except pa.ArrowInvalid as error:
            raise JobError(
                f"the messages of topic '{self.topic}' differ in the types of their columns ({error}); "
                "give schema={'column': 'type', ...}"
            ) from error
        if not schema.names:
            raise JobError(
                f"no message of topic '{self.topic}' tells its columns; give schema={{'column': 'type', ...}}"
            )
        return schema

    def first(self) -> dict[str, int]:
        """Before the first message that is still there, or after the last."""
        place = 0 if self.start == "earliest" else 1
        return {partition: bound[place] for partition, bound in self._bounds().items()}

    def latest(self, start: Offsets) -> dict[str, int]:
        """After the last message of a committed transaction, in each partition that there is by now."""
        ends = {p: high for p, (_, high) in self._bounds().items()}
        for partition, taken in start.items():
            if ends.get(partition, 0) < taken and self.on_lost == "fail":
                raise JobError(
                    f"topic '{self.topic}': {taken} messages of partition {partition} were taken, but it has "
                    f"only {ends.get(partition, 0)}: it was made anew; begin anew with another checkpoint"
                )
        return {p: max(ends.get(p, 0), start.get(p, 0)) for p in {**start, **ends}}

    def check(self, ranges: Sequence[Range]) -> None:
        """Raise JobError for messages that were deleted before they were read."""
        if not ranges or self.on_lost == "skip":
            return
        bounds = self._bounds()
        for span in ranges:
            low, high = bounds.get(span.partition, (0, 0))
            if span.start < low:
                raise client.lost(self.topic, span, f"the first that is still there is {low}")
            if span.end > high:
                raise client.lost(self.topic, span, f"there are only {high}, so the topic was made anew")

    def read(self, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[Chunk]:
        """The rows of these messages."""
        facts = {name: fact for name, fact in self.columns.items() if name in schema.names}
        with client.consumer(self.servers, self.options) as reader:
            for span in ranges:
                for batch in client.messages(reader, self.topic, self._present(reader, span)):
                    chunk = self._checked(decode(batch, self.format, schema, facts))
                    origins = ((span.partition, chunk.table.num_rows),)
                    yield replace(chunk, origins=origins, place=batch[-1].offset() + 1)

    def _present(self, reader: object, span: Range) -> Range:
        """Return the part of a range that is still there, where what is lost is to be left out."""
        if self.on_lost == "fail":
            return span
        low, high = client.bounds(reader, self.topic, int(span.partition))
        start = min(max(span.start, low), span.end)
        return Range(span.partition, start, max(start, min(span.end, high)))

    def _checked(self, chunk: Chunk) -> Chunk:
        if self.on_bad == "fail" and chunk.bad:
            shown = None if chunk.rejected is None else chunk.rejected.slice(0, 1).to_pylist()[0]
            reason = (
                "a value has another type than its column"
                if shown is None
                else f"message {shown['number']} of partition {shown['partition']} is {shown['reason']}"
            )
            raise JobError(f"topic '{self.topic}': {reason}; leave such messages out by on_bad='skip'")
        return chunk

    def _bounds(self) -> dict[str, tuple[int, int]]:
        with client.translate_kafka_errors(self.servers):
            partitions = client.partitions(self._planner, self.servers, self.topic)
            return {str(p): client.bounds(self._planner, self.topic, p) for p in partitions}

    @cached_property
    def _planner(self) -> Any:
        """The client that asks for offsets, again and again, in one process."""
        return client.connect(self.servers, self.options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_planner"}
