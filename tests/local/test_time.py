"""What moves the watermark: nothing is lost of input that ends, nor to one row with a wrong time."""

from __future__ import annotations

import datetime
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import weft
from support import oracle
from support.brokers import Broker
from support.oracle import assert_same
from support.strategies import SQL_TYPES, TIME, Case, cases, splits
from weft.errors import LateRowsWarning
from weft.io.files.chunk import Chunk
from weft.jobs import job as jobs
from weft.jobs import launch
from weft.jobs.report import Report
from weft.local.running import LocalRun
from weft.operators.late import AHEAD_REASON
from weft.operators.watermark import UNREAD_REMARK, StepClock, TimeRules, without_silent
from weft.sinks import MemorySink

HOUR = 3_600_000_000
MINUTE = 60_000_000
START = 1_704_067_200_000_000
HOURLY = weft.sql("-- name: hourly\nSELECT count(*) AS n FROM s [RANGE '1 hour']")


def table(*micros: int) -> pa.Table:
    return pa.table({"ts": pa.array([START + m for m in micros], pa.timestamp("us"))})


def minutes(first: int, last: int) -> pa.Table:
    return table(*(m * MINUTE for m in range(first, last)))


def count(answers: Any, name: str = "hourly") -> int:
    return sum(answers[name].column("n").to_pylist())


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield Broker()


# Input that ends


def test_a_table_that_comes_after_a_later_one_is_counted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = weft.run(HOURLY, [minutes(2000, 4000), minutes(0, 2000)], time="ts")
    assert (count(answers), answers.rows, answers.late) == (4000, 4000, 0)


@pytest.mark.slow
@given(st.data(), cases())
def test_the_order_of_tables_changes_no_answer(data: st.DataObject, case: Case) -> None:
    batches = data.draw(st.permutations(data.draw(splits(case.table), "batches")), "order")
    try:
        expected = oracle.answer(case.queries, case.rows, TIME, SQL_TYPES)
    except oracle.Overflow:
        return
    answers = weft.run(case.queries, batches, time=TIME)
    assert answers.late == 0
    for query in case.queries:
        assert_same(query, answers.get(query.name), expected[query.name])


def test_only_a_given_lateness_makes_rows_late_and_says_so() -> None:
    with pytest.warns(LateRowsWarning, match="2,000 of 4,000 rows"):
        answers = weft.run(HOURLY, [minutes(2000, 4000), minutes(0, 2000)], time="ts", lateness="0 s")
    assert (count(answers), answers.late) == (2000, 2000)


def test_of_an_iterator_nobody_knows_the_end() -> None:
    with pytest.warns(LateRowsWarning):
        answers = weft.run(HOURLY, iter([minutes(2000, 4000), minutes(0, 2000)]), time="ts")
    assert answers.late == 2000


def files(place: Path, file_format: str) -> weft.Files:
    """A later file whose name comes first, and one that begins before the first ends."""
    place.mkdir()
    parts = {"a": minutes(2000, 3000), "b": minutes(0, 1200), "c": minutes(1100, 2000)}
    for name, rows in parts.items():
        path = place / f"{name}.{file_format}"
        if file_format == "parquet":
            pq.write_table(rows, path, row_group_size=100)
        elif file_format == "csv":
            csv.write_csv(rows, path)
        else:
            path.write_text("".join(json.dumps({"ts": str(ts)}) + "\n" for ts in rows["ts"].to_pylist()))
    return weft.Files(place, format=file_format, schema={"ts": "timestamp"})


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_files_are_counted_whatever_their_order(tmp_path: Path, file_format: str) -> None:
    answers = weft.run(HOURLY, files(tmp_path / "in", file_format), time="ts")
    assert (count(answers), answers.late) == (3100, 0)
    assert answers["hourly"].num_rows == 50


def test_what_is_unread_of_parquet_files_is_known_by_their_statistics(tmp_path: Path) -> None:
    chunks = list(files(tmp_path / "in", "parquet").chunks(["ts"], (), "ts"))
    assert chunks[-1].mark == 2**63 - 1
    rows = minutes(0, 2000)
    pq.write_table(rows, tmp_path / "one.parquet", row_group_size=500)
    small = weft.Files(tmp_path / "one.parquet")
    marks = [chunk.mark for chunk in read_apart(small)]
    assert marks == [START + m * MINUTE for m in (500, 1000, 1500)] + [2**63 - 1]
    pq.write_table(rows, tmp_path / "one.parquet", row_group_size=500, write_statistics=False)
    assert [chunk.mark for chunk in read_apart(small)] == [None, None, None, 2**63 - 1]


def read_apart(source: weft.Files) -> Iterator[Chunk]:
    """The row groups of a file, none put together."""
    from weft.io.files import read_parquet
    from weft.io.files.split import join_row_groups

    (split,) = join_row_groups(read_parquet.find_splits(source.find()[0], "ts"))
    return read_parquet.read(split, source.stream_schema(), ())


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_statistics_are_read_in_any_unit(tmp_path: Path, unit: str, zone: str | None) -> None:
    rows = minutes(0, 4).cast(pa.schema({"ts": pa.timestamp(unit, zone)}))
    pq.write_table(rows, tmp_path / "one.parquet", row_group_size=2)
    marks = [chunk.mark for chunk in read_apart(weft.Files(tmp_path / "one.parquet"))]
    assert marks == [START + 2 * MINUTE, 2**63 - 1]


