"""Seeded mixes of window queries, joins and aggregates over joins on the same streams, beside each alone.

A mix is told to any engine, with restarts and deaths. What it answers must be what each query alone answers
in this process, which keeps nothing: over the same batches, changes and flushes. Where queries change, or
rows come behind a flush, it is compared with each stage alone: there a query may find what others of its
stage have kept, and a stage is flushed for all of its queries.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

import weft
from stories.engine import ask
from stories.failure import Failure
from stories.generate import POINTS
from stories.joins import SECOND, difference
from stories.runners import ENGINES, in_this_process, stream_of
from stories.story import Row
from stories.streams import StoryStream, Tables
from support.driven_stream import StreamSetting
from support.join_oracle import ordered
from weft.model.join import JoinQuery
from weft.operators.times import Seen
from weft.runner.program import AnyQuery
from weft.sinks import MemorySink

SCHEMA = pa.schema(
    {"ts": pa.timestamp("us"), "k": pa.string(), "x": pa.int64(), "y": pa.int64(), "n": pa.int64()}
)
STREAMS = ("a", "b", "c")
RANGES = (1, 2, 3, 5, 8, 30)
WINDOWS = ((4, 2), (6, 2), (5, 5), (12, 3), (30, 10), (2, 5))
CONDITIONS = ("a.k = b.k", "a.x = b.x", "a.k = b.k AND a.x < b.x", "abs(a.x - b.x) < 2", "a.x = b.y")
SELECTIONS = ("", "a.x > 1", "b.y <> 2", "a.k IS NOT NULL")
NAMES = pa.table({"k": ["p", "q", "r"], "label": ["u", None, "v"]})
"""A lookup table."""
FAR = 300.0
"""Seconds after which no window is open."""


@dataclass(frozen=True)
class MixStep:
    """A batch of all streams, or a flush, and what happens before it, as in ``story.Step``."""

    rows: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    flush: bool = False
    changes: tuple[tuple[str, str | None], ...] = ()
    restart: bool = False
    fresh: bool = False
    buckets: int | None = None
    dies: str | None = None
    chance: int = 0


@dataclass(frozen=True)
class MixStory:
    """A whole case. ``engine`` is one of ``runners.ENGINES``, or Spark."""

    seed: str
    engine: str
    queries: tuple[tuple[str, str], ...]
    steps: tuple[MixStep, ...]
    lateness: Mapping[str, int]
    is_flushed_far: bool
    buckets: int = 1
    most_layers: int = 16
    chain: str = "mem-opt"

    @property
    def apart(self) -> bool:
        """Whether each query alone, and not only each stage, gives the same."""
        return self.is_flushed_far and not any(step.changes for step in self.steps)


def make(seed: str, engines: Sequence[str] = ENGINES) -> MixStory:
    """The story of a seed."""
    chance = random.Random(f"mixes {seed}")
    maker = _Maker(chance)
    running = {f"q{n}": maker.query() for n in range(chance.choice((2, 3, 4, 6)))}
    queries, is_far = tuple(running.items()), chance.random() < 0.5
    changing, restarting = chance.choice((0.0, 0.0, 0.3, 0.6)), chance.choice((0.0, 0.2, 0.5))
    flushing, steps = chance.choice((0.0, 0.2)), list[MixStep]()
    for _ in range(chance.choice((3, 4, 6, 9))):
        step = MixStep(maker.rows(), chance=chance.randrange(1 << 30))
        if chance.random() < changing:
            step = replace(step, changes=_changes(chance, maker, running))
        if chance.random() < restarting:
            buckets = chance.choice((None, None, 1, 2, 3))
            step = replace(step, restart=True, fresh=chance.random() < 0.7, buckets=buckets)
        if chance.random() < restarting / 2:
            step = replace(step, dies=chance.choice(POINTS))
        steps.append(step)
        if chance.random() < flushing:
            steps.append(MixStep(flush=True, chance=chance.randrange(1 << 30)))
            maker.now += FAR if is_far else 0.0
    return MixStory(
        seed,
        chance.choice(engines),
        queries,
        tuple(steps),
        {stream: chance.choice((0, 0, 1, 3)) * SECOND for stream in STREAMS},
        is_far,
        buckets=chance.choice((1, 1, 2, 3)),
        most_layers=chance.choice((1, 2, 16)),
        chain=chance.choice(("mem-opt", "mem-opt", "cpu-opt")),
    )


class _Maker:
    """Makes queries and rows; rows are numbered in one line, and told apart by their times."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now, self.number = chance, 0.0, 0
        self.conditions = chance.sample(CONDITIONS, 2)
        self.disorder, self.untimed = chance.choice((0, 1, 4, 12)), chance.choice((0.0, 0.0, 0.05))
        self.few, self.nulls = chance.choice((1, 2, 4)), chance.choice((0.0, 0.1))

    def query(self) -> str:
        """A query of any kind, as SQL."""
        chance = self.chance
        kind = chance.choice(("window", "window", "window", "join", "join", "counted", "three"))
        if kind == "window":
            return self._window(chance.choice("aabbc"))
        if kind == "three":
            source = ", ".join(f"{s} [RANGE '{chance.choice(RANGES)} s']" for s in STREAMS)
            return f"SELECT a.n, b.n AS m, c.n AS o FROM {source} WHERE a.k = b.k AND b.k = c.k"
        sides = ", ".join(f"{s} [RANGE '{chance.choice(RANGES)} s']" for s in "ab")
        where = " AND ".join(filter(None, (chance.choice(self.conditions), chance.choice(SELECTIONS))))
        lookup = chance.choice(("", "", " JOIN names v ON v.k = b.k", " LEFT JOIN names v ON v.k = a.k"))
        if kind == "join":
            label = ", v.label" if lookup else ""
            return f"SELECT a.n, b.n AS m, a.x + b.y AS s{label} FROM {sides}{lookup} WHERE {where}"
        length, slide = chance.choice(WINDOWS)
        return (
            f"SELECT a.k, count(*) AS c, max(b.n) AS m FROM {sides}{lookup} WHERE {where} "
            f"GROUP BY a.k, window('{length} s', '{slide} s')"
        )

    def _window(self, stream: str) -> str:
        chance = self.chance
        length, slide = chance.choice(WINDOWS)
        size = (
            f"ROWS {chance.randint(1, 4)}"
            if chance.random() < 0.15
            else f"RANGE '{length} s' SLIDE '{slide} s'"
        )
        source, keys = f"{stream} [{size}]", chance.choice(("", "k", "k", "x"))
        if chance.random() < 0.3:
            source += f" {chance.choice(('', 'LEFT '))}JOIN names v ON v.k = {stream}.k"
            keys = "v.label"
        values = ("count(*)", "sum(x)", "max(n)", "min(y)", "sum(y + n)")
        listed = [keys] * bool(keys) + [f"{v} AS c{n}" for n, v in enumerate(chance.sample(values, 2))]
        where = chance.choice(("", "", f" WHERE {stream}.x > 1", f" WHERE {stream}.y <> 2"))
        grouped = f" GROUP BY {keys}" if keys else ""
        return f"SELECT {', '.join(listed)} FROM {source}{where}{grouped}"

    def rows(self) -> dict[str, tuple[Row, ...]]:
        """A batch of each stream."""
        chance, batch = self.chance, dict[str, tuple[Row, ...]]()
        for stream in STREAMS:
            rows, ahead = [], self.now
            for _ in range(chance.randint(0, 6)):
                ahead += chance.random() * 1.5
                at = int((ahead - chance.random() ** 2 * self.disorder) * 2) * SECOND // 2 + self.number
                row: Row = {"ts": None if chance.random() < self.untimed else at, "n": self.number}
                row["k"] = self._value(["p", "q", "", "r"])
                row["x"], row["y"] = (self._value([0, 1, 2, 3, 7]) for _ in "xy")
                rows.append(row)
                self.number += 1
            batch[stream] = tuple(rows)
        self.now += chance.random() * 5
        return batch

    def _value(self, values: list[Any]) -> Any:
        return None if self.chance.random() < self.nulls else self.chance.choice(values[: self.few + 1])


