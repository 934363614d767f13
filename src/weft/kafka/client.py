"""Talking to Kafka through confluent-kafka: weft's settings, ranges of messages, clear errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from weft.errors import JobError
from weft.ranges import Range

log = logging.getLogger(__name__)

TIMEOUT = 15.0
"""Seconds to wait for an answer of the brokers."""
SILENCE = 60.0
"""Seconds without a message of a range that is known to be there."""
PATIENCE = 0.2
"""Seconds to wait for some messages before those that have come are taken."""
TOGETHER = 10_000
"""Messages taken at once."""


def load() -> Any:
    """confluent-kafka; JobError says how to get it."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise JobError("Kafka needs the package confluent-kafka: pip install 'weft[kafka]'") from error
    return confluent_kafka


@contextmanager
def consumer(servers: str, options: Mapping[str, str]) -> Iterator[Any]:
    """A consumer for as long as the block lasts."""
    with said(servers):
        client = connect(servers, options)
        try:
            yield client
        finally:
            client.close()


def connect(servers: str, options: Mapping[str, str]) -> Any:
    """A consumer that commits nothing, sees committed transactions only, and never jumps elsewhere."""
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
def said(servers: str) -> Iterator[None]:
    """In the block, errors of Kafka come out as errors of weft."""
    kafka = load()
    try:
        yield
    except kafka.KafkaException as error:
        cause = error.args[0] if error.args else error
        text = cause.str() if isinstance(cause, kafka.KafkaError) else str(cause)
        raise JobError(f"Kafka at {servers}: {text}; check the servers and options") from error


def partitions(client: Any, servers: str, topic: str) -> list[int]:
    """The partitions of a topic; JobError where there is no such topic."""
    found = client.list_topics(topic, timeout=TIMEOUT).topics[topic]
    if found.error is not None or not found.partitions:
        why = found.error.str() if found.error is not None else "it has no partitions"
        raise JobError(
            f"topic '{topic}' cannot be read from Kafka at {servers}: {why}; check its name, and whether it "
            "was deleted"
        )
    return sorted(found.partitions)


def bounds(client: Any, topic: str, partition: int) -> tuple[int, int]:
    """The number of the first message that is still there, and of the one that comes next."""
    kafka = load()
    low, high = client.get_watermark_offsets(kafka.TopicPartition(topic, partition), timeout=TIMEOUT)
    return low, high


def messages(client: Any, topic: str, each: Range, silence: float = SILENCE) -> Iterator[list[Any]]:
    """The messages of a range, some at a time; numbers of aborted or compacted messages are left out."""
    kafka = load()
    client.assign([kafka.TopicPartition(topic, int(each.partition), each.start)])
    at, ended, heard = each.start, each.start >= each.end, time.monotonic()
    while not ended:
        # It waits for all that is asked for, so no more is asked for than can come.
        some = client.consume(min(TOGETHER, each.end - at), timeout=PATIENCE)
        if some:
            heard = time.monotonic()
        elif time.monotonic() - heard > silence:
            raise JobError(f"topic '{topic}': no message of {_named(each)} in {silence:.0f} s; try again")
        good = []
        for message in some:
            if message.error() is not None:
                ended = _at_end(message, topic, each)
            elif message.offset() >= each.end:
                ended = True
            else:
                good.append(message)
        if good:
            yield good
            at = good[-1].offset() + 1
            ended = ended or at == each.end
    client.unassign()


def _at_end(message: Any, topic: str, each: Range) -> bool:
    """Whether an event says that the range is read; JobError if it says anything else."""
    kafka, error = load(), message.error()
    if error.code() == kafka.KafkaError._PARTITION_EOF and message.offset() >= each.end:
        return True
    if error.code() in (kafka.KafkaError._PARTITION_EOF, kafka.KafkaError._AUTO_OFFSET_RESET):
        raise lost(topic, each, "they were deleted, or the topic was made anew")
    if not error.retriable() and error.code() != kafka.KafkaError._ALL_BROKERS_DOWN:
        raise JobError(f"topic '{topic}', {_named(each)}: {error.str()}")
    return False


def lost(topic: str, each: Range, why: str) -> JobError:
    """The error for messages that are no longer there."""
    return JobError(
        f"topic '{topic}': {_named(each)} cannot be read: {why}; go on without them by on_lost='skip', "
        "or begin anew with another checkpoint"
    )


def _named(each: Range) -> str:
    return f"messages {each.start} to {each.end - 1} of partition {each.partition}"
