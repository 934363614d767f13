"""Joins that come and go in steps as Spark makes them: driver and tasks in this process, state in files.

At random moments joins come, go and take each other's place, a run ends and another goes on, or dies after
its results were delivered. Whatever happens, each result is that of all pairs, once.
"""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from support.join_cases import (
    CONDITIONS,
    EMPTY,
    RANGES,
    SCHEMA,
    SECOND,
    SELECTIONS,
    Life,
    admitted,
    batches,
    covers,
    join,
    steps_of,
    watermarks,
)
from support.join_oracle import as_tuples, oracle, ordered
from support.join_world import World
from weft.model.join import JoinQuery
from weft.sinks import MemorySink

EPOCH = datetime.datetime(1970, 1, 1)


POINTS = ("write_version", "before deliver", "deliver", "before publish", "publish")
"""What a run may die after, or before."""


def tuples(sink: MemorySink, name: str) -> list[tuple[Any, ...]]:
    found = [step[name] for _, step in sorted(sink.steps.items()) if name in step]
    return [row for table in found for row in as_tuples(table)]


class Lives:
    """The joins that are asked for, those that run, and all that ever ran."""

    def __init__(self, queries: list[JoinQuery], selection: str) -> None:
        self.selected = {q.name: selection for q in queries}
        self.asked = {q.name: q for q in queries}
        self.running = {q.name: Life(q, 0) for q in queries}
        self.all = list(self.running.values())

    def ask(self, data: st.DataObject, world: World, condition: str) -> None:
        """One change, of any kind."""
        action = data.draw(st.sampled_from(["add", "drop", "replace"])) if self.asked else "add"
        name = f"added{world.batch_id}_{len(self.asked)}_{len(self.all)}"
        while action == "add" and name in self.asked:
            name += "_"
        if action != "add":
            name = data.draw(st.sampled_from(sorted(self.asked)))
            self.asked.pop(name)
        if action == "drop":
            world.running.drop(name)
            return
        longest = (RANGES[-1], RANGES[-1])
        selections: tuple[str, ...] = SELECTIONS
        if self.running and data.draw(st.integers(0, 3)):  # mostly one that a running join covers
            life = data.draw(st.sampled_from(sorted(self.running.values(), key=lambda o: o.query.name)))
            longest = (life.query.sides[0].range // SECOND, life.query.sides[1].range // SECOND)
            selections = (self.selected[life.query.name],)
        first, second = (data.draw(st.sampled_from([r for r in RANGES if r <= most])) for most in longest)
        self.selected[name] = selection = data.draw(st.sampled_from(selections))
        self.asked[name] = query = join(name, condition, selection, (first, second))
        running = world.running
        running.add(query) if action == "add" else running.replace(query)

    def take(self, number: int, seen: bool, now: int | None) -> None:
        """What the step of this number is made with; results before ``now`` have gone out."""
        there, self.running = self.running, {}
        for name, query in self.asked.items():
            if name in there and there[name].query == query:
                self.running[name] = there[name]
                continue
            # Those that ran until now, also if they leave with this step.
            cover = next((life for life in there.values() if covers(life.query, query)), None)
            since = number if cover is None else cover.since
            life = Life(query, since, now if cover else None) if seen else Life(query, 0)
            self.running[name] = life
            self.all.append(life)
        for name, life in there.items():
            if self.running.get(name) is not life:
                life.dropped, life.last = True, now


@pytest.mark.slow
@settings(max_examples=15)
@given(data=st.data())
def test_joins_come_and_go(data: st.DataObject) -> None:
    condition = data.draw(st.sampled_from(CONDITIONS[:10]))
    selection = data.draw(st.sampled_from(SELECTIONS[:3]))
    queries = [
        join(f"q{n}", condition, selection, (100, n))
        for n in data.draw(st.sets(st.sampled_from(RANGES), min_size=1))
    ]
    lateness = data.draw(st.sampled_from([0, 3])) * SECOND
    a, b = (data.draw(batches(first, span=6)) + data.draw(batches(first + 50, span=12)) for first in (0, 100))
    steps = steps_of(a, b)
    marks = [watermarks([s[side] for s in steps], lateness) for side in "ab"]
    lives, seen = Lives(queries, selection), False
    with tempfile.TemporaryDirectory() as place:
        world = World(place, queries, lateness, data.draw(st.integers(1, 3)))
        for number, step in enumerate(steps):
            before = [m[number - 1] for m in marks] if number else [None, None]
            for _ in range(data.draw(st.integers(0, 3))):
                lives.ask(data, world, condition)
            lives.take(number, seen, None if None in before else min(before))  # type: ignore[type-var]
            if data.draw(st.booleans()):
                world.forget()
            world.step(step, data.draw(st.sampled_from([None, None, *POINTS])))
            if data.draw(st.integers(0, 3)) == 0:
                world.start()
            seen = seen or any(t is not None for s in step.values() for t in s.column("ts").to_pylist())
        world.flush()
    rows = [admitted([s[side] for s in steps], lateness) for side in "ab"]
    wanted: dict[str, list[Any]] = {life.query.name: [] for life in lives.all}
    for life in lives.all:
        kept = {side: pa.concat_tables([EMPTY, *rows[n][life.since :]]) for n, side in enumerate("ab")}
        mine = [r for r in oracle(life.query, kept) if life.first is None or r[0] >= life.first]
        if life.dropped:
            mine = [r for r in mine if life.last is not None and r[0] < life.last]
        wanted[life.query.name] += mine
    for name, rows_ in wanted.items():
        assert ordered(tuples(world.sink, name)) == ordered(rows_), name


AGGREGATES = ("count(*)", "sum(a.n)", "max(b.x)", "sum(a.x + b.x)")
GROUPS = ("", "a.k", "b.x")


def aggregated(name: str, where: str, aggregate: str, group: str, window: tuple[int, int]) -> JoinQuery:
    keys = f"{group}, " if group else ""
    (query,) = weft.sql(
        f"SELECT {keys}{aggregate} AS v {where} GROUP BY {keys}window('{window[0]} s', '{window[1]} s')"
    )
    assert isinstance(query, JoinQuery)
    return query.renamed(name)


def answers(
    where: str, aggregate: str, group: str, window: tuple[int, int], rows: dict[str, pa.Table]
) -> list[tuple[Any, ...]]:
    """Every window of a join's results, from all pairs: start, group and answer."""
    read = aggregate.partition("(")[2][:-1].replace("*", "a.n")
    (query,) = weft.sql(f"SELECT {group or 'a.n'} AS g, {read} AS r {where}")
    assert isinstance(query, JoinQuery)
    found: dict[tuple[int, Any], list[Any]] = {}
    range_, slide = window[0] * SECOND, window[1] * SECOND
    for time, key, value in oracle(query, rows):
        start = time - time % slide
        while start > time - range_:
            found.setdefault((start, key if group else None), []).append(value)
            start -= slide
    answered = []
    for (start, key), values in found.items():
        known = [v for v in values if v is not None]
        answer = (
            len(values)
            if "count" in aggregate
            else (max if "max" in aggregate else sum)(known)
            if known
            else None
        )
        answered.append((start, key, answer))
    return answered


@pytest.mark.slow
@settings(max_examples=15)
@given(data=st.data())
def test_aggregates_of_joins_come_and_go(data: st.DataObject) -> None:
    """A query over the results of a join answers the windows from which on it is exact, and no others."""
    condition = data.draw(st.sampled_from(CONDITIONS[:3]))
    lateness = data.draw(st.sampled_from([0, 3])) * SECOND
    a, b = (data.draw(batches(first, span=6)) + data.draw(batches(first + 50, span=12)) for first in (0, 100))
    steps = steps_of(a, b)
    marks = [watermarks([s[side] for s in steps], lateness) for side in "ab"]
    lives: list[dict[str, Any]] = []

    def drawn(name: str) -> JoinQuery:
        ranges = data.draw(st.sampled_from([(3, 3), (3, 8), (100, 100)]))
        where = f"FROM a [RANGE '{ranges[0]} s'], b [RANGE '{ranges[1]} s'] WHERE {condition}"
        window = data.draw(st.sampled_from([(1, 1), (4, 2), (6, 3)]))
        parts = (where, data.draw(st.sampled_from(AGGREGATES)), data.draw(st.sampled_from(GROUPS)), window)
        lives.append({"name": name, "parts": parts, "until": None, "change": None})
        return aggregated(name, *parts)

    with tempfile.TemporaryDirectory() as place:
        world = World(place, [drawn(f"q{n}") for n in range(2)], lateness, data.draw(st.integers(1, 2)))
        for number, step in enumerate(steps):
            before = [m[number - 1] for m in marks] if number else [None, None]
            now = None if None in before else min(before)  # type: ignore[type-var]
            asked: list[dict[str, Any]] = []
            for nth in range(data.draw(st.integers(0, 2))):
                if data.draw(st.integers(0, 3)):
                    query = drawn(f"added{number}_{nth}")
                    world.running.add(query)
                    asked.append(lives[-1])
                elif there := [x for x in lives if x["until"] is None]:
                    gone = data.draw(st.sampled_from(there))
                    world.running.drop(gone["name"])
                    new = any(life is gone for life in asked)
                    gone["until"] = -(1 << 60) if new or now is None else now
            if data.draw(st.booleans()):
                world.forget()
            world.step(step, data.draw(st.sampled_from([None, None, *POINTS])))
            for life in asked:
                if life["until"] is None:
                    life["change"] = world.running.change(life["name"])
            if data.draw(st.integers(0, 3)) == 0:
                world.start()
        world.flush()
    rows = [admitted([s[side] for s in steps], lateness) for side in "ab"]
    streams = {side: pa.concat_tables(rows[n]) for n, side in enumerate("ab")}
    for life in lives:
        where, aggregate, group, window = life["parts"]
        wanted = answers(where, aggregate, group, window, streams)
        change = life["change"]
        if change is not None and change.exact_from is not None:
            first = int((change.exact_from - EPOCH) / datetime.timedelta(microseconds=1))
            wanted = [row for row in wanted if row[0] >= first]
        if life["until"] is not None:
            wanted = [row for row in wanted if row[0] + window[0] * SECOND <= life["until"]]
        assert ordered(windows(world.sink, life["name"], group)) == ordered(wanted), life


def test_a_query_is_not_exact_over_rows_that_lack_what_it_reads() -> None:
    """Rows of ``a`` are kept without ``n`` until a sum comes; the next sum begins no earlier than that."""
    where = "FROM a [RANGE '100 s'], b [RANGE '100 s'] WHERE a.k = b.k"
    rows = pa.table({"ts": [0], "k": ["p"], "x": [0], "y": [0.0], "n": [2]}, schema=SCHEMA)
    with tempfile.TemporaryDirectory() as place:
        world = World(place, [aggregated("count", where, "count(*)", "", (1, 1))], 0, 1)
        world.step({"a": rows, "b": EMPTY})
        changes = []
        for name in ("first", "second"):
            world.running.add(aggregated(name, where, "sum(a.n)", "", (1, 1)))
            world.step({"a": EMPTY, "b": EMPTY})
            changes.append(world.running.change(name).exact_from)
    assert changes == [EPOCH + datetime.timedelta(seconds=100)] * 2


def rows_at(first: int, *times: float) -> pa.Table:
    """Rows that all join, numbered from ``first`` on."""
    numbers = range(first, first + len(times))
    rows = [{"ts": int(t * SECOND), "k": "p", "x": 1, "y": 1.0, "n": n} for t, n in zip(times, numbers)]
    columns = {f.name: pa.array([r[f.name] for r in rows]).cast(f.type) for f in SCHEMA}
    return pa.table(columns, schema=SCHEMA)


SAME_KEY = "FROM a [RANGE '5 s'], b [RANGE '5 s'] WHERE a.k = b.k"
COUNT = (SAME_KEY, "count(*)", "", (1, 1))
SUM = (SAME_KEY, "sum(a.n)", "a.k", (1, 1))
SUM_X = (SAME_KEY, "sum(a.x + b.x)", "a.k", (1, 1))


def exact_from(world: World, name: str) -> int | None:
    """The second from which on a query is exact."""
    first = world.running.change(name).exact_from
    return None if first is None else (first - EPOCH) // datetime.timedelta(seconds=1)


@pytest.mark.parametrize("b_waits", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_column_of_a_query_added_later_is_missing_for_the_next_one_too(
    tmp_path: Path, b_waits: bool, restarts: bool
) -> None:
    """Kept rows lack a column that came with another query, also for a query that comes after that one."""
    world = World(str(tmp_path), [aggregated("q", *COUNT)], 0, 1)
    world.step({"a": rows_at(0, 1, 3), "b": EMPTY if b_waits else rows_at(100, 1, 2)})
    world.running.add(aggregated("first", *SUM))
    world.step({"a": rows_at(10, 4), "b": EMPTY})
    if restarts:
        world.start()
    world.running.add(aggregated("second", *SUM))
    world.running.add(aggregated("other", *SUM_X))
    b = rows_at(110, 4, 5, 6, 7, 8, 9, 10)
    world.step({"a": rows_at(20, 9, 10), "b": b})
    world.flush()
    # The latest row was at 3 s when the column came, at 4 s when others did.
    assert [exact_from(world, name) for name in ("first", "second", "other")] == [8, 8, 9]
    rows = {
        "a": pa.concat_tables([rows_at(0, 1, 3), rows_at(10, 4), rows_at(20, 9, 10)]),
        "b": b if b_waits else pa.concat_tables([rows_at(100, 1, 2), b]),
    }
    for name, parts, first in (("first", SUM, 8), ("second", SUM, 8), ("other", SUM_X, 9)):
        wanted = [row for row in answers(*parts, rows) if row[0] >= first * SECOND]
        assert ordered(windows(world.sink, name, "a.k")) == ordered(wanted), name


def test_a_join_is_not_covered_by_rows_that_lack_its_columns(tmp_path: Path) -> None:
    world = World(str(tmp_path), [aggregated("q", *COUNT)], 0, 1)
    world.step({"a": rows_at(0, 1, 3), "b": EMPTY})
    world.running.add(aggregated("first", *SUM))
    world.step({"a": rows_at(10, 4), "b": EMPTY})
    (query,) = weft.sql("SELECT a.n, a.k FROM a [RANGE '4 s'], b [RANGE '4 s'] WHERE a.k = b.k")
    assert isinstance(query, JoinQuery)
    world.running.add(query.renamed("pairs"))
    world.step({"a": rows_at(20, 5), "b": rows_at(110, 5)})
    world.flush()
    assert exact_from(world, "pairs") == 8
    assert tuples(world.sink, "pairs") == [(5 * SECOND, 20, "p")]


def test_a_query_of_the_same_name_with_other_columns_finds_none_of_them(tmp_path: Path) -> None:
    world = World(str(tmp_path), [aggregated("q", *COUNT), aggregated("r", *SUM)], 0, 1)
    world.step({"a": rows_at(0, 1, 3), "b": EMPTY})
    world.running.replace(aggregated("r", *SUM_X))
    world.step({"a": rows_at(10, 4), "b": rows_at(110, 4)})
    world.running.replace(aggregated("r", *SUM))
    world.step({"a": EMPTY, "b": rows_at(111, 5)})
    assert exact_from(world, "r") == 9


def test_rows_that_go_by_while_there_is_no_query_are_known_to_have_been(tmp_path: Path) -> None:
    world = World(str(tmp_path), [aggregated("q", *COUNT)], 0, 1)
    world.running.drop("q")
    world.step({"a": rows_at(0, 1, 3), "b": rows_at(100, 2)})
    world.step({"a": EMPTY, "b": rows_at(101, 4)})
    world.running.add(aggregated("added", *COUNT))
    world.step({"a": rows_at(10, 2, 5, 9, 10), "b": rows_at(110, 5, 9)})
    world.flush()
    assert exact_from(world, "added") == 9
    # Ranges are open: a row joins those less than 5 s before it.
    assert windows(world.sink, "added", "") == [(9 * SECOND, None, 3), (10 * SECOND, None, 1)]


def windows(sink: MemorySink, name: str, group: str) -> list[tuple[Any, ...]]:
    key = group.partition(".")[2]
    found = [row for step in sink.steps.values() if name in step for row in step[name].to_pylist()]
    micro = datetime.timedelta(microseconds=1)
    return [(int((r["window_start"] - EPOCH) / micro), r[key] if key else None, r["v"]) for r in found]