def _changes(
    chance: random.Random, maker: _Maker, running: dict[str, str]
) -> tuple[tuple[str, str | None], ...]:
    changes: dict[str, str | None] = {}
    for _ in range(chance.choice((1, 1, 2))):
        kind = chance.choice(("add", "add", "drop", "replace")) if len(running) > 1 else "add"
        free = [f"q{n}" for n in range(20) if f"q{n}" not in running and f"q{n}" not in changes]
        name = free[0] if kind == "add" else chance.choice(sorted(running))
        if name in changes:
            continue
        if kind == "drop":
            changes[name] = None
            del running[name]
        else:
            changes[name] = running[name] = maker.query()
    return tuple(changes.items())


def read(name: str, text: str) -> AnyQuery:
    """The query of a text."""
    (query,) = weft.sql(text)
    return query.renamed(name) if isinstance(query, JoinQuery) else replace(query, name=name)


def table(rows: Sequence[Row]) -> pa.Table:
    """Rows of a stream."""
    columns = {
        f.name: pa.array([r[f.name] for r in rows], pa.int64() if f.name == "ts" else f.type) for f in SCHEMA
    }
    columns["ts"] = columns["ts"].cast(pa.timestamp("us"))
    return pa.table(columns, schema=SCHEMA)


class Outcome(NamedTuple):
    """What a stream has answered, step by step and the last flush, the times of its late rows, and counts."""

    steps: list[dict[str, list[tuple[Any, ...]]]]
    late: dict[str, list[int | None]]
    seen: Mapping[str, Seen]


