"""Kafka as a sink: one message per result, a step that is delivered again is not sent again."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from support.brokers import Broker
from weft.errors import JobError
from weft.io.kafka import client
from weft.io.sinks import kafka as module
from weft.sinks import KafkaSink

AT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema({"symbol": pa.string(), "window_start": TIME, "window_end": TIME, "n": pa.int64()})


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


def step(*found: tuple[str, int]) -> pa.Table:
    return pa.table(
        [[s for s, _ in found], [AT] * len(found), [AT] * len(found), [n for _, n in found]], schema=SCHEMA
    )


def opened(broker: Broker, topic: str, stream: str = "s") -> KafkaSink:
    sink = KafkaSink(broker.servers, topic)
    sink.open({"busy": SCHEMA}, stream)
    return sink


def sent(broker: Broker, topic: str) -> list[tuple[str, int]]:
    rows = [json.loads(m.value()) for m in broker.read(topic)]
    return sorted((row["symbol"], row["n"]) for row in rows)


def test_a_result_is_a_message_with_its_key(broker: Broker) -> None:
    opened(broker, "shape").deliver({"busy": step(("A", 1))}, 1)
    (message,) = broker.read("shape")
    at = "2024-01-01T00:00:00+00:00"
    assert json.loads(message.key()) == ["busy", "A", at, at]
    assert json.loads(message.value()) == {
        "query": "busy",
        "symbol": "A",
        "window_start": at,
        "window_end": at,
        "n": 1,
    }


def test_results_that_nothing_tells_apart_have_no_key(broker: Broker) -> None:
    pairs = pa.table({"left": [1], "right": [2]})
    sink = KafkaSink(broker.servers, "pairs")
    sink.open({"pairs": pairs.schema}, "s")
    sink.deliver({"pairs": pairs}, 1)
    (message,) = broker.read("pairs")
    assert (message.key(), json.loads(message.value())["right"]) == (None, 2)


def test_a_step_made_again_is_sent_once(broker: Broker, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "FIRST_LOOK_BACK_MESSAGES", 1)
    first = opened(broker, "once")
    first.deliver({"busy": step(("A", 1), ("B", 2))}, 1)
    first.deliver({"busy": step(("A", 3), ("B", 4))}, 2)
    opened(broker, "once", "other").deliver({"busy": step(("O", 0))}, 9)
    again = opened(broker, "once")
    again.deliver({"busy": step(("B", 4), ("A", 3))}, 2)
    again.open({"busy": SCHEMA, "later": SCHEMA}, "s")
    again.deliver({}, 3)
    again.deliver({"later": step(("C", 5))}, 4)
    again.close()
    assert sent(broker, "once") == [("A", 1), ("A", 3), ("B", 2), ("B", 4), ("C", 5), ("O", 0)]


def test_a_step_made_again_with_other_results_is_sent(broker: Broker) -> None:
    opened(broker, "differs").deliver({"busy": step(("A", 1))}, 1)
    opened(broker, "differs").deliver({"busy": step(("A", 2))}, 1)
    assert sent(broker, "differs") == [("A", 1), ("A", 2)]


def test_a_producer_that_was_shut_out_says_who_goes_on(broker: Broker, monkeypatch: Any) -> None:
    sink = opened(broker, "fenced")

    def refuse(*arguments: Any) -> None:
        raise sink.kafka.KafkaException(sink.kafka.KafkaError(sink.kafka.KafkaError._FENCED))

    class Fenced:
        begin_transaction = abort_transaction = refuse

    sink._producer = Fenced()
    with pytest.raises(JobError, match=r"another run has taken over stream 's': Kafka .* topic 'fenced'"):
        sink.deliver({"busy": step(("A", 1))}, 1)


def test_a_run_without_checkpoint_begins_anew(broker: Broker) -> None:
    for _ in range(2):
        opened(broker, "anew", "run").deliver({"busy": step(("A", 1))}, 1)
    assert sent(broker, "anew") == [("A", 1)] * 2


def test_a_broker_that_is_not_there(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "TRANSACTION_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(JobError, match=r"Kafka at localhost:1: .*check the servers"):
        KafkaSink("localhost:1", "t").open({"busy": SCHEMA}, "s")


def test_a_column_that_would_hide_the_query_s_name_is_refused(broker: Broker) -> None:
    sink, schema = KafkaSink(broker.servers, "hidden"), SCHEMA.append(pa.field("query", pa.string()))
    with pytest.raises(JobError, match=r"query 'busy' has a column 'query'.*; give it another name"):
        sink.check({"busy": schema})
    with pytest.raises(JobError, match="query 'busy' has a column 'query'"):
        sink.open({"busy": schema}, "s")


def test_times_beyond_python_s_years_are_sent(broker: Broker) -> None:
    far = pa.array([253_402_300_800_000_000], TIME)
    opened(broker, "far").deliver({"busy": pa.table([["A"], far, far, [1]], schema=SCHEMA)}, 1)
    (message,) = broker.read("far")
    assert json.loads(message.value())["window_end"] == "+010000-01-01T00:00:00+00:00"
    assert json.loads(message.key())[2] == "+010000-01-01T00:00:00+00:00"
