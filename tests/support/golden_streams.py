"""The streams behind the golden checkpoints of formats 4 and 5: queries, how they change, and rows.

A checkpoint was left by a run over the first two files of each stream. Its queries changed after the
first step, and no window was closed at the end. Two files are the rest of the data; while a run goes on
over them, one more query joins.

    file     0       1      |    2       3     flush
    step     1       2      |    3       4       5
    version  1       2      |    2       3       3
             the checkpoint |    answers.json

Rows come from integer arithmetic alone, so that no version of any library can change them.
"""

from __future__ import annotations

import datetime
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import weft
from weft.sinks import MemorySink

FILES_BEFORE = (0, 1)
"""Files that the runs behind the checkpoints have taken."""
FILES_AFTER = (2, 3)
"""Files that are the rest of the data."""
FILES = len(FILES_BEFORE) + len(FILES_AFTER)
FIRST_STEP = 1
LAST_STEP = len(FILES_BEFORE)

START = 1_704_067_200_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND
MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Kind:
    """One kind of golden checkpoint: queries at the start, changes after the first step, one that comes
    with the rest of the data."""

    queries: str
    added: Mapping[str, str]
    dropped: Sequence[str]
    replaced: Mapping[str, str]
    later: Mapping[str, str]
    rows: Callable[[str], pa.Table]
    rows_per_file: int
    lateness: str
    streams: Sequence[str] = ("s",)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    since: int = 4
    """The first format that has such a checkpoint."""

    def change(self, run: Any) -> list[Any]:
        """Ask for the changes that are made after the first step."""
        return [
            *(run.add(text, name) for name, text in self.added.items()),
            *(run.drop(name) for name in self.dropped),
            *(run.replace(text, name) for name, text in self.replaced.items()),
        ]

    def change_later(self, run: Any) -> list[Any]:
        """Ask for the query that comes with the rest of the data."""
        return [run.add(text, name) for name, text in self.later.items()]

    def lasting(self) -> list[Any]:
        """Return the queries that are answered from the first row to the last."""
        gone = {*self.dropped, *self.replaced}
        return [query for query in read(self.queries) if query.name not in gone]


def draw(number: int, salt: int, bound: int) -> int:
    """Return a number below a bound that looks random.

    >>> [draw(number, 1, 10) for number in range(8)]
    [0, 4, 3, 6, 8, 0, 9, 1]
    """
    value = (number * 6_364_136_223_846_793_005 + salt * 1_442_695_040_888_963_407 + 1) & MASK
    value ^= value >> 33
    value = value * 0xFF51_AFD7_ED55_8CCD & MASK
    value ^= value >> 33
    value = value * 0xC4CE_B9FE_1A85_EC53 & MASK
    return (value ^ value >> 33) % bound


def pick(number: int, salt: int, values: Sequence[Any]) -> Any:
    """Return one of some values that looks random."""
    return values[draw(number, salt, len(values))]


def instants(microseconds: Iterable[int]) -> pa.Array:
    """Return a time column."""
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us", "UTC"))


TRADES_PER_FILE = 40
ROWS_PER_FILE = 14


def trades(stream: str) -> pa.Table:
    """Return a row every 30 seconds, up to 90 seconds out of order; nulls, NaN and signed zeros among them.

    The first row of the rest is older than the stream: only a run that knows the watermark drops it.
    """
    numbers = range(FILES * TRADES_PER_FILE)
    times = [START + SECOND * (30 * n + 90 - draw(n, 1, 91)) for n in numbers]
    times[len(FILES_BEFORE) * TRADES_PER_FILE] = START - 2 * HOUR
    days = [datetime.date(2024, 1, 1 + draw(n, 5, 2)) for n in numbers]
    return pa.table(
        {
            "ts": instants(times),
            "symbol": pa.array([pick(n, 2, ["A", "Bé", "", None]) for n in numbers], pa.string()),
            "venue": pa.array([pick(n, 3, [1, -7, None]) for n in numbers], pa.int32()),
            "level": pa.array([pick(n, 4, [0.0, -0.0, math.nan, 1.5, None]) for n in numbers], pa.float64()),
            "day": pa.array(days, pa.date32()),
            # Sums of quarters are exact in any order.
            "price": pa.array([draw(n, 6, 400) / 4 for n in numbers], pa.float64()),
            "amount": pa.array([draw(n, 7, 100) for n in numbers], pa.int64()),
        }
    )


