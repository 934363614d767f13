"""librdkafka's own broker for tests: it lives in one client here, and any process can talk to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import confluent_kafka as kafka


class Broker:
    """A broker with topics of four partitions, made when first written to."""

    def __init__(self) -> None:
        # The brokers live as long as this client.
        self._home = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        found = self._home.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{b.host}:{b.port}" for b in found)
        self._producer = kafka.Producer({"bootstrap.servers": self.servers, "log_level": 0})

    def send(self, topic: str, values: Iterable[Any], partitions: int = 2, **options: Any) -> None:
        """Send values, as JSON where they are not bytes, to so many partitions in turn."""
        for number, value in enumerate(values):
            data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            self._producer.produce(topic, data, partition=number % partitions, **options)
        assert self._producer.flush(20) == 0

    def read(self, topic: str) -> list[Any]:
        """All messages of a topic."""
        reader = kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "tests",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        partitions = reader.list_topics(topic, timeout=10).topics[topic].partitions
        reader.assign([kafka.TopicPartition(topic, p, 0) for p in partitions])
        messages, ended = [], 0
        while ended < len(partitions):
            message = reader.poll(10)
            assert message is not None
            if message.error() is None:
                messages.append(message)
            else:
                assert message.error().code() == kafka.KafkaError._PARTITION_EOF
                ended += 1
        reader.close()
        return messages
