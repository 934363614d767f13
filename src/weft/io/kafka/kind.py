"""``kind = "kafka"`` of a job file's source."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

from weft.io.kafka.source import Kafka
from weft.io.kinds import SourceKind
from weft.io.settings import Options


@dataclass(frozen=True, slots=True)
class FromKafka(SourceKind):
    """A Kafka topic, read by weft's own tasks."""

    kind: ClassVar[str] = "kafka"

    servers: str
    """the brokers, `"host:9092,..."`"""
    topic: str
    """the topic"""
    format: str = "json"
    """one JSON object per message, or `"arrow"`: rows as an Arrow IPC stream"""
    schema: Options | None = None
    """a table of columns and types. Left out: from the latest messages"""
    columns: Options = field(default_factory=lambda: Options({}))
    """columns from the rest of a message: `{ sent = "timestamp", device = "key" }`"""
    start: str = "earliest"
    """where a new stream begins; or `"latest"`"""
    max_rows_per_batch: int | None = None
    """at most about so many messages in one batch. Left out: all there are"""
    on_bad: str = "skip"
    """`"fail"` lets a message that cannot be read stop the run"""
    on_lost: str = "fail"
    """`"skip"` goes on where messages were deleted before they were read"""
    options: Options = field(default_factory=lambda: Options({}))
    """librdkafka's settings: `{ security.protocol = "SSL" }`"""

    def make(self) -> Kafka:
        """Make the topic, read by weft itself."""
        return Kafka(**{key.name: getattr(self, key.name) for key in fields(self)})
