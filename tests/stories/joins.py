"""Seeded joins of two streams that come and go over restarts and deaths: each result is that of all pairs."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import weft
from stories.engine import ask
from stories.failure import Failure
from stories.generate import POINTS
from stories.runners import ENGINES, in_this_process, stream_of
from stories.story import Row
from stories.streams import StoryStream, Tables
from support.driven_stream import StreamSetting
from support.join_oracle import as_tuples, oracle, ordered
from weft.model.join import JoinQuery
from weft.operators.times import Seen

SECOND = 1_000_000
SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us"),
        "k": pa.string(),
        "x": pa.int64(),
        "y": pa.float64(),
        "d": pa.date32(),
        "c": pa.bool_(),
        "n": pa.int64(),
    }
)
EQUALITIES = ("a.k = b.k", "a.x = b.x", "a.y = b.y", "a.d = b.d", "a.c = b.c", "b.x = a.y")
OTHERS = ("a.x < b.x", "abs(a.x - b.x) < 2", "a.y >= b.y", "a.x + b.x = 3", "TRUE")
SELECTIONS = ("", "a.x > 1", "b.x <> 2", "a.k IS NOT NULL", "a.y > 0 AND b.y < 1")
RANGES = (1, 2, 3, 5, 8, 100)


@dataclass(frozen=True)
class Join:
    """A join as it is asked for: what it is joined on is the story's."""

    selection: str
    ranges: tuple[int, int]


@dataclass(frozen=True)
class JoinStep:
    """A batch of both streams, and what happens before it, as in ``story.Step``."""

    a: tuple[Row, ...] = ()
    b: tuple[Row, ...] = ()
    changes: tuple[tuple[str, Join | None], ...] = ()
    restart: bool = False
    fresh: bool = False
    dies: str | None = None
    chance: int = 0


@dataclass(frozen=True)
class JoinStory:
    """A whole case. ``engine`` is one of ``runners.ENGINES``."""

    seed: str
    engine: str
    condition: str
    joins: tuple[tuple[str, Join], ...]
    steps: tuple[JoinStep, ...]
    lateness: int
    buckets: int
    most_layers: int
    chain: str

    def query(self, name: str, join: Join) -> JoinQuery:
        """A join, which gives the numbers of the rows joined, and a computed column."""
        where = self.condition + (f" AND {join.selection}" if join.selection else "")
        (found,) = weft.sql(
            f"SELECT a.n, b.n AS m, a.x + b.x AS s FROM a [RANGE '{join.ranges[0]} s'], "
            f"b [RANGE '{join.ranges[1]} s'] WHERE {where}"
        )
        assert isinstance(found, JoinQuery)
        return found.renamed(name)


def make(seed: str) -> JoinStory:
    """The story of a seed."""
    chance = random.Random(f"joins {seed}")
    conditions = chance.sample(EQUALITIES, chance.choice((1, 1, 2, 2, 3)))
    if chance.random() < 0.25:
        conditions = [*conditions[:1], chance.choice(OTHERS)]
        chance.shuffle(conditions)
    names: dict[str, Join] = {f"q{n}": _join(chance, []) for n in range(chance.choice((1, 2, 3)))}
    joins, steps = tuple(names.items()), []
    values, now, number = _values(chance), 0.0, 0
    changing, restarting = chance.choice((0.0, 0.2, 0.5)), chance.choice((0.0, 0.2, 0.4))
    disorder, untimed = chance.choice((0, 1, 4, 12)), chance.choice((0.0, 0.05))
    for _ in range(chance.choice((2, 3, 4, 6, 9))):
        sides: list[tuple[Row, ...]] = []
        for _ in "ab":
            rows, ahead = [], now
            for _ in range(chance.randint(0, 6)):
                ahead += chance.random() * 1.5
                at = int((ahead - chance.random() ** 2 * disorder) * 2) * SECOND // 2
                ts = None if chance.random() < untimed else at
                rows.append({"ts": ts, **{n: draw() for n, draw in values.items()}, "n": number})
                number += 1
            sides.append(tuple(rows))
        now += chance.random() * 5
        step = JoinStep(*sides, chance=chance.randrange(1 << 30))
        if chance.random() < changing:
            step = replace(step, changes=_changes(chance, names))
        if chance.random() < restarting:
            step = replace(step, restart=True, fresh=chance.random() < 0.7)
        if chance.random() < restarting / 2:
            step = replace(step, dies=chance.choice(POINTS))
        steps.append(step)
    return JoinStory(
        seed,
        chance.choice(ENGINES),
        " AND ".join(conditions),
        joins,
        tuple(steps),
        lateness=chance.choice((0, 0, 1, 3)) * SECOND,
        buckets=chance.choice((1, 1, 2, 3)),
        most_layers=chance.choice((1, 2, 16)),
        chain=chance.choice(("mem-opt", "mem-opt", "cpu-opt")),
    )


