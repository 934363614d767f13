"""Sinks: where results go. The same ones serve the in-process runner and Spark."""

from weft.io.sinks.base import CheckingSink, Only, RewindingSink, Sink, Sinks
from weft.io.sinks.console import ConsoleSink
from weft.io.sinks.folders import JsonSink, ParquetSink
from weft.io.sinks.function import FunctionSink
from weft.io.sinks.kafka import KafkaSink
from weft.io.sinks.memory import MemorySink
from weft.io.sinks.postgres import PostgresSink
from weft.io.sinks.webhook import WebhookSink

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
