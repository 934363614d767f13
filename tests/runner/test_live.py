"""Queries that come and go on a running stream, against the oracle that knows every row of it."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support import oracle
from support.driven_stream import StreamSetting, batch_of, start_driver
from support.one_process_spark import Session
from support.seeds import seeded_random
from support.ways import WAYS, forced
from weft.io import filesystem
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.query import Aggregate, Query
from weft.model.window import Window
from weft.operators.windows.program import CompiledQuery
from weft.operators.windows.state import State
from weft.runner import state_cache
from weft.runner.program import UNNAMED
from weft.sinks import FunctionSink
from weft.spark import step_tasks

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.string(), "x": pa.int64()})
BUCKETS = 2
COUNT, TOTAL, TOP, LOW, MEAN, LAST = (
    Aggregate("count_star", (), "n"),
    Aggregate("sum", (Column("x"),), "s"),
    Aggregate("max", (Column("x"),), "m"),
    Aggregate("min", (Column("k"),), "low"),
    Aggregate("avg", (Column("x"),), "mean"),
    Aggregate("last", (Column("x"),), "last"),
)
LARGE: Expr = Call(">", (Column("x"), Literal(2, "bigint")))
Row = dict[str, object]


def query(
    name: str,
    window: Window,
    *aggregates: Aggregate,
    by: tuple[str, ...] = (),
    where: Expr | None = None,
) -> Query:
    return Query(name, "s", window, aggregates or (COUNT,), by, where)


def row(ts: int, k: str | None = "a", x: int = 1) -> Row:
    return {"ts": ts, "k": k, "x": x}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for disks, or collects garbage after a task."""
    monkeypatch.setattr(filesystem.os, "fsync", lambda _: None)
    monkeypatch.setattr(step_tasks, "tidy", lambda batches: batches)


@dataclass
class Life:
    """A query from the batch that took it to the one before which it left, and what it answered meanwhile."""

    query: Query
    since: int
    joined: int
    first: int
    end: int | None = None
    rounds: list[list[Row]] = field(default_factory=list)


