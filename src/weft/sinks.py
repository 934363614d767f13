"""Public names of sinks: ``from weft.sinks import ParquetSink``."""

from weft.io.sinks import (
    CheckingSink,
    ConsoleSink,
    FunctionSink,
    JsonSink,
    KafkaSink,
    MemorySink,
    Only,
    ParquetSink,
    PostgresSink,
    RewindingSink,
    Sink,
    Sinks,
    WebhookSink,
)

__all__ = [
    "CheckingSink",
    "ConsoleSink",
    "FunctionSink",
    "JsonSink",
    "KafkaSink",
    "MemorySink",
    "Only",
    "ParquetSink",
    "PostgresSink",
    "RewindingSink",
    "Sink",
    "Sinks",
    "WebhookSink",
]
