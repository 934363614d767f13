"""Every sink holds each step once, however often and late it is delivered; steps can be taken back.

driver A  1 2 3 ........ 3 2      sleeps, wakes, and delivers again what it had committed
driver B        3 4 5 1 5         delivers what may be missing, goes on, is asked again for older steps
the sink  1 2 3 4 5               in the end
"""

from __future__ import annotations

import datetime
import itertools
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support import servers
from support.brokers import Broker
from weft.io.sinks.base import RewindingSink
from weft.io.sinks.latest import LatestSink
from weft.sinks import (
    ConsoleSink,
    FunctionSink,
    JsonSink,
    KafkaSink,
    MemorySink,
    Only,
    ParquetSink,
    PostgresSink,
    Sink,
    Sinks,
    WebhookSink,
)

TIME = pa.timestamp("us", "UTC")
AT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
ROWS_WINDOW = {"weft.window": "rows"}
SCHEMAS = {
    "windows": pa.schema({"k": pa.string(), "window_start": TIME, "window_end": TIME, "n": pa.int64()}),
    "counted": pa.schema({"k": pa.string(), "window_end": TIME, "n": pa.int64()}, metadata=ROWS_WINDOW),
    "pairs": pa.schema({"ts": TIME, "n": pa.int64()}),
}
"""Results of windows in time, which have a key, and of windows in rows and joins, which have none."""
STREAM = "s"
STEPS = 6
NUMBERS = itertools.count()

Step = dict[str, pa.Table]


def results(seq: int, names: tuple[str, ...], revised: bool = True) -> Step:
    """The results of a step; ``revised`` windows are those of the step before as well, with other values."""
    tables = {}
    for name in names:
        has_key = name == "windows"
        minutes = [seq, seq - 1] if revised and has_key else [seq, seq]
        times = [AT + datetime.timedelta(minutes=m) for m in minutes]
        values = {"k": ["a", "b" if has_key and not revised else "a"], "n": [seq, 10 * seq]}
        schema = SCHEMAS[name]
        tables[name] = pa.table([values.get(column, times) for column in schema.names], schema=schema)
    return tables


class Place(ABC):
    """A place for results that sinks of several drivers write to."""

    survives = True
    """Whether results outlive the sink that took them."""

    @abstractmethod
    def sink(self) -> Sink:
        """A sink as a driver makes it."""

    @abstractmethod
    def read(self) -> dict[str, Any]:
        """All that is there, by query, in an order of its own."""

    def driver(self) -> Sink:
        sink = self.sink()
        sink.open(SCHEMAS, STREAM)
        return sink


class Folder(Place):
    def __init__(self, folder: Path, kind: type[ParquetSink] | type[JsonSink]) -> None:
        self.folder, self.kind = folder / str(next(NUMBERS)), kind

    def sink(self) -> Sink:
        return self.kind(self.folder)

    def read(self) -> dict[str, Any]:
        files = sorted(self.folder.rglob("*"))
        assert all(file.suffix == self.kind.suffix for file in files if file.is_file())
        return {
            str(file.relative_to(self.folder)): pq.read_table(file).to_pylist()
            if self.kind is ParquetSink
            else file.read_text()
            for file in files
            if file.is_file()
        }


class Database(Place):
    def __init__(self, server: servers.Postgres) -> None:
        self.address, self.schema = server.address, f"place_{next(NUMBERS)}"

    def sink(self) -> Sink:
        return PostgresSink(self.address, schema=self.schema)

    def read(self) -> dict[str, Any]:
        with psycopg.connect(self.address) as connection:
            return {
                name: sorted(connection.execute(f"SELECT t.* FROM {self.schema}.{name} t").fetchall())
                for name in SCHEMAS
            }