class World:
    """A stream whose state lives in files, and may live in memory from step to step."""

    def __init__(self, queries: Iterable[Query], lateness: int = 0, strategy: str = "share-all") -> None:
        self.place = tempfile.mkdtemp(prefix="weft-live-")
        weakref.finalize(self, shutil.rmtree, self.place, ignore_errors=True)
        self.lateness, self.batches = lateness, list[list[Row]]()
        self.answers: dict[int, Mapping[str, pa.Table]] = {}
        self.sink = FunctionSink(lambda results, seq: self.answers.update({seq: results}))
        self.setting = StreamSetting(
            tuple(queries), {UNNAMED: SCHEMA}, {UNNAMED: lateness}, BUCKETS, strategy=strategy
        )
        self.lives: list[Life] = []
        self.forget()
        self._note()

    def ask(self, name: str, query: Query | None) -> None:
        """Let a query of this name join, leave, or be another."""
        known = {q.name for q in self.driver.program.queries}
        if query is None:
            self.driver.running.drop(name)
        elif name in known:
            self.driver.running.replace(query, name)
        else:
            self.driver.running.add(query, name)

    def forget(self) -> None:
        """As after a restart: nothing is known but what is in files."""
        state_cache._states.clear()
        self.driver = start_driver(self.setting, self.place, Session(), self.sink)

    def step(self, rows: list[Row], keep: bool = True) -> None:
        """Make a step with these rows; its states are kept in memory, or else read from files."""
        self.batches.append(rows)
        batch = batch_of(Session(), {UNNAMED: pa.Table.from_pylist(rows, SCHEMA)}, 1)
        # What is shared may change from batch to batch.
        with forced(WAYS[len(self.batches) % len(WAYS)]):
            self.driver.batch(len(self.batches) - 1, batch)
        self._note(len(self.batches) - 1)
        self._take_answers()
        if not keep:
            state_cache._states.clear()

    def close(self) -> None:
        """Answer all that is open, and compare everything with the oracle."""
        before = len(self.answers)
        self.driver.flush(at_end=True)
        self._take_answers(flushed=len(self.answers) > before)
        state_cache._states.clear()
        for life in self.lives:
            self._check(life)

    @property
    def entries(self) -> Mapping[str, CompiledQuery]:
        """The queries that run, by name."""
        return {name: e for program in self.driver.program.windows for name, e in program.by_name.items()}

    @property
    def states(self) -> list[State]:
        """What is held of each bucket."""
        return [state.cells for _, state in state_cache._states.values()]  # type: ignore[attr-defined]

    @property
    def watermark(self) -> int | None:
        last = self.driver.checkpoint.last
        return None if last is None else last.streams[UNNAMED].mark

    def origin(self, name: str) -> int:
        return self.entries[name].origin.since

    def _take_answers(self, flushed: bool = True) -> None:
        tables = self.answers[max(self.answers)] if flushed and self.answers else {}
        answered = {name: oracle.rows_of(table) for name, table in tables.items()}
        for life in self.lives:
            if life.end is None:
                life.rounds.append(answered.pop(life.query.name, []))
        assert not any(answered.values()), "only queries that are there answer"

    def _note(self, here: int = 0) -> None:
        """Begin and end lives as the version in force has it."""
        entries = self.entries
        for life in self.lives:
            entry = entries.get(life.query.name)
            if life.end is None and (
                entry is None or (entry.query, entry.origin.since) != (life.query, life.since)
            ):
                life.end = here
        living = {life.query.name for life in self.lives if life.end is None}
        for name, entry in entries.items():
            if name not in living:
                self.lives.append(Life(entry.query, entry.origin.since, entry.origin.latest_when_added, here))

    def _check(self, life: Life) -> None:
        """Every window from ``since`` on that became due while the query was there, and no other."""
        batches = self.batches
        if life.query.window.rows:
            batches = [[r for r in rows if r["ts"] >= life.since] for rows in batches]
        types = {"ts": "timestamp", "k": "string", "x": "bigint"}
        streamed = oracle.answer_stream([life.query], batches, "ts", self.lateness, types)
        rounds = streamed.rounds[life.first : life.end]
        assert len(rounds) == len(life.rounds)
        for got, expected in zip(life.rounds, rounds):
            if not life.query.window.rows:
                expected = {
                    n: [r for r in rs if r["window_start"] >= life.since] for n, rs in expected.items()
                }
            found = list(oracle.differences(life.query, got, expected[life.query.name], 1e-9))
            assert not found, (life.query, life.since, found)


WINDOWS = st.sampled_from(
    [
        Window(8, 4),
        Window(8, 4),
        Window(4, 4),
        Window(12, 4),
        Window(8, 2),
        Window(6, 3),
        Window(8, 4, 2),
        Window(20, 4, 1),
        Window(3, 6, 1),
        Window(2, 4),
        Window(3, 1, rows=True),
        Window(2, 2, rows=True),
    ]
)
AGGREGATES = st.sampled_from([(COUNT,), (COUNT,), (COUNT, TOTAL), (MEAN,), (TOP, COUNT), (LOW, LAST)])
QUERIES = st.builds(
    lambda window, aggregates, by, where: query("q", window, *aggregates, by=by, where=where),
    WINDOWS,
    AGGREGATES,
    st.sampled_from([("k",), ("k",), ("k",), ()]),
    st.sampled_from([None, None, None, LARGE]),
)
CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.none() | QUERIES | QUERIES), max_size=3)
STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1, 1, 2, 3, -2, -5]), st.sampled_from(["a", "b", None]), st.integers(0, 5)),
    max_size=8,
)


class Live(RuleBasedStateMachine):
    """Batches, changes and restarts in any order."""

    @initialize(queries=st.lists(QUERIES, max_size=3), lateness=st.sampled_from([0, 3, 9]))
    def begin(self, queries: list[Query], lateness: int) -> None:
        self.now = 20
        self.world = World([q.renamed(n) for q, n in zip(queries, "abc")], lateness)

    @rule(changes=CHANGES, steps=STEPS, keep=st.booleans())
    def turn(
        self, changes: list[tuple[str, Query | None]], steps: list[tuple[int, str | None, int]], keep: bool
    ) -> None:
        for name, query in dict(changes).items():
            if query is not None or name in self.world.entries:
                self.world.ask(name, query)
        rows = []
        for step, k, x in steps:
            rows.append(row(self.now + step, k, x))
            self.now = max(self.now, self.now + step)
        self.world.step(rows, keep)

    @rule()
    def restart(self) -> None:
        self.world.forget()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()