def _values(chance: random.Random) -> dict[str, Any]:
    few = chance.choice((1, 2, 4))
    nulls = chance.choice((0.0, 0.1, 0.3))
    floats = [0.0, -0.0, 1.0, 2.0, math.nan, math.inf, 1.5]
    day = datetime.date(1970, 1, 1)

    def some(values: Sequence[Any]) -> Any:
        return lambda: None if chance.random() < nulls else chance.choice(values)

    return {
        "k": some(["p", "q", "", "r", "é"][: few + 1]),
        "x": some([0, 1, 2, 3, 2**53 + 1][: few + 1]),
        "y": some(floats[: 2 * few]),
        "d": some([day + datetime.timedelta(days=n) for n in range(few)]),
        "c": some([True, False]),
    }


def _join(chance: random.Random, running: Sequence[Join]) -> Join:
    """A join, mostly one that a running one has all the rows for."""
    most, selection = (100, 100), chance.choice(SELECTIONS)
    if running and chance.random() < 0.7:
        like = chance.choice(running)
        most, selection = like.ranges, like.selection
    first, second = (chance.choice([r for r in RANGES if r <= longest]) for longest in most)
    return Join(selection, (first, second))


def _changes(chance: random.Random, names: dict[str, Join]) -> tuple[tuple[str, Join | None], ...]:
    changes: dict[str, Join | None] = {}
    for _ in range(chance.choice((1, 1, 2))):
        # Without any join nothing is read at all.
        kind = chance.choice(("add", "drop", "replace")) if len(names) > 1 else "add"
        free = [f"q{n}" for n in range(9) if f"q{n}" not in names and f"q{n}" not in changes]
        name = free[0] if kind == "add" else chance.choice(sorted(names))
        if name in changes:
            continue
        if kind == "drop":
            changes[name] = None
            del names[name]
        else:
            changes[name] = names[name] = _join(chance, list(names.values()))
    return tuple(changes.items())


def _setting(story: JoinStory) -> StreamSetting:
    return StreamSetting(
        tuple(story.query(name, join) for name, join in story.joins),
        dict.fromkeys("ab", SCHEMA),
        dict.fromkeys("ab", story.lateness),
        story.buckets,
        chain=story.chain,
    )


def _take(story: JoinStory, stream: StoryStream, step: JoinStep) -> Tables:
    """Take a step, with what happens before it."""
    stream.chance = random.Random(step.chance)
    if step.restart:
        stream.restart(step.fresh, None)
    asked = tuple((n, None if join is None else story.query(n, join)) for n, join in step.changes)
    ask(stream.changes, asked, stream.names())
    return stream.step({"a": _table(step.a), "b": _table(step.b)}, step.dies)


def _table(rows: Sequence[Row]) -> pa.Table:
    columns = {
        f.name: pa.array([r[f.name] for r in rows], pa.int64() if f.name == "ts" else f.type) for f in SCHEMA
    }
    columns["ts"] = columns["ts"].cast(pa.timestamp("us"))
    return pa.table(columns, schema=SCHEMA)


def tell(story: JoinStory) -> Failure | None:
    """Tell a story; what is wrong with it, if anything."""
    done, given = 0, dict[str, list[tuple[Any, ...]]]()
    with in_this_process(story.most_layers), stream_of(story.engine, _setting(story), None) as stream:
        try:
            for step in story.steps:
                _add(given, _take(story, stream, step))
                done += 1
            _add(given, stream.flush())
        except Exception as error:
            return Failure(done, (f"{type(error).__name__}: {error}",))
        seen = sum(stream.seen.values(), Seen())
    wanted, counts = expected(story)
    lines = []
    for name in sorted(wanted.keys() | given.keys()):
        got, want = ordered(given.get(name, [])), ordered(wanted.get(name, []))
        if got != want:
            lines.append(f"{name}: {difference(got, want)}")
    if [seen.rows, seen.late, seen.untimed] != counts:
        lines.append(f"rows, late, untimed: {[seen.rows, seen.late, seen.untimed]}, expected {counts}")
    return Failure(done, tuple(lines)) if lines else None


def _add(given: dict[str, list[tuple[Any, ...]]], results: Tables) -> None:
    for name, table in results.items():
        given.setdefault(name, []).extend(as_tuples(table))


def difference(got: list[str], want: list[str]) -> str:
    missing, unexpected = list(want), []
    for row in got:
        if row in missing:
            missing.remove(row)
        else:
            unexpected.append(row)
    return f"missing {missing[:5]}, not expected {unexpected[:5]}; {len(got)} rows, expected {len(want)}"


