"""A Kafka topic as a sink: one JSON message per result, each step in one transaction.

The transaction also holds a message in a second topic that says which step it was and what was in it. A step
that is delivered again, or after a later one, is not sent again; a run that was replaced is shut out by the
brokers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from rich.console import Console

from weft.errors import JobError
from weft.io.json_values import rows as plain_rows
from weft.io.json_values import to_json
from weft.io.kafka import client
from weft.io.kinds import SinkKind
from weft.io.settings import Options
from weft.io.sinks.base import NO_CHECKPOINT, key_columns
from weft.io.sources.ranges import Range

TRANSACTION_TIMEOUT_SECONDS = 60.0
FIRST_LOOK_BACK_MESSAGES = 100
"""The end of the topic of steps, where the last step is looked for first."""

Message: TypeAlias = tuple[str | None, str]
"""Key and value."""


class KafkaSink:
    """A topic of Kafka: the value is the row with ``query``, the key is the query, the groups and the window,
    so that a compacted topic keeps the latest of each; results of joins and of windows in rows have no key.

    Exactly once for consumers that read committed messages only (``isolation.level=read_committed``). The
    topic ``steps`` (``<topic>.weft-steps`` unless said) has one small message per step, keyed by the stream;
    it should be compacted. ``options`` are librdkafka's settings.
    """

    def __init__(
        self, servers: str, topic: str, *, steps: str | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.kafka = client.load()
        self.servers, self.topic, self.steps = servers, topic, steps or f"{topic}.weft-steps"
        self.options = dict(options or {})
        self._stream = NO_CHECKPOINT
        self._keys: dict[str, list[str]] = {}
        self._producer: Any = None
        self._last: tuple[int, str] = (0, "")

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """End what an earlier run left unfinished, and find out which step was the last."""
        self.check(schemas)
        self._keys = {name: key_columns(schema) for name, schema in schemas.items()}
        if self._producer is not None:
            return
        self._stream = stream
        settings = {
            **self.options,
            "bootstrap.servers": self.servers,
            "transactional.id": f"weft-{stream}-{self.topic}",
        }
        with client.translate_kafka_errors(self.servers):
            self._producer = self.kafka.Producer(settings, logger=client.log)
            self._producer.init_transactions(TRANSACTION_TIMEOUT_SECONDS)
        # A run without a checkpoint begins anew, with a step 1 of its own.
        self._last = (0, "") if stream == NO_CHECKPOINT else self._find_last()

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Refuse a column that would take the place of the query's name in a message."""
        for name, schema in schemas.items():
            if "query" in schema.names:
                raise JobError(
                    f"query '{name}' has a column 'query', which every message has for the query's name; "
                    "give it another name with AS"
                )

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Send the step's results, unless they or those of a later step were sent before."""
        if seq < self._last[0]:
            return
        messages = [m for name, table in results.items() for m in self._messages(name, table)]
        step = (seq, _digest(messages))
        if not messages or step == self._last:
            return
        with client.translate_kafka_errors(self.servers):
            try:
                self._transact(messages, step)
            except BaseException as error:
                self._abort()
                if isinstance(error, self.kafka.KafkaException) and self._is_fenced(error.args[0]):
                    raise self._taken_over() from error
                raise
        self._last = step

    def rewind(self, after: int) -> None:
        """Warn: messages cannot be taken back."""
        if self._last[0] > after:
            client.log.warning(
                "topic '%s' keeps what it was sent after step %d of stream %s: messages cannot be taken back",
                self.topic,
                after,
                self._stream,
            )

    def close(self) -> None:
        """Nothing is left to send."""
        self._producer = None

    def _transact(self, messages: Iterable[Message], step: tuple[int, str]) -> None:
        failed: list[Any] = []

        def note_failure(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error)

        self._producer.begin_transaction()
        for key, value in messages:
            self._produce(self.topic, key, value, note_failure)
        self._produce(self.steps, self._stream, to_json({"step": step[0], "digest": step[1]}), note_failure)
        self._producer.flush(TRANSACTION_TIMEOUT_SECONDS)
        if any(map(self._is_fenced, failed)):
            raise self._taken_over()
        if failed:
            raise JobError(f"topic '{self.topic}' cannot take results: {failed[0].str()}")
        self._producer.commit_transaction(TRANSACTION_TIMEOUT_SECONDS)

    def _is_fenced(self, error: Any) -> bool:
        """Return whether the brokers shut this producer out, since a newer one has its transactional.id."""
        codes = self.kafka.KafkaError
        fenced = (codes._FENCED, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH)
        return isinstance(error, codes) and error.code() in fenced

    def _taken_over(self) -> JobError:
        return JobError(
            f"another run has taken over stream '{self._stream}': Kafka at {self.servers} takes no more "
            f"results of this one in topic '{self.topic}'"
        )

    def _produce(self, topic: str, key: str | None, value: str, on_delivery: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=on_delivery)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(1.0)

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(TRANSACTION_TIMEOUT_SECONDS)
        except self.kafka.KafkaException:
            client.log.warning("a transaction could not be aborted; the brokers will do so when it times out")

    def _messages(self, name: str, table: pa.Table) -> Iterable[Message]:
        keys = self._keys.get(name, key_columns(table.schema))
        for row in plain_rows(table):
            key = to_json([name, *(row[k] for k in keys)]) if keys else None
            yield key, to_json({"query": name, **row})

    def _find_last(self) -> tuple[int, str]:
        """The last step of this stream that was sent: looked for from the end of the topic of steps on."""
        with client.consumer(self.servers, self.options) as reader:
            topics = reader.list_topics(self.steps, timeout=client.ANSWER_TIMEOUT_SECONDS).topics
            steps = [self._last_in(reader, p) for p in topics[self.steps].partitions]
        return max(steps, default=(0, ""))

    def _last_in(self, reader: Any, partition: int) -> tuple[int, str]:
        low, high = client.bounds(reader, self.steps, partition)
        end, size = high, FIRST_LOOK_BACK_MESSAGES
        while end > low:
            start = max(low, end - size)
            batches = client.messages(reader, self.steps, Range(str(partition), start, end))
            own_messages = [m for part in batches for m in part if m.key() == self._stream.encode()]
            if own_messages:
                step = json.loads(own_messages[-1].value())
                return step["step"], step["digest"]
            end, size = start, 10 * size
        return 0, ""


def _digest(messages: Iterable[Message]) -> str:
    """Return a digest of messages, the same in whatever order.

    >>> _digest([("a", "1"), ("b", "2")]) == _digest([("b", "2"), ("a", "1")])
    True
    """
    digests = sorted(hashlib.blake2b(f"{k}\0{v}".encode()).digest() for k, v in messages)
    return hashlib.blake2b(b"".join(digests), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ToKafka(SinkKind):
    """A JSON message per result, each step in a transaction."""

    kind: ClassVar[str] = "kafka"

    servers: str
    """the brokers, `"host:9092,..."`"""
    topic: str
    """the topic"""
    steps: str | None = None
    """the topic that says which steps were sent. Left out: the topic's name with `.weft-steps`"""
    options: Options = field(default_factory=lambda: Options({}))
    """librdkafka's settings: `{ security.protocol = "SSL" }`"""

    def make(self, console: Console) -> KafkaSink:
        """Make the sink."""
        return KafkaSink(self.servers, self.topic, steps=self.steps, options=self.options)