TestLive = pytest.mark.slow(Live.TestCase)
TestLive.settings = settings(max_examples=60, stateful_step_count=16, deadline=None)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 5))])
def test_a_long_life(seed: int) -> None:
    """Changes before every batch, where hardly any window is not touched by one."""
    chance = seeded_random(seed)
    windows = [Window(8, 4), Window(4, 4), Window(12, 4), Window(8, 2), Window(6, 3), Window(3, 6, 1)]
    windows += [Window(20, 4, 1), Window(2, 4), Window(3, 1, rows=True)]
    lists = [(COUNT,), (COUNT,), (COUNT, TOTAL), (MEAN,), (TOP, COUNT), (LOW, LAST)]

    def some(name: str) -> Query:
        by, where = chance.choice([("k",), ("k",), ()]), chance.choice([None, None, None, LARGE])
        return query(name, chance.choice(windows), *chance.choice(lists), by=by, where=where)

    strategy = ("share-all", "no-share", "incremental-weave-share")[seed % 3]
    world, now = World([some(name) for name in "abc"], chance.choice([0, 3, 9]), strategy), 20
    for _ in range(40):
        for name in chance.sample("abcdefgh", chance.choice([0, 1, 1, 3])):
            if name in world.entries and chance.random() < 0.4:
                world.ask(name, None)
            else:
                world.ask(name, some(name))
        rows = []
        for _ in range(chance.randrange(8)):
            ts = now + chance.choice([0, 0, 1, 1, 2, -2, -5])
            rows.append(row(ts, chance.choice(["a", "b", None]), chance.randrange(5)))
            now = max(now, ts)
        world.step(rows, keep=chance.random() < 0.7)
        if chance.random() < 0.1:
            world.forget()
    world.close()
    assert sum(life.since != BEGINNING_OF_TIME and life.since <= life.joined for life in world.lives) >= 3


def joining(running: Iterable[Query], new: Query, *batches: list[Row], lateness: int = 0) -> int:
    """From when on a query is exact that joins before the last batch; what is answered then is checked."""
    world = World(running, lateness)
    for rows in batches[:-1]:
        world.step(rows)
    world.ask(new.name, new)
    world.step(batches[-1])
    since = world.origin(new.name)
    world.close()
    return since


TEN = [row(ts) for ts in range(10)]
AFTER = [row(ts) for ts in range(10, 30)]


def test_a_query_before_the_first_row_is_exact_from_the_start() -> None:
    since = joining([query("a", Window(8, 4))], query("b", Window(5, 5), TOTAL), AFTER)
    assert since == BEGINNING_OF_TIME


def test_history_is_used_where_it_is_all_there() -> None:
    #   a   [0       8)          b   [4   8)       watermark and latest row at 9
    #         [4       12)               [8   12)
    #             [8       16)
    since = joining([query("a", Window(8, 4))], query("b", Window(4, 4)), TEN, AFTER)
    assert since == 8, "the first window that is still open"
    since = joining([query("a", Window(8, 4), COUNT, TOTAL)], query("b", Window(12, 8), TOTAL), TEN, AFTER)
    assert since == 8, "[0, 12) would need rows that no open window keeps"
    since = joining([query("a", Window(30, 4))], query("b", Window(12, 4)), TEN, AFTER)
    assert since == 0, "the first that is open"


@pytest.mark.parametrize(
    ("new", "since"),
    [
        (query("b", Window(4, 2)), 8),  # nothing is cut at 6
        (query("b", Window(4, 4, 1)), 13),  # no edge in common
        (query("b", Window(4, 4), TOTAL), 12),  # another part
        (query("b", Window(4, 4), where=LARGE), 12),  # another predicate
        (query("b", Window(4, 4), by=("k",)), 12),  # other groups
    ],
)
def test_history_is_refused_where_something_is_missing(new: Query, since: int) -> None:
    assert joining([query("a", Window(8, 4))], new, TEN, AFTER, lateness=2) == since