class Topic(Place):
    def __init__(self, broker: Broker) -> None:
        self.broker, self.topic = broker, f"topic-{next(NUMBERS)}"

    def sink(self) -> Sink:
        return KafkaSink(self.broker.servers, self.topic)

    def read(self) -> dict[str, Any]:
        rows = [json.loads(message.value()) for message in self.broker.read(self.topic)]
        return {name: sorted(str(row) for row in rows if row["query"] == name) for name in SCHEMAS}


class Requests(Place):
    """Requests of a webhook; the other side keeps one for each key."""

    def __init__(self, hook: servers.Hook) -> None:
        self.hook = hook
        hook.requests.clear()

    def sink(self) -> Sink:
        return WebhookSink(self.hook.url)

    def read(self) -> dict[str, Any]:
        return {name: [row for row in self.hook.taken() if row["query"] == name] for name in SCHEMAS}


class Memory(Place):
    survives = False

    def __init__(self) -> None:
        self.memory = MemorySink()

    def sink(self) -> Sink:
        return Sinks(Only(self.memory, ["windows", "p*"]), FunctionSink(lambda results, seq: None))

    def read(self) -> dict[str, Any]:
        return {name: table.to_pylist() for name, table in self.memory.tables.items()}


class Latest(Place):
    survives = False

    def __init__(self) -> None:
        self.latest = LatestSink()

    def sink(self) -> Sink:
        return self.latest

    def read(self) -> dict[str, Any]:
        counts = {name: (self.latest.delivered[name], self.latest.windows[name]) for name in SCHEMAS}
        return {name: (counts[name], self.latest.table(name).to_pylist()) for name in SCHEMAS}


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Postgres]:
    with servers.postgres() as running:
        yield running


@pytest.fixture(scope="module")
def hook() -> Iterator[servers.Hook]:
    with servers.hook() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Broker:
    return Broker()