def joined_rows(stream: str) -> pa.Table:
    """Return a row every second, up to 3 seconds out of order; the streams lag behind each other.

    The first row of the rest is as old as the stream, as in ``trades``.
    """
    salt = 10 * "abc".index(stream)
    numbers = range(FILES * ROWS_PER_FILE)
    lag = {"a": 0, "b": 6, "c": 2}[stream]
    times = [START + SECOND * (n + 10 - lag) - draw(n, salt + 1, 3 * SECOND + 1) for n in numbers]
    times[len(FILES_BEFORE) * ROWS_PER_FILE] = START
    return pa.table(
        {
            "ts": instants(times),
            "k": pa.array([pick(n, salt + 2, ["p", "q", "r", "p", "q", "r", None]) for n in numbers]),
            "x": pa.array([pick(n, salt + 3, [*range(10), None]) for n in numbers], pa.int64()),
            "n": pa.array(numbers, pa.int64()),
        }
    )


CLOSES = pa.table(
    {
        "symbol": ["A", "Bé", "C"],
        "cp": [25.0, 50.0, 75.0],
        "sector": ["steel", "paper", "paper"],
    }
)
VENUES = pa.table({"venue": pa.array([1, 2], pa.int32()), "town": ["Rome", "Oslo"]})

KINDS = {
    "windows-in-time": Kind(
        queries="""
            -- name: by_pair
            SELECT symbol, venue, count(*) AS n, sum(amount) AS amount
            FROM s [RANGE '40 min' SLIDE '10 min'] GROUP BY symbol, venue;
            -- name: by_level
            SELECT level, min(amount) AS least, count(*) AS n FROM s WHERE amount > 10
            GROUP BY level, window(ts, '1 hour', '30 minutes');
            -- name: all
            SELECT count(*) AS n, avg(price) AS mean FROM s [RANGE '1 hour' SLIDE '10 min'];
            -- name: many
            SELECT symbol, sum(price) AS total, max(price) AS top, first(amount) AS earliest,
                last(amount) AS latest, min_by(venue, price) AS cheapest, max_by(day, price) AS dearest,
                bool_or(amount > 98) AS big, round(stddev_pop(amount), 6) AS spread,
                product(if(amount > 60, 2.0, 0.5)) AS product,
                approx_count_distinct(amount) AS amounts, approx_median(price) AS middle,
                golden_pair(amount) AS pair, golden_path(amount) AS path
            FROM s [RANGE '30 min' SLIDE '10 min'] GROUP BY symbol;
            -- name: gone
            SELECT symbol, max(amount) AS most FROM s [RANGE '10 min'] GROUP BY symbol;
            -- name: turned
            SELECT symbol, sum(amount) AS value FROM s [RANGE '40 min' SLIDE '20 min'] GROUP BY symbol
        """,
        added={"shorter": "SELECT symbol, sum(price) AS total FROM s [RANGE '10 min'] GROUP BY symbol"},
        dropped=["gone"],
        replaced={
            "turned": """
                SELECT symbol, min(amount) AS value FROM s [RANGE '40 min' SLIDE '20 min'] GROUP BY symbol
            """
        },
        later={"pairs": "SELECT venue, symbol, count(*) AS n FROM s [RANGE '10 min'] GROUP BY symbol, venue"},
        rows=trades,
        rows_per_file=TRADES_PER_FILE,
        lateness="2 min",
    ),
    "windows-in-rows": Kind(
        queries="""
            -- name: last_six
            SELECT symbol, day, sum(amount) AS amount, avg(price) AS mean FROM s [ROWS 6 SLIDE 2]
            GROUP BY symbol, day;
            -- name: last_nine
            SELECT symbol, day, max(amount) AS most, last(price) AS latest FROM s [ROWS 9 SLIDE 3 OFFSET 1]
            GROUP BY symbol, day;
            -- name: all
            SELECT count(*) AS n, sum(price) AS total FROM s [ROWS 60 SLIDE 10];
            -- name: gone
            SELECT venue, sum(amount) AS amount FROM s [ROWS 5] GROUP BY venue;
            -- name: turned
            SELECT symbol, sum(amount) AS value FROM s [ROWS 12 SLIDE 4] WHERE amount > 20 GROUP BY symbol
        """,
        added={
            "last_four": """
                SELECT symbol, day, sum(amount) AS amount FROM s [ROWS 4 SLIDE 2] GROUP BY symbol, day
            """
        },
        dropped=["gone"],
        replaced={
            "turned": """
                SELECT symbol, min(amount) AS value FROM s [ROWS 12 SLIDE 4] WHERE amount > 20 GROUP BY symbol
            """
        },
        later={"last_five": "SELECT max(price) AS top FROM s [ROWS 5]"},
        rows=trades,
        rows_per_file=TRADES_PER_FILE,
        lateness="2 min",
    ),
    "lookups": Kind(
        queries="""
            -- name: movers
            SELECT sector, count(*) AS n, max(price - cp) AS up, sum(cp) AS closes
            FROM s [RANGE '40 min' SLIDE '10 min'] JOIN close USING (symbol) WHERE price > cp / 2
            GROUP BY sector;
            -- name: unknown
            SELECT s.venue, count(*) AS n FROM s LEFT JOIN close USING (symbol) WHERE cp IS NULL
            GROUP BY s.venue, window(s.ts, '1 hour');
            -- name: towns
            SELECT town, sector, sum(amount) AS amount
            FROM s [RANGE '30 min' SLIDE '10 min'] JOIN close USING (symbol) LEFT JOIN venues USING (venue)
            GROUP BY town, sector;
            -- name: turned
            SELECT sector, sum(amount) AS value
            FROM s [RANGE '40 min' SLIDE '20 min'] JOIN close USING (symbol) GROUP BY sector
        """,
        added={
            "shorter": """
                SELECT sector, count(*) AS n FROM s [RANGE '10 min'] JOIN close USING (symbol)
                WHERE price > cp / 2 GROUP BY sector
            """
        },
        dropped=[],
        replaced={
            "turned": """
                SELECT sector, min(amount) AS value
                FROM s [RANGE '40 min' SLIDE '20 min'] JOIN close USING (symbol) GROUP BY sector
            """
        },
        later={
            "by_town": """
                SELECT town, count(*) AS n FROM s [RANGE '10 min'] JOIN venues USING (venue) GROUP BY town
            """
        },
        rows=trades,
        rows_per_file=TRADES_PER_FILE,
        lateness="2 min",
        tables={"close": CLOSES, "venues": VENUES},
    ),
    "join": Kind(
        queries="""
            -- name: near
            SELECT a.n, b.n AS m, a.x + b.x AS s FROM a [RANGE '20 s'], b [RANGE '16 s'] WHERE a.k = b.k;
            -- name: far
            SELECT a.n, b.n AS m FROM a [RANGE '40 s'], b [RANGE '25 s'] WHERE a.k = b.k AND a.x < 4;
            -- name: band
            SELECT a.n, b.n AS m FROM a [RANGE '12 s'], b [RANGE '20 s'] WHERE abs(a.x - b.x) < 2;
            -- name: gone
            SELECT b.n, a.k FROM a [RANGE '20 s'], b [RANGE '20 s'] WHERE a.k = b.k AND a.x > 5
        """,
        added={"nearer": "SELECT a.n, b.n AS m FROM a [RANGE '6 s'], b [RANGE '6 s'] WHERE a.k = b.k"},
        dropped=["gone"],
        replaced={},
        later={"less": "SELECT a.n, b.n AS m FROM a [RANGE '3 s'], b [RANGE '3 s'] WHERE a.x < b.x"},
        rows=joined_rows,
        rows_per_file=ROWS_PER_FILE,
        lateness="3 s",
        streams=("a", "b"),
    ),
    "three-way-join": Kind(
        queries="""
            -- name: near
            SELECT a.n, b.n AS m, c.n AS o FROM a [RANGE '12 s'], b [RANGE '8 s'], c [RANGE '18 s']
            WHERE a.k = b.k AND abs(b.x - c.x) < 2;
            -- name: far
            SELECT a.n, c.n AS o, a.x + c.x AS s FROM a [RANGE '30 s'], b [RANGE '6 s'], c [RANGE '8 s']
            WHERE a.k = b.k AND abs(b.x - c.x) < 2 AND a.x < 4;
            -- name: gone
            SELECT a.n, b.n AS m FROM a [RANGE '8 s'], b [RANGE '2 s'] WHERE a.k = b.k AND a.x < 3
        """,
        added={
            "nearer": """
                SELECT a.n, b.n AS m, c.n AS o FROM a [RANGE '5 s'], b [RANGE '5 s'], c [RANGE '5 s']
                WHERE a.k = b.k AND abs(b.x - c.x) < 2
            """
        },
        dropped=["gone"],
        replaced={},
        later={"pair": "SELECT b.n, c.n AS m FROM b [RANGE '4 s'], c [RANGE '4 s'] WHERE b.k = c.k"},
        rows=joined_rows,
        rows_per_file=ROWS_PER_FILE,
        lateness="3 s",
        streams=("a", "b", "c"),
    ),
    "aggregate-over-join": Kind(
        queries="""
            -- name: counted
            SELECT a.k, count(*) AS c, sum(b.x) AS t FROM a [RANGE '10 s'], b [RANGE '15 s'] WHERE a.k = b.k
            GROUP BY a.k, window('20 s', '5 s');
            -- name: totals
            SELECT a.k, sum(a.x + b.x) AS total FROM a [RANGE '10 s'], b [RANGE '15 s'] WHERE a.k = b.k
            GROUP BY a.k, window('30 s');
            -- name: pairs
            SELECT a.n, b.n AS m FROM a [RANGE '20 s'], b [RANGE '16 s'] WHERE a.k = b.k AND a.x < 4;
            -- name: gone
            SELECT b.k, count(*) AS c FROM a [RANGE '5 s'], b [RANGE '5 s'] WHERE abs(a.x - b.x) < 2
            GROUP BY b.k, window('10 s')
        """,
        added={
            "halves": """
                SELECT a.k, count(*) AS c FROM a [RANGE '10 s'], b [RANGE '15 s'] WHERE a.k = b.k
                GROUP BY a.k, window('10 s')
            """
        },
        dropped=["gone"],
        replaced={},
        later={
            "least": """
                SELECT a.k, min(b.x) AS least FROM a [RANGE '10 s'], b [RANGE '15 s'] WHERE a.k = b.k
                GROUP BY a.k, window('10 s')
            """
        },
        rows=joined_rows,
        rows_per_file=ROWS_PER_FILE,
        lateness="3 s",
        streams=("a", "b"),
    ),
    "mix": Kind(
        queries="""
            -- name: by_key
            SELECT k, count(*) AS c, sum(x) AS s FROM a [RANGE '30 s' SLIDE '10 s'] GROUP BY k;
            -- name: near
            SELECT a.n, b.n AS m, a.x + b.x AS s FROM a [RANGE '20 s'], b [RANGE '16 s'] WHERE a.k = b.k;
            -- name: counted
            SELECT a.k, count(*) AS c, sum(b.x) AS t FROM a [RANGE '10 s'], b [RANGE '15 s'] WHERE a.k = b.k
            GROUP BY a.k, window('20 s', '5 s');
            -- name: gone
            SELECT max(x) AS most FROM a [RANGE '20 s']
        """,
        added={
            "nearer": "SELECT a.n, b.n AS m FROM a [RANGE '6 s'], b [RANGE '6 s'] WHERE a.k = b.k",
            "all": "SELECT count(*) AS c FROM b [RANGE '20 s' SLIDE '10 s']",
        },
        dropped=["gone"],
        replaced={},
        later={"least": "SELECT k, min(x) AS least FROM b [RANGE '10 s'] GROUP BY k"},
        rows=joined_rows,
        rows_per_file=ROWS_PER_FILE,
        lateness="3 s",
        streams=("a", "b"),
        since=5,
    ),
}


