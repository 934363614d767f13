"""One zone for a run: hours, dates, literals and texts are local to it, however columns are typed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import weft
from support import oracle
from weft.errors import JobError
from weft.jobs import launch
from weft.jobs.job import parse
from weft.jobs.report import Report
from weft.local.running import LocalRun

EIGHT = dt.datetime(2024, 7, 1, 8, tzinfo=dt.UTC)
HOURS = {"UTC": 8, "Europe/Berlin": 10, "America/New_York": 4, "Asia/Kolkata": 13, "-09:30": 22}
HOUR = weft.sql("-- name: q\nSELECT max(hour(ts)) AS h FROM s [RANGE '1 day']")


def rows(typed: str | None, *times: dt.datetime, **columns: Any) -> pa.Table:
    instants = pa.array(times or (EIGHT,), pa.timestamp("us", "UTC"))
    return pa.table({"ts": instants.cast(pa.timestamp("us", typed)), **columns})


@pytest.mark.parametrize("typed", ["UTC", "Europe/Berlin", "Asia/Tokyo", "+02:00"])
def test_hours_are_those_of_the_zone_given_utc_by_default(typed: str) -> None:
    assert weft.run(HOUR, rows(typed), time="ts")["q"]["h"].to_pylist() == [8]
    for zone, hour in HOURS.items():
        assert weft.run(HOUR, rows(typed), time="ts", zone=zone)["q"]["h"].to_pylist() == [hour]


@pytest.mark.parametrize("zone", HOURS)
def test_columns_without_a_zone_are_local_times_as_they_stand(zone: str) -> None:
    text = (
        "SELECT max(hour(ts)) AS h, max(CAST(ts AS string)) AS s, max(CAST(ts AS date)) AS d FROM s "
        "[RANGE '1 day'] WHERE ts >= TIMESTAMP '2024-07-01 08:00:00' AND ts = '2024-07-01 08:00:00'"
    )
    (row,) = weft.run(weft.sql(text), rows(None), time="ts", zone=zone)["q1"].to_pylist()
    assert (row["h"], row["s"], row["d"]) == (8, "2024-07-01 08:00:00", dt.date(2024, 7, 1))


def test_windows_stay_where_they_are() -> None:
    days = weft.sql("SELECT count(*) AS n FROM s [RANGE '1 day']")
    found = [weft.run(days, rows("Europe/Berlin"), time="ts", zone=zone)["q1"] for zone in HOURS]
    assert found[0]["window_start"].to_pylist() == [dt.datetime(2024, 7, 1, tzinfo=dt.UTC)]
    assert all(table.equals(found[0]) for table in found)


def test_results_are_computed_in_the_zone_too() -> None:
    text = (
        "SELECT hour(max(ts)) AS h, CAST(min(ts) AS date) AS d FROM s [RANGE '1 hour'] "
        "HAVING hour(max(ts)) = {}"
    )
    late = dt.datetime(2024, 7, 1, 22, 30, tzinfo=dt.UTC)
    for zone, hour, day in (("UTC", 22, 1), ("Europe/Berlin", 0, 2), ("Asia/Kolkata", 4, 2)):
        table = rows("America/New_York", late)
        (row,) = weft.run(weft.sql(text.format(hour)), table, time="ts", zone=zone)["q1"].to_pylist()
        assert (row["h"], row["d"]) == (hour, dt.date(2024, 7, day))
        assert not weft.run(weft.sql(text.format(hour + 1)), table, time="ts", zone=zone)["q1"].num_rows


def test_times_that_are_made_have_the_type_of_what_they_are() -> None:
    """Instants in the zone of the time column, local times in none."""
    table = rows("Asia/Tokyo", s=["2024-07-01 12:00:00"], n=pa.array([dt.datetime(2024, 7, 1)]))
    text = (
        "SELECT max(CAST(s AS timestamp)) AS made, max(coalesce(n, n)) AS local, max(ts) AS own, "
        "coalesce(max(ts), max(ts)) AS again FROM s [RANGE '1 day']"
    )
    found = weft.run(weft.sql(text), table, time="ts", zone="Europe/Berlin")["q1"]
    tokyo = pa.timestamp("us", "Asia/Tokyo")
    assert [found.schema.field(n).type for n in ("made", "local", "own", "again")] == [
        tokyo,
        pa.timestamp("us"),
        tokyo,
        tokyo,
    ]
    (row,) = found.to_pylist()
    assert row["made"] == dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)
    assert row["local"] == dt.datetime(2024, 7, 1)


def test_queries_that_are_added_have_the_zone_of_the_run() -> None:
    run = LocalRun(HOUR, rows("UTC").schema, "ts", zone="Asia/Kolkata")
    run.add("-- name: more\nSELECT max(minute(ts)) AS m FROM s [RANGE '1 day']")
    run.step(rows("UTC"))
    closed = run.close()
    assert (closed["q"]["h"].to_pylist(), closed["more"]["m"].to_pylist()) == ([13], [30])
    run.shutdown()


def test_tables_are_looked_up_in_the_zone() -> None:
    """A local time of the table is an instant by the run's zone, and so is one of a key."""
    opens = pa.table({"at": pa.array([dt.datetime(2024, 7, 1, 10)]), "v": [7]})
    hours = pa.table({"h": [10], "v": [7]})
    by_time = weft.sql("SELECT max(v) AS v FROM s [RANGE '1 day'] JOIN opens ON s.ts = opens.at")
    by_hour = weft.sql("SELECT max(v) AS v FROM s [RANGE '1 day'] JOIN hours ON hour(s.ts) = hours.h")
    for query, tables in ((by_time, {"opens": opens}), (by_hour, {"hours": hours})):
        for zone, found in (("Europe/Berlin", [7]), ("UTC", [])):
            answers = weft.run(query, rows("Asia/Tokyo"), time="ts", tables=tables, zone=zone)
            assert answers["q1"]["v"].to_pylist() == found