@dataclass
class Life:
    """When a join came and went: the first step whose rows it sees, and the times of its results."""

    query: JoinQuery
    since: int
    first: int | None = None
    dropped: bool = False
    last: int | None = None


def expected(story: JoinStory) -> tuple[dict[str, list[tuple[Any, ...]]], list[int]]:
    """All results of each name, from all pairs of rows; and rows, late ones and those without a time."""
    asked = {name: story.query(name, join) for name, join in story.joins}
    running = {name: Life(query, 0) for name, query in asked.items()}
    lives, marks, counts = list(running.values()), {"a": None, "b": None}, [0, 0, 0]
    kept: dict[str, list[pa.Table]] = {"a": [], "b": []}
    seen = False
    for number, step in enumerate(story.steps):
        known = [mark for mark in marks.values() if mark is not None]
        now = min(known) if len(known) == 2 else None
        there, changed = dict(running), dict(step.changes)
        for name, join in changed.items():
            if join is None:
                continue
            query = story.query(name, join)
            if name in there and there[name].query == query:
                continue
            # Those that ran until now, also if they leave with this step.
            cover = next((life for life in there.values() if _covers(life.query, query)), None)
            since = number if cover is None else cover.since
            running[name] = Life(query, since, now if cover else None) if seen else Life(query, 0)
            lives.append(running[name])
        for name, life in there.items():
            if name in changed and (changed[name] is None or running[name] is not life):
                life.dropped, life.last = True, now
                if changed[name] is None:
                    del running[name]
        for stream, rows in (("a", step.a), ("b", step.b)):
            mark, admitted = marks[stream], []
            counts[0] += len(rows)
            for row in rows:
                if row["ts"] is None:
                    counts[2] += 1
                elif mark is not None and row["ts"] < mark:
                    counts[1] += 1
                else:
                    admitted.append(row)
            times = [row["ts"] - story.lateness for row in rows if row["ts"] is not None]
            marks[stream] = max([*times, *([] if mark is None else [mark])], default=None)
            kept[stream].append(_table(admitted))
            seen = seen or bool(times)
    wanted: dict[str, list[tuple[Any, ...]]] = {}
    for life in lives:
        streams = {s: pa.concat_tables([_table(()), *tables[life.since :]]) for s, tables in kept.items()}
        mine = [r for r in oracle(life.query, streams) if life.first is None or r[0] >= life.first]
        if life.dropped:
            mine = [r for r in mine if life.last is not None and r[0] < life.last]
        if mine:
            wanted.setdefault(life.query.name, []).extend(mine)
    return wanted, counts


def _covers(one: JoinQuery, other: JoinQuery) -> bool:
    wide = all(s.range >= t.range for s, t in zip(one.sides, other.sides))
    return wide and one.selections == other.selections


def told(story: JoinStory) -> str:
    """The story as text."""
    lines = [
        f"story {story.seed} on {story.engine} of joins on {story.condition}: lateness {story.lateness} µs, "
        f"{story.buckets} buckets, layers {story.most_layers}, {story.chain}"
    ]
    lines += [f"{name}: {join}" for name, join in story.joins]
    for number, step in enumerate(story.steps):
        marks = [word for word in ("restart", "fresh", "dies") if getattr(step, word)]
        lines.append(f"step {number} {marks or ''}:")
        lines += [f"  {name}: {join or 'leaves'}" for name, join in step.changes]
        lines += [f"    {side} {row}" for side, rows in (("a", step.a), ("b", step.b)) for row in rows]
    return "\n".join(lines)


def smaller(story: JoinStory) -> Iterator[JoinStory]:
    """Stories that are a little smaller."""
    steps = story.steps
    for at in range(len(steps) - 1, -1, -1):
        if not steps[at].changes and len(steps) > 1:
            yield replace(story, steps=steps[:at] + steps[at + 1 :])
    for at, step in enumerate(steps):
        lighter = [replace(step, restart=False, fresh=False, dies=None), replace(step, changes=())]
        for side in "ab":
            rows = getattr(step, side)
            lighter += [replace(step, **{side: rows[:n] + rows[n + 1 :]}) for n in range(len(rows))]
        for each in lighter:
            if each != step:
                yield replace(story, steps=(*steps[:at], each, *steps[at + 1 :]))
    for at in range(len(story.joins)):
        if len(story.joins) > 1 and not any(
            name == story.joins[at][0] for s in steps for name, _ in s.changes
        ):
            yield replace(story, joins=story.joins[:at] + story.joins[at + 1 :])