@pytest.fixture(
    params=[
        *("parquet", "json", "postgres", "webhook", "memory", "latest"),
        pytest.param("kafka", marks=pytest.mark.slow),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Place]:
    """Makes a place of each kind, with nothing in it."""
    match request.param:
        case "postgres":
            server = request.getfixturevalue("server")
            return lambda: Database(server)
        case "kafka":
            broker = request.getfixturevalue("broker")
            return lambda: Topic(broker)
        case "webhook":
            hook = request.getfixturevalue("hook")
            return lambda: Requests(hook)
        case "memory":
            return Memory
        case "latest":
            return Latest
    kind = ParquetSink if request.param == "parquet" else JsonSink
    return lambda: Folder(tmp_path, kind)


QUERIES_OF_STEPS = st.lists(
    st.lists(st.sampled_from(sorted(SCHEMAS)), unique=True, min_size=1).map(tuple) | st.just(()),
    min_size=STEPS,
    max_size=STEPS,
)
DELIVERIES = st.lists(
    st.one_of(
        st.just("next"),
        st.just("restart"),
        st.tuples(st.sampled_from(["again", "by a sleeper"]), st.integers(0, STEPS - 1)),
    ),
    min_size=10,
    max_size=25,
)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(QUERIES_OF_STEPS, DELIVERIES)
def test_however_steps_are_delivered_each_is_there_once(
    place: Callable[[], Place], queries: list[tuple[str, ...]], deliveries: list[Any]
) -> None:
    steps = {seq: results(seq, names) for seq, names in enumerate(queries, 1)}
    plain = place()
    driver = plain.driver()
    for seq, step in steps.items():
        driver.deliver(step, seq)
    expected = plain.read()
    repeated = place()
    drivers, delivered = [repeated.driver()], 0
    for delivery in (*deliveries, *["next"] * STEPS):
        match delivery:
            case "next" if delivered < STEPS:
                delivered += 1
                drivers[-1].deliver(steps[delivered], delivered)
            case "restart" if repeated.survives:
                drivers.append(repeated.driver())
            case (who, back) if delivered:
                seq = max(1, delivered - back)
                # The brokers of the tests shut nobody out, as those of Kafka do.
                sleeps = who == "by a sleeper" and not isinstance(repeated, Topic)
                drivers[0 if sleeps else -1].deliver(steps[seq], seq)
    assert repeated.read() == expected


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(QUERIES_OF_STEPS, st.integers(0, STEPS), st.integers(0, STEPS), st.booleans())
def test_steps_are_taken_back(
    place: Callable[[], Place], queries: list[tuple[str, ...]], last: int, after: int, restarted: bool
) -> None:
    """Steps 1 to ``last``, back to ``after``, then on with new numbers, but for what cannot be taken back."""
    rewound = place()
    if (not rewound.survives and restarted) or isinstance(rewound, Topic | Requests | Latest):
        return
    steps = {seq: results(seq, names, revised=False) for seq, names in enumerate(queries, 1)}
    later = {STEPS + seq: results(STEPS + seq, names, revised=False) for seq, names in enumerate(queries, 1)}
    driver = rewound.driver()
    for seq in range(1, last + 1):
        driver.deliver(steps[seq], seq)
    if restarted:
        driver = rewound.driver()
    elsewhere = rewound.sink()
    elsewhere.open({"pairs": SCHEMAS["pairs"]}, "other")
    assert isinstance(driver, RewindingSink)
    if rewound.survives:
        elsewhere.deliver(results(9, ("pairs",)), 9)
    driver.rewind(after)
    for seq, step in later.items():
        driver.deliver(step, seq)
    plain = place()
    driver = plain.driver()
    for seq, step in {**{n: steps[n] for n in range(1, min(last, after) + 1)}, **later}.items():
        driver.deliver(step, seq)
    if plain.survives:
        elsewhere = plain.sink()
        elsewhere.open({"pairs": SCHEMAS["pairs"]}, "other")
        elsewhere.deliver(results(9, ("pairs",)), 9)
    assert rewound.read() == plain.read()


def test_queries_that_are_gone_are_taken_back_too(server: servers.Postgres, tmp_path: Path) -> None:
    for place in (Folder(tmp_path, ParquetSink), Database(server)):
        driver = place.driver()
        for seq in (1, 2):
            driver.deliver(results(seq, ("counted", "pairs")), seq)
        driver = place.sink()
        driver.open({"pairs": SCHEMAS["pairs"]}, STREAM)
        driver.rewind(1)
        expected = type(place)(server) if isinstance(place, Database) else Folder(tmp_path, ParquetSink)
        expected.driver().deliver(results(1, ("counted", "pairs")), 1)
        assert place.read() == expected.read()


def test_a_sleeper_cannot_bring_back_what_was_taken_back(server: servers.Postgres) -> None:
    place = Database(server)
    sleeper, driver = place.driver(), place.driver()
    for seq in (1, 2):
        driver.deliver(results(seq, ("pairs",)), seq)
    driver.rewind(1)
    expected = place.read()
    sleeper.deliver(results(2, ("pairs",)), 2)
    assert place.read() == expected


def test_what_cannot_be_taken_back_is_said(
    broker: Broker, hook: servers.Hook, caplog: pytest.LogCaptureFixture
) -> None:
    for place in (Topic(broker), Requests(hook)):
        driver = place.driver()
        driver.deliver(results(2, ("pairs",)), 2)
        expected = place.read()
        with caplog.at_level(logging.WARNING):
            driver.rewind(1)
        assert "cannot be taken back" in caplog.messages[-1]
        assert place.read() == expected
    assert not isinstance(ConsoleSink(), RewindingSink)


def test_the_latest_results_are_forgotten_with_what_is_taken_back() -> None:
    place = Latest()
    driver = place.driver()
    driver.deliver(results(2, ("pairs",)), 2)
    driver.rewind(2)
    assert place.latest.delivered["pairs"] == 2
    driver.rewind(1)
    driver.deliver(results(3, ("pairs",)), 3)
    assert place.read()["pairs"] == ((2, 1), results(3, ("pairs",))["pairs"].to_pylist())
