"""Stories from seeds: small, and each with a little of everything that may go wrong together."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import pyarrow as pa

from stories.queries import Columns, QueryMaker
from stories.story import TIME, Row, Static, Step, Story
from support.ways import WAYS
from weft.final import TECHNIQUES
from weft.model.query import Query

NAN, INF = math.nan, math.inf
EPOCH = datetime.datetime(1970, 1, 1)
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
TEXTS = (pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
POINTS = ("write_version", "before deliver", "deliver", "before publish", "publish")
"""What a run may die after, or before."""

UNITS = (1, 1_000, 1_000_000, 1_000_000, 60_000_000, 86_400_000_000)
BASES = (0, 1_700_000_000_000_000, -5_000_000_000_000)
STRATEGIES = ("share-all", "share-all", "share-all", "no-share", "insert-then-weave")


@dataclass(frozen=True)
class Domain:
    """The values of a key column, of which rows of one time use neighbouring ones where ``drifts``."""

    type: pa.DataType
    sql: str
    values: tuple[Any, ...]
    nulls: float
    drifts: bool

    def draw(self, chance: random.Random, moment: int) -> Any:
        """A value of a row at some moment of the story."""
        if chance.random() < self.nulls:
            return None
        if not self.drifts:
            return chance.choice(self.values)
        return self.values[(moment + chance.randrange(1 + len(self.values) // 6)) % len(self.values)]


def make(seed: str, engines: Sequence[str] = ("local", "committed", "stored")) -> Story:
    """The story of a seed, for one of some engines."""
    chance = random.Random(seed)
    engine = chance.choice(engines)
    domains = {name: _domain(chance, name) for name in "absdtfce"}
    values = _values(chance)
    types: dict[str, pa.DataType] = {TIME: chance.choice(TIMES)}
    types |= {name: domain.type for name, domain in domains.items()}
    types |= {
        "x": pa.float64(),
        "n": pa.int64(),
        "m": chance.choice((pa.int16(), pa.int32())),
        "w": pa.string(),
    }
    tables = {f"v{n}": _static(chance, domains) for n in range(chance.choice((0, 0, 1, 1, 2)))}
    technique = chance.choice(("auto", "auto", "auto", chance.choice(sorted(TECHNIQUES))))
    unit, base = chance.choice(UNITS), chance.choice(BASES)
    columns = Columns({name: domain.sql for name, domain in domains.items()}, tables, _literals(domains))
    maker = QueryMaker(chance, unit, columns, technique, few=engine == "spark")
    queries = tuple(maker.query(f"q{n}") for n in range(chance.choice((1, 1, 1, 2, 2, 3, 5))))
    clock = _Clock(chance, unit, base)
    steps = _steps(chance, clock, maker, queries, domains, values, tables, engine)
    return Story(
        seed,
        engine,
        types,
        tables,
        queries,
        steps,
        lateness=clock.lateness,
        buckets=chance.choice((1, 1, 2, 3)),
        technique=technique,
        strategy=chance.choice(STRATEGIES),
        most_layers=chance.choice((1, 2, 3, 16)),
        most_cells=chance.choice((6, 12, 30, *[1 << 20] * 4)),
        threads=chance.random() < 0.05,
    )


TIMES = (pa.timestamp("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"))


def _domain(chance: random.Random, name: str) -> Domain:
    """What is in a key column: a few values or many."""
    size = chance.choice((1, 2, 3, 5, 12, 12, 40))
    nulls = chance.choice((0.0, 0.0, 0.1, 0.3))
    values: list[Any]
    if name in "ae":
        dtype = chance.choice(INTEGERS)
        low = 0 if str(dtype).startswith("u") else chance.choice((0, -3, -20))
        values, sql = [low + n * chance.choice((1, 1, 2)) for n in range(size)], "bigint"
        if dtype.bit_width == 64 and chance.random() < 0.2:
            values[0] = 2**53 + 1
    elif name in "bs":
        dtype = chance.choice(TEXTS)
        values, sql = (
            ["", "a", "b", "é", "A", "0", "null"][:size] + [f"k{n}" for n in range(size - 7)],
            "string",
        )
    elif name == "c":
        dtype, sql, values = pa.bool_(), "boolean", [True, False]
    elif name == "d":
        dtype, sql = pa.date32(), "date"
        values = [datetime.date(1969, 12, 30) + datetime.timedelta(days=n) for n in range(size)]
    elif name == "t":
        dtype, sql = pa.timestamp("us"), "timestamp"
        values = [EPOCH + datetime.timedelta(hours=n - 2, microseconds=n % 2) for n in range(size)]
    else:
        dtype, sql = chance.choice((pa.float64(), pa.float64(), pa.float32())), "double"
        values = [0.0, -0.0, NAN, 1.5, -2.25, INF][: size + 1] + [n / 4 for n in range(7, size)]
    distinct = list({repr(v): v for v in values}.values())
    if chance.random() < 0.5:
        chance.shuffle(distinct)
    return Domain(dtype, sql, tuple(distinct), nulls, chance.random() < 0.6)


def _values(chance: random.Random) -> dict[str, Callable[[], Any]]:
    """What is in the columns that are aggregated; extremes come in some stories only."""
    nulls = chance.choice((0.0, 0.1, 0.4))
    floats: list[Callable[[], float]] = [lambda: chance.randint(-40, 40) / 4, lambda: chance.uniform(-1, 1)]
    if chance.random() < 0.25:  # huge values that cancel each other
        huge = cycle((1e16, -1e16))
        floats += [lambda: next(huge)] * 2
    elif chance.random() < 0.4:
        floats.append(lambda: chance.choice((1e16, -1e16, 1e-9, 1e16 + 2, 3e-5, 1e12)))
    if chance.random() < 0.3:
        floats.append(lambda: chance.choice((NAN, INF, -INF, -0.0, 0.5, 0.5)))
    large = chance.random() < 0.2

    def maybe(draw: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: None if chance.random() < nulls else draw()

    return {
        "x": maybe(lambda: chance.choice(floats)()),
        "n": maybe(lambda: chance.choice((2**27, -(2**27), 2**26 + 1)) if large else chance.randint(-20, 20)),
        "m": maybe(lambda: chance.randint(-9, 9)),
        "w": maybe(lambda: "".join(chance.choices("abé%_", k=chance.randint(0, 3)))),
    }


def _literals(domains: dict[str, Domain]) -> dict[str, tuple[Any, ...]]:
    return {name: domain.values[:4] for name, domain in domains.items()}


def _static(chance: random.Random, domains: dict[str, Domain]) -> Static:
    """A table joined by one to three columns of the stream, in any order."""
    joined = chance.sample(sorted(domains), chance.choice((1, 2, 2, 3)))
    types: dict[str, pa.DataType] = {}
    for name in joined:
        dtype = domains[name].type
        if name in "ae":  # whole numbers meet, whatever their widths
            dtype = pa.int64() if domains[name].type != pa.uint64() else dtype
        types[f"k{name}"] = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    types |= {"label": pa.string(), "rank": chance.choice((pa.int32(), pa.int64())), "rate": pa.float64()}
    keys = tuple(f"k{name}" for name in joined)
    return Static(types, keys, _static_rows(chance, joined, domains))


def _static_rows(chance: random.Random, joined: Sequence[str], domains: dict[str, Domain]) -> tuple[Row, ...]:
    """Rows with unique keys, in any order; a key with a null in it meets nothing."""
    rows: dict[str, Row] = {}
    for number in range(chance.choice((0, 3, 8, 20))):
        keys = [None if chance.random() < 0.05 else chance.choice(domains[name].values) for name in joined]
        told = repr([0.0 if k == 0.0 and isinstance(k, float) else k for k in keys])
        rows[f"{number}" if None in keys else told] = {
            **{f"k{name}": key for name, key in zip(joined, keys)},
            "label": chance.choice((None, "u", "v", "w", f"l{number}")),
            "rank": chance.choice((None, number, number % 3)),
            "rate": chance.choice((None, number / 2, -1.5)),
        }
    shuffled = list(rows.values())
    chance.shuffle(shuffled)
    return tuple(shuffled)


class _Clock:
    """Times of rows: on the whole they go on; how far rows are behind is a matter of the story."""

    def __init__(self, chance: random.Random, unit: int, base: int) -> None:
        self.chance, self.unit = chance, unit
        self.now = base + chance.randrange(100) * unit
        self.lateness = chance.choice((0, 0, unit, 3 * unit, 10 * unit))
        self.disorder = chance.choice((0, 2, 2, 12, 40))
        self.untimed = chance.choice((0.0, 0.0, 0.05))
        self.on_edges = chance.choice((0.2, 0.6, 1.0))
        self.pace = chance.choice((0.3, 0.7, 2.0, 4.0))

    def time(self) -> int | None:
        chance, unit = self.chance, self.unit
        if chance.random() < self.untimed:
            return None
        self.now += int(unit * self.pace * chance.random() * 2)
        at = self.now - int(chance.random() ** 3 * self.disorder * unit)
        return at if chance.random() > self.on_edges else at // unit * unit

    def jump(self) -> None:
        self.now += self.chance.choice((5, 30, 200)) * self.unit


def _steps(
    chance: random.Random,
    clock: _Clock,
    maker: QueryMaker,
    queries: Sequence[Query],
    domains: dict[str, Domain],
    values: dict[str, Callable[[], Any]],
    tables: dict[str, Static],
    engine: str,
) -> tuple[Step, ...]:
    names = {query.name: query for query in queries}
    count, size = chance.choice((2, 3, 3, 4, 5, 6, 12)), chance.choice((2, 4, 8, 16))
    if engine == "spark":
        count, size = min(count, 6), 16
    changing, restarting = chance.choice((0.0, 0.1, 0.4)), chance.choice((0.0, 0.1, 0.4))
    forced = chance.choice((None, None, *WAYS, "any"))
    steps, moment = [], 0.0
    for _ in range(count):
        rows = []
        for _ in range(chance.randint(engine == "spark", size)):
            moment += 0.3
            row: Row = {TIME: clock.time()}
            row |= {name: domain.draw(chance, int(moment)) for name, domain in domains.items()}
            row |= {name: draw() for name, draw in values.items()}
            rows.append(row)
        step = Step(tuple(rows), chance=chance.randrange(1 << 30))
        if chance.random() < 0.08:
            clock.jump()
        if chance.random() < changing:
            step = replace(step, changes=_changes(chance, maker, names))
        if tables and chance.random() < 0.25:
            name = chance.choice(sorted(tables))
            joined = [key[1:] for key in tables[name].keys]
            step = replace(step, tables={name: _static_rows(chance, joined, domains)})
        if engine != "local" and chance.random() < restarting:
            buckets = chance.choice((None, None, 1, 2, 4))
            step = replace(step, restart=True, fresh=chance.random() < 0.7, buckets=buckets)
        if engine in ("committed", "stored") and chance.random() < restarting / 2:
            step = replace(step, dies=chance.choice(POINTS))
        way = chance.choice((None, *WAYS)) if forced == "any" else forced
        steps.append(replace(step, way=way))
        if chance.random() < 0.06:
            steps.append(Step(flush=True, chance=chance.randrange(1 << 30)))
    return tuple(steps)


def _changes(
    chance: random.Random, maker: QueryMaker, names: dict[str, Query]
) -> tuple[tuple[str, Query | None], ...]:
    """Queries that come, go or take the place of others; the names are those that are there afterwards."""
    changes: dict[str, Query | None] = {}
    for _ in range(chance.choice((1, 1, 2))):
        kind = chance.choice(("add", "add", "drop", "replace")) if names else "add"
        if kind == "add":
            name = chance.choice(
                [f"q{n}" for n in range(9) if f"q{n}" not in names and f"q{n}" not in changes] or [""]
            )
        else:
            name = chance.choice(sorted(names))
        if not name or name in changes:
            continue
        if kind == "drop":
            changes[name] = names.pop(name) and None
        else:
            like = chance.choice(sorted(names.values(), key=lambda q: q.name)) if names else None
            alike = kind == "replace" or (like is not None and chance.random() < 0.6)
            changes[name] = names[name] = maker.query(name, like if alike else None)
    return tuple(changes.items())
