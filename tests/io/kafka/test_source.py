"""A Kafka topic as a source: what messages become, what is bad in them, and what is no longer there."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.brokers import Broker
from weft.errors import JobError
from weft.io.kafka import Kafka, client
from weft.io.kafka.messages import decode
from weft.io.sources.ranges import Range

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SCHEMA = {"ts": "timestamp", "symbol": "string", "price": "double"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"ts": (START + datetime.timedelta(seconds=n)).isoformat(), "symbol": "ABC"[n % 3], "price": n / 2}
        for n in range(first, first + count)
    ]


def read(source: Kafka) -> pa.Table:
    table = pa.concat_tables([chunk.table for chunk in source])
    return table.sort_by([(table.column_names[0], "ascending")])


def bad(source: Kafka) -> list[tuple[str, int, bytes | None, str]]:
    shown = [c.rejected for c in source if c.rejected is not None]
    return sorted(tuple(row.values()) for row in pa.concat_tables(shown).to_pylist())


def test_every_message_is_a_row(broker: Broker) -> None:
    broker.send("plain", rows(2500))
    for limit in (None, 700):
        table = read(Kafka(broker.servers, "plain", schema=SCHEMA, max_rows_per_batch=limit))
        assert table.column("price").to_pylist() == [n / 2 for n in range(2500)]
    found = Kafka(broker.servers, "plain")
    assert found.stream_schema().equals(table.schema)
    assert pickle.loads(pickle.dumps(found)).topic == "plain"


def test_a_range_is_read_to_its_end_and_no_further(broker: Broker) -> None:
    broker.send("ranges", rows(100), partitions=1)
    source = Kafka(broker.servers, "ranges", schema=SCHEMA)
    (chunk,) = source.read([Range("0", 7, 12)], source.stream_schema())
    assert chunk.table.column("price").to_pylist() == [n / 2 for n in range(7, 12)]
    only = pa.schema([source.stream_schema().field("symbol")])
    (chunk,) = source.read([Range("0", 99, 100)], only)
    assert chunk.table.to_pylist() == [{"symbol": "A"}]


def test_key_timestamp_and_headers_can_be_columns(broker: Broker) -> None:
    broker.send("facts", [{"n": 1}], key=b"k", timestamp=1_700_000_000_123, headers={"trace-id": b"t"})
    broker.send("facts", [{"n": 2}])
    columns = {
        "sent": "timestamp",
        "device": "key",
        "trace": "headers.trace-id",
        "at": "offset",
        "p": "partition",
    }
    first, second = read(Kafka(broker.servers, "facts", columns=columns)).to_pylist()
    sent = datetime.datetime.fromtimestamp(1_700_000_000.123, datetime.UTC)
    assert first == {"n": 1, "sent": sent, "device": "k", "trace": "t", "at": 0, "p": 0}
    assert (second["device"], second["trace"], second["at"]) == (None, None, 1)
    queries = weft.sql("SELECT device, count(*) AS n FROM s [RANGE '1 min'] GROUP BY device")
    source = Kafka(broker.servers, "facts", columns={"sent": "timestamp", "device": "key"})
    assert sum(weft.run(queries, source, time="sent")["q1"].column("n").to_pylist()) == 2


def test_bad_messages_are_counted_and_shown(broker: Broker) -> None:
    junk = [b"", None, b"[1]", b"{", b'{"n": 1}{"n": 2}', b"\xff", b"null"]
    broker.send("junk", [{"n": 1}, *junk, b'{"n":\n 2}', {"n": "x"}, {}], partitions=1)
    source = Kafka(broker.servers, "junk", schema={"n": "bigint"})
    (chunk,) = source
    assert chunk.table.column("n").to_pylist() == [1, 2, None, None]
    assert chunk.bad == len(junk) + 1, "and the one value that is no number"
    assert bad(source)[:3] == [
        ("0", 1, b"", "no JSON object"),
        ("0", 2, None, "no value"),
        ("0", 3, b"[1]", "no JSON object"),
    ]
    strict = Kafka(broker.servers, "junk", schema={"n": "bigint"}, on_bad="fail")
    with pytest.raises(JobError, match="topic 'junk': message 1 of partition 0 is no JSON object; leave"):
        list(strict)
    with pytest.raises(JobError, match=r"differ in the types of their columns .*; give schema"):
        Kafka(broker.servers, "junk").stream_schema()


def test_messages_of_arrow_hold_many_rows(broker: Broker) -> None:
    def packed(**columns: list[Any]) -> bytes:
        table = pa.table(columns)
        out = io.BytesIO()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        return out.getvalue()

    values = [
        packed(n=[1, 2]),
        packed(n=pa.array([], pa.int64())),
        b"junk",
        packed(m=[3]),
        packed(n=["4"], m=[1]),
    ]
    broker.send("arrow", values, partitions=1, key=b"k")
    source = Kafka(broker.servers, "arrow", format="arrow", columns={"key": "key"})
    (chunk,) = source
    assert chunk.table.to_pylist() == [{"n": n, "key": "k"} for n in (1, 2, 4)]
    assert [number for _, number, _, _ in bad(source)] == [2, 3]


def test_a_topic_made_anew_is_said_or_its_gap_left_out(broker: Broker) -> None:
    broker.send("short", rows(10), partitions=1)
    source = Kafka(broker.servers, "short", schema=SCHEMA)
    with pytest.raises(JobError, match="messages 5 to 19 of partition 0 cannot be read: there are only 10"):
        source.check([Range("0", 5, 20)])
    for start, end in ((5, 20), (15, 20)):
        with pytest.raises(JobError, match="they were deleted, or the topic was made anew; go on without"):
            list(source.read([Range("0", start, end)], source.stream_schema()))
    skipping = Kafka(broker.servers, "short", schema=SCHEMA, on_lost="skip")
    skipping.check([Range("0", 5, 20)])
    assert sum(c.table.num_rows for c in skipping.read([Range("0", 5, 20)], source.stream_schema())) == 5
    assert list(skipping.read([Range("0", 15, 20)], source.stream_schema())) == []


def test_what_retention_deleted_is_said_or_left_out(broker: Broker) -> None:
    """The broker keeps about five megabytes of a partition."""
    broker.send("kept", [{"n": n, "padding": "x" * 200_000} for n in range(60)], partitions=1)
    source = Kafka(broker.servers, "kept", schema={"n": "bigint"})
    first = source.first()["0"]
    assert 0 < first < 60
    with pytest.raises(JobError, match=f"messages 0 to 59 of partition 0 .* still there is {first}; go on"):
        source.check([Range("0", 0, 60)])
    with pytest.raises(JobError, match="they were deleted"):
        list(source.read([Range("0", 0, 60)], source.stream_schema()))
    assert read(source).column("n").to_pylist() == list(range(first, 60))
    skipping = Kafka(broker.servers, "kept", schema={"n": "bigint"}, on_lost="skip")
    chunks = skipping.read([Range("0", 0, 60)], source.stream_schema())
    assert [n for c in chunks for n in c.table.column("n").to_pylist()] == list(range(first, 60))


def test_a_new_stream_can_begin_with_what_comes(broker: Broker) -> None:
    broker.send("tail", rows(10), partitions=1)
    arrivals = Kafka(broker.servers, "tail", schema=SCHEMA, start="latest").arrivals()
    assert next(arrivals) is None
    broker.send("tail", rows(3, 10), partitions=1)
    chunk = next(arrivals)
    assert chunk is not None
    assert chunk.table.column("price").to_pylist() == [5.0, 5.5, 6.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "nowhere"}, "topic 'nowhere' cannot be read .*check its name, and whether it was deleted"),
        ({"format": "avro"}, "format must be one of json, arrow, not 'avro'"),
        ({"start": "middle"}, "start must be one of earliest, latest"),
        ({"columns": {"k": "kee"}}, "column 'k' cannot be a message's 'kee'; choose from key, timestamp"),
        ({"options": {"acks": "perhaps"}}, "Kafka at .*acks"),
        ({"max_rows_per_batch": 0}, "at least 1"),
    ],
)
def test_settings_are_checked(broker: Broker, options: dict[str, Any], message: str) -> None:
    broker.send("checked", rows(1))
    with pytest.raises(JobError, match=message):
        Kafka(**({"servers": broker.servers, "topic": "checked"} | options)).stream_schema()


def test_a_broker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(JobError, match=r"Kafka at localhost:1: .*check the servers"):
        Kafka("localhost:1", "t").stream_schema()


class Message:
    """A message that was never sent."""

    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def value(self) -> bytes | None:
        return self._value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


VALUES = st.lists(
    st.one_of(
        st.none(),
        st.binary(max_size=6),
        st.sampled_from([b"", b" ", b"{", b"}", b"{}", b'{"n":', b"1}", b'{"n":1}{"n":2}', b'{"n":1} 2']),
        st.builds(
            lambda n, blank: json.dumps({"n": n}, indent=blank).encode(),
            st.one_of(st.integers(-5, 5), st.text(max_size=3), st.none()),
            st.sampled_from([None, 2]),
        ),
    ),
    max_size=6,
)


@given(VALUES)
def test_messages_together_are_read_as_each_alone(values: list[bytes | None]) -> None:
    schema = pa.schema({"n": pa.int64()})
    chunk = decode([Message(v) for v in values], "json", schema, {})
    expected = []
    for value in values:
        try:
            record = json.loads(value) if value is not None else None
        except ValueError:
            continue
        if isinstance(record, dict):
            n = record.get("n")
            try:
                expected.append(None if n is None else int(n))
            except (ValueError, TypeError):
                expected.append(None)
    assert chunk.table.num_rows == len(expected)
    assert [
        got
        for got, want in zip(chunk.table.column("n").to_pylist(), expected)
        if got is not None and got != want
    ] == []


def test_nested_fields_are_read_beside_messages_that_are_bad(broker: Broker) -> None:
    at = START.isoformat()
    for value in (
        {"ts": at, "place": {"city": "A", "at": [1.0, 2.0]}, "tags": ["x", "y"]},
        {"ts": at, "place": {"city": "B", "at": [3.0]}, "tags": None},
        {"ts": at, "place": {"city": "C", "at": "nowhere"}, "tags": [1]},
        {"ts": at, "place": 7},
    ):
        broker.send("nested", [value], partitions=1)
    schema = pa.schema(
        {
            "ts": pa.timestamp("us", "UTC"),
            "place": pa.struct({"city": pa.string(), "at": pa.list_(pa.float64())}),
            "tags": pa.list_(pa.string()),
        }
    )
    broker.send("nested", [b"{half"], partitions=1)
    (chunk,) = Kafka(broker.servers, "nested", schema=schema)
    assert chunk.table.column("place").to_pylist() == [
        {"city": "A", "at": [1.0, 2.0]},
        {"city": "B", "at": [3.0]},
        None,
        None,
    ]
    assert chunk.table.column("tags").to_pylist() == [["x", "y"], None, None, None]
    assert chunk.bad == 4  # two places, one list, one message


def test_a_query_beside_a_nested_field_goes_on_after_a_bad_message(broker: Broker) -> None:
    broker.send("beside", [{"ts": START.isoformat(), "n": n, "at": {"x": 1}} for n in range(3)])
    broker.send("beside", [b"{half"], partitions=1)
    answers = weft.run(
        weft.sql("SELECT sum(n) AS n FROM s [RANGE '1 min']"), Kafka(broker.servers, "beside"), time="ts"
    )
    assert answers["q1"]["n"].to_pylist() == [3]