def test_windows_with_gaps_leave_holes() -> None:
    running = [query("a", Window(4, 8))]
    inside = joining(running, query("b", Window(4, 8)), TEN, AFTER)
    assert inside == 8, "in one of its windows all is kept"
    twelve = [row(ts) for ts in range(12)]
    since = joining([query("a", Window(2, 4))], query("b", Window(4, 4)), twelve, AFTER[2:], lateness=6)
    assert since == 12, "between 10 and 12 nothing is kept"


def test_what_a_query_keeps_counts_from_its_own_first_window() -> None:
    #   b joins at 9 and is exact from 12 on, though its window [8, 20) is cut from then on
    world = World([query("a", Window(6, 6))])
    world.step(TEN)
    world.ask("b", query("b", Window(12, 4), TOTAL))
    world.step([row(10), row(11)])
    world.ask("c", query("c", Window(8, 4), TOTAL))
    world.step([row(12), row(13)])
    assert (world.origin("b"), world.origin("c")) == (12, 12)
    world.ask("d", query("d", Window(4, 4), TOTAL))
    world.step(AFTER[4:])
    assert world.origin("d") == 12, "b vouches for it"
    world.close()


def test_edges_from_before_a_query_joined_do_not_count() -> None:
    #   b cuts at 4, 8, ... but the cell [6, 12) of a was made before it came
    world = World([query("a", Window(18, 6))])
    world.step(TEN)
    world.ask("b", query("b", Window(4, 4), where=LARGE))
    world.step([row(10)])
    world.ask("c", query("c", Window(8, 4)))
    world.step(AFTER[1:])
    assert world.origin("c") == 12
    world.close()


def test_ends_from_before_a_query_was_exact_do_not_count() -> None:
    #   b   [0        10)        a has cut at 6 and at 12, but not at 10:
    #             [6        16)  b is exact from 6 on, and yet there is a cell [6, 12)
    world = World([query("a", Window(30, 6))], lateness=20)
    world.step([row(ts) for ts in range(14)])
    world.ask("b", query("b", Window(10, 6)))
    world.step([row(11)])
    assert world.origin("b") == 6
    world.ask("c", query("c", Window(4, 12, 6)))
    world.step([row(ts) for ts in range(14, 40)])
    assert world.origin("c") == 18
    world.close()


def test_rows_are_counted_from_when_a_query_joined_and_keep_their_numbers() -> None:
    counted = [query("a", Window(4, 4, rows=True)), query("b", Window(6, 3, rows=True))]
    world = World(counted)
    world.step(TEN)
    world.ask("c", query("c", Window(4, 4, rows=True)))
    world.step([row(ts) for ts in range(10, 15)])
    assert world.origin("c") == 10
    world.ask("b", None)
    # The edges of b are gone, and with them the end of the slice that rows 12 and 13 are in.
    world.step([row(15)], keep=False)
    world.step([row(16)])
    world.step([row(ts) for ts in range(17, 30)])
    world.close()


def test_many_overlapping_windows_are_looked_at_quickly() -> None:
    world = World([query("a", Window(1_000_000, 1))])
    world.step([row(5_000_000), row(5_000_100)])
    world.ask("b", query("b", Window(900_000, 1)))
    began = time.perf_counter()
    program = world.driver.running.apply(world.driver._position(), 2)
    assert time.perf_counter() - began < 5
    assert program is not None
    assert program.windows[0].by_name["b"].origin.since == 5_000_100 - 900_000 + 1


def test_a_dropped_query_is_forgotten() -> None:
    world = World([query("a", Window(8, 4)), query("b", Window(40, 40), TOTAL, by=("k",), where=LARGE)])
    world.step(TEN)
    world.ask("b", None)
    world.step([])
    assert [len(s.groupings) for s in world.states] == [1, 1]
    world.ask("a", None)
    world.step([row(20)])
    assert world.driver.checkpoint.last is not None
    assert world.driver.checkpoint.last.stages == {}, "with its last query a stage is gone, and its state"
    assert world.watermark == 20
    world.ask("a", query("a", Window(4, 4)))
    world.step(AFTER)
    assert world.origin("a") == 24
    world.close()