JOINS = """
-- name: pairs
SELECT hour(a.ts) AS h, CAST(b.ts AS date) AS d FROM a [RANGE '1 min'], b [RANGE '1 min']
WHERE hour(a.ts) = {hour} AND hour(a.ts) = hour(b.ts) AND CAST(a.ts AS date) <= CAST(b.ts AS date);
-- name: counted
SELECT count(*) AS n, max(hour(a.ts)) AS h FROM a [RANGE '1 min'], b [RANGE '1 min']
WHERE hour(a.ts) = {hour} AND a.ts = b.ts GROUP BY window('1 day', '1 day')
"""


@pytest.mark.parametrize("zone", HOURS)
def test_joins_have_the_zone_of_the_run(zone: str) -> None:
    streams = {"a": rows("UTC"), "b": rows("Asia/Tokyo")}
    queries = weft.sql(JOINS.format(hour=HOURS[zone]))
    answers = weft.run(queries, streams, time="ts", zone=zone)
    day = dt.date(2024, 6, 30) if zone == "-09:30" else dt.date(2024, 7, 1)
    assert answers["pairs"].select(["h", "d"]).to_pylist() == [{"h": HOURS[zone], "d": day}]
    assert answers["counted"].select(["n", "h"]).to_pylist() == [{"n": 1, "h": HOURS[zone]}]
    three = weft.sql(
        "SELECT hour(c.ts) AS h FROM a [RANGE '1 min'], b [RANGE '1 min'], c [RANGE '1 min'] "
        f"WHERE hour(a.ts) = {HOURS[zone]} AND hour(b.ts) = hour(c.ts) AND a.ts = b.ts"
    )
    answers = weft.run(three, {**streams, "c": rows("UTC")}, time="ts", zone=zone)
    assert answers["q1"]["h"].to_pylist() == [HOURS[zone]]