def setting_of(story: MixStory, queries: Sequence[AnyQuery]) -> StreamSetting:
    """What a stream of some of the queries is started with."""
    return StreamSetting(
        tuple(queries),
        dict.fromkeys(STREAMS, SCHEMA),
        story.lateness,
        story.buckets,
        chain=story.chain,
        tables={"names": NAMES},
    )


def part_of(query: AnyQuery) -> str:
    """The part of a program that a query is in: joins, or the window queries of a stream."""
    return "joins" if isinstance(query, JoinQuery) else query.source


def outcome_of(
    story: MixStory, stream: StoryStream, names: Sequence[str] | None = None, part: str | None = None
) -> Outcome:
    """Tell a story, or what concerns some of the queries, to a stream."""
    steps = []
    for step in story.steps:
        stream.chance = random.Random(step.chance)
        if step.restart:
            stream.restart(step.fresh, step.buckets)
        _change(step, stream, names, part)
        results = (
            stream.flush()
            if step.flush
            else stream.step({s: table(r) for s, r in step.rows.items()}, step.dies)
        )
        steps.append(_rows(results))
    steps.append(_rows(stream.flush()))
    late: dict[str, list[int | None]] = {}
    for lots in () if stream.late is None else stream.late.steps.values():
        for name, rows in lots.items():
            late.setdefault(name, []).extend(rows.column("ts").cast(pa.int64()).to_pylist())
    return Outcome(steps, late, dict(stream.seen))


def _change(step: MixStep, stream: StoryStream, names: Sequence[str] | None, part: str | None) -> None:
    running = stream.names()
    for name, text in step.changes:
        query = None if text is None else read(name, text)
        mine = (names is None or name in names) and (part is None or query is None or part_of(query) == part)
        if mine and (query is not None or name in running):
            ask(stream.changes, ((name, query),), running)
        elif query is not None and name in running:  # another part has the name from now on
            ask(stream.changes, ((name, None),), running)


def _rows(results: Tables) -> dict[str, list[tuple[Any, ...]]]:
    rows = {name: [tuple(row.values()) for row in result.to_pylist()] for name, result in results.items()}
    return {name: lot for name, lot in rows.items() if lot}


def tell(story: MixStory) -> Failure | None:
    """Tell a story; what is wrong with it, if anything."""
    with in_this_process(story.most_layers):
        try:
            queries = [read(name, text) for name, text in story.queries]
            with stream_of(story.engine, setting_of(story, queries), MemorySink()) as stream:
                together = outcome_of(story, stream)
        except Exception as error:
            return Failure(0, (f"{type(error).__name__}: {error}",))
        return compare(story, together)


def compare(story: MixStory, together: Outcome) -> Failure | None:
    """What is wrong with the answers of a mix, if anything: compared with its parts, each told alone."""
    queries = [read(name, text) for name, text in story.queries]
    changed = [read(name, text) for step in story.steps for name, text in step.changes if text is not None]
    parts = sorted({part_of(query) for query in (*queries, *changed)})
    alone: list[Outcome] = []
    for part in parts:
        own = [query for query in queries if part_of(query) == part]
        for lot in [[query] for query in own] if story.apart else [own]:
            with stream_of("local", setting_of(story, lot), MemorySink()) as stream:
                names = [query.name for query in lot] if story.apart else None
                alone.append(outcome_of(story, stream, names, part))
    return _compared(story, together, alone)


