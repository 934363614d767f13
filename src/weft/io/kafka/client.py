"""Talking to Kafka through confluent-kafka: weft's settings, ranges of messages, clear errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.errors import JobError
from weft.io.sources.ranges import Range

log = logging.getLogger(__name__)

ANSWER_TIMEOUT_SECONDS = 15.0
"""Time to wait for an answer of the brokers."""
SILENCE_TIMEOUT_SECONDS = 60.0
"""Time without a message of a range that is known to be there."""
POLL_TIMEOUT_SECONDS = 0.2
"""Time to wait for messages before those that have come are taken."""
MAX_MESSAGES_PER_POLL = 10_000


def load() -> Any:
    """Import confluent-kafka; JobError says how to get it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise JobError("Kafka needs the package confluent-kafka: pip install 'weft[kafka]'") from error
    return confluent_kafka


@contextmanager
def consumer(servers: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Open a consumer for as long as the block lasts."""
    with translate_kafka_errors(servers):
        client = connect(servers, options)
        try:
            yield client
        finally:
            client.close()


def connect(servers: str, options: Mapping[str, str]) -> Any:
    """Make a consumer that commits nothing, sees committed transactions only, and never jumps elsewhere."""
    settings = {
        "group.id": "weft",
        # What is asked for is there: a broker need not wait for more.
        "fetch.wait.max.ms": "20",
        **options,
        "bootstrap.servers": servers,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
    }
    return load().Consumer(settings, logger=log)


@contextmanager
def translate_kafka_errors(servers: str) -> Iterator[None]:
    """Raise errors of Kafka in the block as errors of weft."""
    kafka = load()
    try:
        yield
    except kafka.KafkaException as error:
        cause = error.args[0] if error.args else error
        text = cause.str() if isinstance(cause, kafka.KafkaError) else str(cause)
        raise JobError(f"Kafka at {servers}: {text}; check the servers and options") from error


def partitions(client: Any, servers: str, topic: str) -> list[int]:
    """Return the partitions of a topic; JobError where there is no such topic."""
    metadata = client.list_topics(topic, timeout=ANSWER_TIMEOUT_SECONDS).topics[topic]
    if metadata.error is not None or not metadata.partitions:
        why = metadata.error.str() if metadata.error is not None else "it has no partitions"
        raise JobError(
            f"topic '{topic}' cannot be read from Kafka at {servers}: {why}; check its name, and whether it "
            "was deleted"
        )
    return sorted(metadata.partitions)


def bounds(client: Any, topic: str, partition: int) -> tuple[int, int]:
    """Return the number of the first message that is still there, and of the one that comes next."""
    kafka = load()
    low, high = client.get_watermark_offsets(
        kafka.TopicPartition(topic, partition), timeout=ANSWER_TIMEOUT_SECONDS
    )
    return low, high


def messages(
    client: Any, topic: str, span: Range, silence: float = SILENCE_TIMEOUT_SECONDS
) -> Iterator[list[Any]]:
    """Yield the messages of a range, some at a time; aborted and compacted ones are left out."""
    kafka = load()
    client.assign([kafka.TopicPartition(topic, int(span.partition), span.start)])
    at, ended, heard = span.start, span.start >= span.end, time.monotonic()
    while not ended:
        # It waits for all that is asked for, so no more is asked for than can come.
        batch = client.consume(min(MAX_MESSAGES_PER_POLL, span.end - at), timeout=POLL_TIMEOUT_SECONDS)
        if batch:
            heard = time.monotonic()
        elif time.monotonic() - heard > silence:
            raise JobError(f"topic '{topic}': no message of {_describe(span)} in {silence:.0f} s; try again")
        good = []
        for message in batch:
            if message.error() is not None:
                ended = _at_end(message, topic, span)
            elif message.offset() >= span.end:
                ended = True
            else:
                good.append(message)
        if good:
            yield good
            at = good[-1].offset() + 1
            ended = ended or at == span.end
    client.unassign()


def _at_end(message: Any, topic: str, span: Range) -> bool:
    """Return whether an event says that the range is read; JobError if it says anything else."""
    kafka, error = load(), message.error()
    if error.code() == kafka.KafkaError._PARTITION_EOF and message.offset() >= span.end:
        return True
    if error.code() in (kafka.KafkaError._PARTITION_EOF, kafka.KafkaError._AUTO_OFFSET_RESET):
        raise lost(topic, span, "they were deleted, or the topic was made anew")
    if not error.retriable() and error.code() != kafka.KafkaError._ALL_BROKERS_DOWN:
        raise JobError(f"topic '{topic}', {_describe(span)}: {error.str()}")
    return False


def lost(topic: str, span: Range, why: str) -> JobError:
    """Return the error for messages that are no longer there."""
    return JobError(
        f"topic '{topic}': {_describe(span)} cannot be read: {why}; go on without them by on_lost='skip', "
        "or begin anew with another checkpoint"
    )


def _describe(span: Range) -> str:
    return f"messages {span.start} to {span.end - 1} of partition {span.partition}"