QUERIES = weft.sql(
    """
    -- name: hours
    SELECT x, count(*) AS n, max(hour(ts)) AS h, min(minute(ts)) AS m,
           max(CAST(CAST(ts AS date) AS string)) AS d
    FROM s [RANGE '6 hours' SLIDE '3 hours'] WHERE hour(ts) BETWEEN 1 AND 20 GROUP BY x;
    -- name: since
    SELECT count(*) AS n, max(CAST(ts AS string)) AS t FROM s [RANGE '1 day']
    WHERE ts >= TIMESTAMP '2024-10-27 02:30:00' AND ts < '2024-10-27 03:00:00' OR dayofweek(ts) = 7;
    -- name: late
    SELECT max(hour(ts)) AS h FROM s [RANGE '2 hours'] HAVING h > 12
    """
)
CHANGES = [(2024, 10, 27, 1), (2024, 3, 31, 1), (2024, 4, 6, 15), (2024, 10, 5, 15), (2024, 11, 3, 6)]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.sampled_from(["UTC", "Asia/Tokyo", "Europe/Berlin"]),
    st.sampled_from(CHANGES),
    st.lists(st.tuples(st.integers(-400, 400), st.integers(0, 2)), min_size=1, max_size=30),
)
def test_answers_equal_the_oracle_where_clocks_change(
    zone: str, typed: str, change: tuple[int, ...], given: list[tuple[int, int]]
) -> None:
    at = dt.datetime(*change, tzinfo=dt.UTC)  # type: ignore[misc]
    data = [{"ts": at + dt.timedelta(minutes=minute), "x": x} for minute, x in given]
    table = pa.table(
        {
            "ts": pa.array([row["ts"] for row in data], pa.timestamp("us", typed)),
            "x": pa.array([row["x"] for row in data], pa.int64()),
        }
    )
    found = weft.run(QUERIES, table, time="ts", zone=zone)
    expected = oracle.answer(QUERIES, data, "ts", zone=zone)
    for query in QUERIES:
        oracle.assert_same(query, found[query.name], expected[query.name])


JOB = """
[source]
kind = "files"
path = "in"
[stream]
time = "ts"
{zone}
[queries]
sql = "SELECT max(hour(ts)) AS h FROM s [RANGE '1 day']"
[sink]
kind = "memory"
{more}
"""


def job_of(tmp_path: Path, zone: str = "", more: str = "") -> Any:
    return parse(JOB.format(zone=f'zone = "{zone}"' * bool(zone), more=more), tmp_path)


def test_jobs_have_a_zone(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(rows("Europe/Berlin"), tmp_path / "in" / "1.parquet")
    conf = '[spark]\nconf = { "spark.sql.session.timeZone" = "Asia/Kolkata" }'
    for job, hour in (
        (job_of(tmp_path), 8),
        (job_of(tmp_path, "Europe/Berlin"), 10),
        (job_of(tmp_path, more=conf), 13),
        (job_of(tmp_path, "+05:30", conf.replace("Asia/Kolkata", "GMT+0530")), 13),
    ):
        sink: Any = launch.run(job, "local", Report(Console(quiet=True)))
        assert sink.tables["q1"]["h"].to_pylist() == [hour]
    with pytest.raises(JobError, match=r"\[stream\] zone: unknown time zone 'Europe/Berln'; did you mean"):
        job_of(tmp_path, "Europe/Berln")
    with pytest.raises(
        JobError, match=r"\[stream\] zone is UTC, and spark.sql.session.timeZone .* is Asia/Kolk"
    ):
        job_of(tmp_path, "UTC", conf)


def test_joins_of_a_job_have_its_zone(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        pq.write_table(rows("Europe/Berlin"), tmp_path / name / "1.parquet")
    sources = "".join(f'[sources.{name}]\nkind = "files"\npath = "{name}"\n' for name in "ab")
    asked = f"[queries]\nsql = '''{JOINS.format(hour=13)}'''\n[sink]\nkind = 'memory'"
    job = parse(f"{sources}[stream]\ntime = 'ts'\nzone = 'Asia/Kolkata'\n{asked}", tmp_path)
    sink: Any = launch.run(job, "local", Report(Console(quiet=True)))
    assert sink.tables["pairs"]["h"].to_pylist() == [13]
    assert sink.tables["counted"]["h"].to_pylist() == [13]


def test_zones_that_are_none_are_refused() -> None:
    for zone in ("Berlin", "+24:00", ""):
        with pytest.raises(JobError, match=f"unknown time zone '{zone}'".replace("+", r"\+")):
            weft.run(HOUR, rows("UTC"), time="ts", zone=zone)
