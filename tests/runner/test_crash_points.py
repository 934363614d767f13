"""Runs disturbed at every call to file system, sink, clock and commit end as the one that nothing disturbs.

``tests/support/crash_matrix.py`` has the cases. Over windows in process all are tried; elsewhere every call
(of the driver for Spark every third) is disturbed in one way, another from call to call, and in other ways
with another WEFT_SEED. All of them are tried by ``python -m support.kill_points`` (in tests/), and with
processes that are killed; that takes long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from support.brokers import Broker
from support.crash_matrix import ENGINES, Matrix, Scope
from support.crash_points import Fault, Sequel
from support.crash_sinks import Folders, FunctionCalls, Memory, Requests, SinkPlace, Tables, Topic
from support.crash_streams import STREAMS
from support.kill_points import kill_all
from support.servers import Hook, Postgres, hook, postgres
from weft.sinks import JsonSink, ParquetSink

TURN = int(os.environ.get("WEFT_SEED", "0"))
_schemas = count()

PlaceOf = Callable[[Path], SinkPlace]


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def web_server() -> Iterator[Hook]:
    with hook() as server:
        yield server


def memory(folder: Path) -> SinkPlace:
    return Memory()


def parquet(folder: Path) -> SinkPlace:
    return Folders(folder / "out", ParquetSink)


def json_lines(folder: Path) -> SinkPlace:
    return Folders(folder / "out", JsonSink)


def function(folder: Path) -> SinkPlace:
    return FunctionCalls()


def tables_of(server: Postgres) -> PlaceOf:
    return lambda folder: Tables(server.address, f"crash_{next(_schemas)}")


@pytest.mark.slow
def test_windows_disturbed_at_any_call_in_any_way() -> None:
    matrix = Matrix("local", "windows", memory)
    assert matrix.failures(matrix.cases(Scope.LOOKS)) == []
    assert matrix.lost > len(matrix.names) / 3  # most of those that slept


@pytest.mark.slow
@pytest.mark.parametrize("stream", [name for name in STREAMS if name != "windows"])
def test_streams_disturbed_at_any_call(stream: str) -> None:
    matrix = Matrix("local", stream, memory)
    assert matrix.failures(matrix.one_case_each(Scope.CHANGES, TURN)) == []


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS)
def test_streams_of_the_driver_for_spark_disturbed_at_any_call(stream: str) -> None:
    matrix = Matrix("spark", stream, memory)
    assert matrix.expected.content == Matrix("local", stream, memory).expected.content
    cases = list(matrix.one_case_each(Scope.CHANGES, TURN))
    assert matrix.failures(cases if stream == "windows" else cases[TURN % 3 :: 3]) == []


@pytest.mark.slow
def test_files_disturbed_while_they_are_written() -> None:
    matrix = Matrix("local", "windows", memory, fine=True)
    names = ("create temporary", "force to disk", "remove temporary")
    cases = [case for case in matrix.one_case_each(Scope.CHANGES, TURN) if case.name.startswith(names)]
    assert len(cases) > 50
    assert matrix.failures(cases[TURN % 3 :: 3]) == []


@pytest.mark.slow
@pytest.mark.parametrize("place_of", [parquet, json_lines, function])
def test_sinks_disturbed_at_any_call(place_of: PlaceOf) -> None:
    matrix = Matrix("local", "pauses", place_of)
    assert {"results", "late"} == {kind for kind, _, _ in matrix.expected.content}
    assert matrix.failures(matrix.one_case_each(Scope.SINKS, TURN)) == []


@pytest.mark.slow
def test_postgresql_disturbed_at_any_call(database: Postgres) -> None:
    matrix = Matrix("local", "pauses", tables_of(database))
    assert matrix.failures(matrix.one_case_each(Scope.SINKS, TURN)) == []


@pytest.mark.slow
def test_a_webhook_disturbed_at_any_call(web_server: Hook) -> None:
    matrix = Matrix("local", "pauses", lambda folder: Requests(web_server))
    assert matrix.failures(matrix.one_case_each(Scope.SINKS, TURN)) == []


@pytest.mark.slow
def test_a_topic_disturbed_at_its_deliveries() -> None:
    broker = Broker()
    matrix = Matrix("local", "windows", lambda folder: Topic(broker, f"crash-{next(_schemas)}"))
    cases = [case for case in matrix.cases(Scope.SINKS) if case.name == "sink deliver"]
    assert matrix.failures(cases[TURN % 4 :: 4]) == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["postgres", "parquet", "json"])
def test_a_driver_that_was_paused_and_replaced_deletes_nothing_when_it_wakes(
    database: Postgres, engine: str, kind: str
) -> None:
    """Results used to go to the sink before the step was committed, and one that woke removed them from its
    own step on: of 2,688 results 530 were left."""
    place_of = {"postgres": tables_of(database), "parquet": parquet, "json": json_lines}[kind]
    matrix = Matrix(engine, "windows", place_of)
    sleeping = [
        matrix.case("commit", 1, Fault.BEFORE, Sequel.SECOND),  # nothing is committed of its second step
        matrix.case("commit", 1, Fault.AFTER, Sequel.SECOND),  # committed and not delivered
        matrix.case(
            "sink deliver", 1, Fault.BEFORE, Sequel.SECOND
        ),  # it has just looked: the turn is its own
        matrix.case("sink deliver", 1, Fault.AFTER, Sequel.SECOND),
    ]
    assert matrix.failures(sleeping) == []
    assert matrix.lost == len(sleeping)


@pytest.mark.slow
def test_processes_that_are_killed(capsys: pytest.CaptureFixture[str]) -> None:
    assert kill_all("windows", ("parquet",), every=60) == 0
    assert "| windows | parquet |" in capsys.readouterr().out
