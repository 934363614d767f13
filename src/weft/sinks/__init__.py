"""Sinks: where results go. The same ones serve the in-process runner and Spark."""

from weft.sinks.base import (
    CheckingSink,
    ConsoleSink,
    FunctionSink,
    MemorySink,
    Only,
    Sink,
    Sinks,
)
from weft.sinks.folders import JsonSink, ParquetSink
from weft.sinks.kafka import KafkaSink
from weft.sinks.postgres import PostgresSink
from weft.sinks.webhook import WebhookSink

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
    "Sink",
    "Sinks",
    "WebhookSink",
]