def _compared(story: MixStory, together: Outcome, alone: Sequence[Outcome]) -> Failure | None:
    wrong: dict[int, list[str]] = {}
    # A join of two streams waits for what another of its stage waits for: alone it answers earlier.
    spans = (
        [range(len(together.steps))] if story.apart else [range(n, n + 1) for n in range(len(together.steps))]
    )
    for span in spans:
        got, want = (_gathered(o.steps[n] for o in lots for n in span) for lots in ([together], alone))
        for name in sorted(got.keys() | want.keys()):
            given, expected = ordered(got.get(name, [])), ordered(want.get(name, []))
            if given != expected:
                wrong.setdefault(span[-1], []).append(f"{name}: {difference(given, expected)}")
    last = wrong.setdefault(len(together.steps) - 1, [])
    for stream in STREAMS:
        rows = [row for step in story.steps for row in step.rows.get(stream, ())]
        untimed = sum(row["ts"] is None for row in rows)
        late = {at for outcome in alone for at in outcome.late.get(f"late_{stream}", ())} - {None}
        seen = together.seen.get(stream, Seen())
        given, expected = (
            ordered(together.late.get(f"late_{stream}", [])),
            ordered([*late, *[None] * untimed]),
        )
        if given != expected:
            last.append(f"late rows of {stream}: {difference(given, expected)}")
        counts, expected_counts = (seen.rows, seen.late, seen.untimed), (len(rows), len(late), untimed)
        if counts != expected_counts:
            last.append(f"rows, late, untimed of {stream}: {counts}, expected {expected_counts}")
    first = next((number for number, lines in sorted(wrong.items()) if lines), None)
    return None if first is None else Failure(first, tuple(wrong[first]))


def _gathered(steps: Iterator[dict[str, list[tuple[Any, ...]]]]) -> dict[str, list[tuple[Any, ...]]]:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for step in steps:
        for name, lot in step.items():
            rows.setdefault(name, []).extend(lot)
    return rows


def told(story: MixStory) -> str:
    """The story as text."""
    lines = [
        f"story {story.seed} of a mix on {story.engine}: lateness {dict(story.lateness)}, {story.buckets} "
        f"buckets, layers {story.most_layers}, {story.chain}"
    ]
    lines += [f"{name}: {text}" for name, text in story.queries]
    for number, step in enumerate(story.steps):
        marks = [f"{word}" for word in ("flush", "restart", "fresh") if getattr(step, word)]
        marks += [f"{step.buckets} buckets"] * bool(step.buckets) + [f"dies: {step.dies}"] * bool(step.dies)
        lines.append(f"step {number} {marks or ''}:")
        lines += [f"  {name}: {text or 'leaves'}" for name, text in step.changes]
        lines += [f"    {stream} {row}" for stream, rows in step.rows.items() for row in rows]
    return "\n".join(lines)


def smaller(story: MixStory) -> Iterator[MixStory]:
    """Stories that are a little smaller."""
    steps = story.steps
    for at in range(len(steps) - 1, -1, -1):
        if not steps[at].changes and len(steps) > 1:
            yield replace(story, steps=steps[:at] + steps[at + 1 :])
    changed = {name for step in steps for name, _ in step.changes}
    for at in range(len(story.queries)):
        if len(story.queries) > 1 and story.queries[at][0] not in changed:
            yield replace(story, queries=story.queries[:at] + story.queries[at + 1 :])
    for at, step in enumerate(steps):
        for less in _lighter(step):
            yield replace(story, steps=(*steps[:at], less, *steps[at + 1 :]))
    simple = replace(story, buckets=1, most_layers=16, chain="mem-opt")
    if simple != story:
        yield simple


def _lighter(step: MixStep) -> Iterator[MixStep]:
    plain = replace(step, restart=False, fresh=False, buckets=None, dies=None)
    if plain != step:
        yield plain
    for at in range(len(step.changes)):
        yield replace(step, changes=step.changes[:at] + step.changes[at + 1 :])
    for stream, rows in step.rows.items():
        for at in range(len(rows)):
            yield replace(step, rows={**step.rows, stream: rows[:at] + rows[at + 1 :]})
