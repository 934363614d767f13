"""A Kafka topic as a stream, read with confluent-kafka in any process."""

from weft.io.kafka.source import Kafka

__all__ = ["Kafka"]