JOB = """
[source]
kind = "files"
path = "in"
format = "{format}"
[source.schema]
ts = "timestamp"
[stream]
time = "ts"
[queries]
sql = "SELECT count(*) AS n FROM s [RANGE '1 hour']"
[sink]
kind = "memory"
"""


@pytest.mark.parametrize("file_format", ["parquet", "csv", "json"])
def test_a_job_over_files_counts_all_and_says_why_windows_wait(tmp_path: Path, file_format: str) -> None:
    files(tmp_path / "in", file_format)
    told: list[Any] = []
    job, sink = jobs.parse(JOB.format(format=file_format), tmp_path), MemorySink()
    with launch.start(job, "local", sink, Report(Console(quiet=True)), on_progress=told.append) as running:
        running.await_done()
    assert count(sink.tables, "q1") == 3100
    assert sum(p.late for p in told) == 0
    said = {p.remark for p in told if p.kind == "batch"}
    assert said == ({""} if file_format == "parquet" else {UNREAD_REMARK})


def test_of_generated_rows_it_is_known_what_is_to_come() -> None:
    source = weft.Generated(rows=300_000, rate=100.0, disorder=600.0, max_rows_per_batch=50_000)
    seen: list[pa.Table] = []
    for chunk in source:
        assert chunk.mark is not None
        seen.append(chunk.table)
        rest = [c.table for c in list(source)[len(seen) :]] if len(seen) in (1, 4) else []
        for later in rest:
            least = min(later["ts"].cast(pa.int64()).to_pylist())
            assert least >= chunk.mark
    answers = weft.run(HOURLY, source, time="ts")
    assert (count(answers), answers.late) == (300_000, 0)


def send(broker: Broker, topic: str, parts: list[list[int]]) -> weft.Kafka:
    """A topic whose partitions have the rows of these minutes, each in order."""
    for partition, some in enumerate(parts):
        values = [
            json.dumps(
                {"ts": (datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=m)).isoformat() + "Z"}
            ).encode()
            for m in some
        ]
        for value in values:
            broker._producer.produce(topic, value, partition=partition)
    assert broker._producer.flush(20) == 0
    return weft.Kafka(broker.servers, topic, schema={"ts": "timestamp"}, max_rows_per_batch=400)


def skewed() -> list[list[int]]:
    """Four partitions of one stream, the last two hours behind the first, and one shorter."""
    return [
        list(range(1250)),
        list(range(1250)),
        list(range(-120, 1130)),
        list(range(-120, 200)),
    ]


@pytest.mark.parametrize("lateness", [None, "0 s"])
def test_a_topic_is_counted_whole_by_partition(broker: Broker, lateness: str | None) -> None:
    parts = skewed()
    source = send(broker, f"whole-{lateness}", parts)
    answers = weft.run(HOURLY, source, time="ts", lateness=lateness)
    assert (count(answers), answers.late) == (sum(map(len, parts)), 0)


def test_joins_of_tables_in_any_order_lose_no_row() -> None:
    joins = weft.sql("-- name: j\nSELECT a.k FROM a [RANGE '5 min'], b [RANGE '5 min'] WHERE a.k = b.k")
    rows = [table(*(m * MINUTE for m in r)) for r in (range(100, 200), range(100))]
    keyed = [t.append_column("k", pa.array(range(len(t)))) for t in rows]
    whole = pa.concat_tables(keyed)
    expected = weft.run(joins, {"a": whole, "b": whole}, time="ts")["j"].num_rows
    found = weft.run(joins, {"a": keyed, "b": keyed[::-1]}, time="ts")
    assert expected == 200
    assert (found["j"].num_rows, found.late) == (expected, 0)
    with pytest.warns(LateRowsWarning):
        assert weft.run(joins, {"a": keyed, "b": keyed}, time="ts", lateness="0 s").late == 200


# A row ahead of the clock


YEARS = 10 * 366 * 24 * HOUR


def live(clock: int = START + HOUR, **rules: Any) -> tuple[LocalRun, MemorySink]:
    sink = MemorySink()
    run = LocalRun(HOURLY, table().schema, "ts", threads=1, late=sink)
    run.rules = {"": TimeRules.of(None, None, None, ends=False, **rules)}
    run.clock = lambda: clock / 1e6
    return run, sink


def test_one_row_ten_years_ahead_makes_no_other_row_late() -> None:
    run, sink = live()
    counted = 0
    for batch in (minutes(0, 10), table(10 * MINUTE, YEARS), minutes(11, 60), minutes(60, 100)):
        answered = run.step(batch)
        counted += sum(answered["hourly"].column("n").to_pylist()) if "hourly" in answered else 0
    assert run.watermark == START + 99 * MINUTE
    assert (run.seen.late, run.seen.ahead) == (0, 1)
    assert counted == 60
    kept = sink.tables["late"].to_pylist()
    assert [(row["reason"], row["ts"].year) for row in kept] == [(AHEAD_REASON, 2034)]
    # It stays in its own window, which is answered at the end.
    closed = run.close()["hourly"].column("n").to_pylist()
    assert sorted(closed) == [1, 40]