def read(text: str) -> list[Any]:
    """Read queries, with the aggregates of a user that some call."""
    weft.define_aggregate(
        "golden_pair",
        lift=lambda x: (x, 1),
        combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lower=lambda state: f"{state[0]}/{state[1]}",
        identity=(0, 0),
        result="string",
        compiled=False,
    )
    weft.define_aggregate(
        "golden_path",
        lift=lambda x: [x],
        combine=lambda a, b: a + b,
        lower=lambda state: " ".join(map(str, state)),
        identity=[],
        result="string",
        commutative=False,
        compiled=False,
    )
    return list(weft.sql(text))


def write_files(kind: Kind, place: Path, numbers: Iterable[int]) -> None:
    """Write some of the files of a kind's streams, each stream in a folder of its name."""
    for stream in kind.streams:
        folder = place / stream
        folder.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            path = folder / f"part-{number}.parquet"
            pq.write_table(kind.rows(stream).slice(number * kind.rows_per_file, kind.rows_per_file), path)
            # Spark takes files in order of modification.
            os.utime(path, (1_700_000_000 + number,) * 2)


@dataclass(frozen=True)
class Ended:
    """A run that has ended: what it delivered, how its steps went, what became of the changes."""

    tables: dict[str, pa.Table]
    progress: list[Any]
    changes: list[Any]
    queries: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, rows as texts in order."""
        return {
            "steps": [
                {name: getattr(p, name) for name in ("seq", "kind", "version", "rows", "late", "watermark")}
                for p in self.progress
            ],
            "changes": [[c.name, c.version, c.exact_from.isoformat(), c.history] for c in self.changes],
            "queries": self.queries,
            "rows": texts(self.tables),
        }


def run(
    kind: Kind,
    place: Path,
    spark: Any,
    change: Callable[[Any], list[Any]],
    change_after: int,
    **options: Any,
) -> Ended:
    """Run a stream over all files below a folder, with the checkpoint there; change it after a step."""
    sink, begun = MemorySink(), threading.Event()
    runs: list[Any] = []
    pending: list[Any] = []

    def progressed(progress: Any) -> None:
        if progress.seq == change_after:
            begun.wait()
            pending.extend(change(runs[0]))

    files = {stream: weft.Files(place / stream, max_files_per_batch=1) for stream in kind.streams}
    runs.append(
        weft.stream(
            files if len(files) > 1 else files["s"],
            read(kind.queries),
            time="ts",
            lateness=kind.lateness,
            sink=sink,
            trigger="available now",
            on_progress=progressed,
            spark=spark,
            tables=kind.tables or None,
            **{"checkpoint": place / "checkpoint", **options},
        )
    )
    begun.set()
    runs[0].await_done()
    changes = [future.result() for future in pending]
    return Ended(sink.tables, runs[0].progress, changes, [query.name for query in runs[0].queries()])


def go_on(kind: Kind, place: Path, spark: Any, **options: Any) -> Ended:
    """Write the rest of the data, and go on over it; at the end all that waits is answered."""
    write_files(kind, place, FILES_AFTER)
    return run(kind, place, spark, kind.change_later, LAST_STEP + 1, close_at_end=True, **options)


def texts(tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """Return rows as texts, in order, by query."""

    def text(value: Any) -> str:
        if value is None:
            return ""
        return value.isoformat() if hasattr(value, "isoformat") else repr(value)

    return {
        name: sorted("|".join(map(text, row.values())) for row in table.to_pylist())
        for name, table in tables.items()
    }


def answer_lasting(kind: Kind, first_file: int = 0) -> dict[str, list[str]]:
    """Answer the lasting queries in this process, over all rows from a file on but those that are too old."""
    old = len(FILES_BEFORE) * kind.rows_per_file
    first = first_file * kind.rows_per_file
    streams = {}
    for stream in kind.streams:
        rows = kind.rows(stream)
        streams[stream] = pa.concat_tables([rows.slice(first, old - first), rows.slice(old + 1)])
    source = streams if len(streams) > 1 else streams["s"]
    return texts(weft.run(kind.lasting(), source, time="ts", tables=kind.tables or None))