def test_a_row_an_hour_ahead_is_still_believed() -> None:
    run, _ = live(clock=START)
    run.step(table(HOUR))
    assert (run.watermark, run.seen.ahead) == (START + HOUR, 0)
    run.step(table(HOUR + 1))
    assert (run.watermark, run.seen.ahead) == (START + HOUR, 1)


def test_an_iterator_with_a_row_ten_years_ahead_loses_nothing() -> None:
    answers = weft.run(
        HOURLY, iter([minutes(0, 500), table(500 * MINUTE, 40 * YEARS), minutes(501, 1501)]), time="ts"
    )
    assert (count(answers), answers.late, answers.ahead) == (1502, 0, 1)


def test_input_that_ends_believes_every_row() -> None:
    answers = weft.run(HOURLY, [minutes(0, 10), table(40 * YEARS), minutes(10, 20)], time="ts")
    assert (count(answers), answers.late, answers.ahead) == (21, 0, 0)


# Partitions and streams that fall silent


def test_a_silent_partition_holds_the_watermark_until_it_is_idle() -> None:
    rules = TimeRules(lateness=0, idle=100)
    at = StepClock(rules, now=1000, watermark=5, latest={"0": 50, "1": 5}, heard={"0": 999, "1": 920})
    assert at.watermark_after({"0": 60}) == 5
    later = StepClock(rules, now=1020, watermark=5, latest={"0": 60, "1": 5}, heard={"0": 1000, "1": 920})
    assert later.watermark_after({"0": 70}) == 70
    # One that is known to have more rows is not idle, however long nothing has come of it.
    assert later.watermark_after({"0": 70}, unread={"1"}) == 5


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.integers(0, 100)),
            st.sets(st.sampled_from("abc")),
            st.integers(0, 50),
        ),
        max_size=12,
    ),
    st.integers(0, 10),
    st.sampled_from([None, 30]),
)
def test_the_watermark_never_goes_back_nor_passes_a_partition_that_is_read(
    steps: list[tuple[dict[str, int], set[str], int]], lateness: int, idle: int | None
) -> None:
    rules, now, mark = TimeRules(lateness, idle=idle), 0, None
    latest: dict[str, int] = {}
    heard: dict[str, int] = {}
    for rows, unread, passed in steps:
        now += passed
        clock = StepClock(rules, now, mark, latest, heard)
        after = clock.watermark_after(rows, unread)
        latest = {p: max(latest.get(p, -1), rows.get(p, -1)) for p in {**latest, **rows}}
        heard = clock.heard_after(rows)
        assert mark is None or (after is not None and after >= mark)
        if after is not None and after != mark:
            assert all(after <= latest[p] - lateness for p in rows.keys() | unread)
        mark = after


def test_a_silent_stream_of_a_join_keeps_state_only_until_it_is_idle() -> None:
    joins = weft.sql(
        "-- name: j\nSELECT a.ts AS at FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.ts = b.ts"
    )
    schema = table().schema
    held = {}
    for idle in (None, 5 * MINUTE):
        run = LocalRun(joins, {"a": schema, "b": schema}, "ts")
        run.rules = dict.fromkeys("ab", TimeRules.of(None, None, idle, ends=False))
        run.idle = idle
        for minute in range(60):
            run.clock = lambda minute=minute: START / 1e6 + 60 * minute
            run.step({"a": table(minute * MINUTE), **({} if minute else {"b": table(0)})})
        held[idle] = run.state_rows
        # A row that comes back is joined if it is no earlier than the others' watermark.
        run.step({"b": table(59 * MINUTE)})
        after = run.step({"a": table(61 * MINUTE), "b": table(61 * MINUTE)})
        assert after["j"].num_rows == 1
    assert held[None] >= 59
    assert held[5 * MINUTE] <= 4
    assert without_silent({"a": None, "b": 3}, {"a": 0, "b": 0}, now=9, idle=5) == {"a": None, "b": 3}


def test_the_closing_line_of_a_run_says_what_was_late(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from weft.cli.main import app

    text = JOB.format(format="parquet").replace('time = "ts"', 'time = "ts"\nlateness = "0 s"')
    source = 'kind = "generator"\nrows = 3000\nrate = 1\ndisorder = "3 hours"\n[stream]'
    (tmp_path / "job.toml").write_text(re.sub(r'kind = "files".*?\[stream\]', source, text, flags=re.S))
    said = CliRunner().invoke(app, ["run", str(tmp_path / "job.toml"), "--engine", "local"])
    assert said.exit_code == 0, said.output
    closing = json.loads(said.output.splitlines()[-1])
    late = closing["total"]["late"]
    assert closing["total"]["rows"] == 3000
    assert late > 0
    assert closing["warning"].startswith(f"{late:,} of 3,000 rows came after a window")
