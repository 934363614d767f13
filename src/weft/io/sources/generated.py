"""``Generated``: made-up rows, each made from its number, so that any of them can be made again.

Five streams: trades, sensor readings, clicks, readings of electricity meters, and card payments. The same
settings give the same rows on every machine, in any task, in any order, and after any restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.errors import JobError
from weft.io.files.chunk import Chunk
from weft.io.sources.generate import EXCHANGES, SENSORS, START, TRADES, VOLUMES, draw, ticker_names
from weft.io.sources.ranges import Offsets, Range, Ranged

BLOCK_ROWS = 1 << 13
"""Rows that are made together, from one seed."""

MAX_CHUNK_ROWS = 1 << 20

TIME = pa.timestamp("us", "UTC")
CLICKS = pa.schema(
    {
        "ts": TIME,
        "user_id": pa.int64(),
        "page": pa.string(),
        "device": pa.string(),
        "seconds": pa.float64(),
    }
)
METERS = pa.schema(
    {"ts": TIME, "house": pa.int64(), "household": pa.int64(), "plug": pa.int64(), "load": pa.float64()}
)
PAYMENTS = pa.schema(
    {
        "ts": TIME,
        "card": pa.string(),
        "merchant": pa.string(),
        "country": pa.string(),
        "amount": pa.float64(),
    }
)

PAGES = {"home": 30, "search": 25, "item": 30, "cart": 8, "checkout": 4, "thanks": 3}
DEVICES = {"phone": 60, "desktop": 32, "tablet": 8}
MERCHANTS = {
    "grocery": 34,
    "fuel": 14,
    "restaurant": 18,
    "online": 24,
    "travel": 5,
    "jewellery": 2,
    "cash": 3,
}
COUNTRIES = {"DE": 45, "FR": 20, "NL": 12, "PL": 10, "US": 8, "SG": 5}
PLACES = ("cellar", "hall", "roof", "yard")

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowBlock:
    """The ingredients of a block of rows: times in microseconds, the number of each row's key, a seed."""

    times: Ints
    key: Ints
    keys: int
    random: np.random.Generator
    fixed: np.random.Generator
    """Gives the same numbers to every block."""


@dataclass(frozen=True)
class Generated(Ranged):
    """Made-up rows of the stream ``data``, ``rate`` of them a second of event time.

    ``keys`` is how many symbols, sensors, users, houses or cards there are; the k-th busiest has a share of
    about ``1 / k**skew``, so that 0 makes all alike. ``disorder`` is the most seconds by which a row
    can come after a younger one. With ``pace`` the rows come as time passes, with event times from now on.

    >>> source = Generated("clicks", rows=3, seed=7)
    >>> [chunk.table.num_rows for chunk in source], source.stream_schema().names
    ([3], ['ts', 'user_id', 'page', 'device', 'seconds'])
    """

    data: str = "trades"
    rows: int = 1_000_000
    rate: float = 1000.0
    keys: int = 500
    skew: float = 1.0
    seed: int = 0
    disorder: float = 0.0
    pace: bool = False
    max_rows_per_batch: int | None = None

    def __post_init__(self) -> None:
        if self.data not in KINDS:
            raise JobError(f"the generator's data must be one of {', '.join(KINDS)}, not '{self.data}'")
        for name in ("rows", "disorder", "skew", "seed"):
            if getattr(self, name) < 0:
                raise JobError(f"the generator's {name} must not be negative, not {getattr(self, name)}")
        if self.keys < 1 or not self.rate > 0:
            raise JobError(
                f"the generator needs at least one key and rate > 0, not {self.keys} and {self.rate}"
            )

    def stream_schema(self) -> pa.Schema:
        """The columns of the kind of stream."""
        return KINDS[self.data][0]

    def first(self) -> dict[str, int]:
        """Nothing taken, of a partition whose name is the time of its first row, in microseconds."""
        began = time.time() if self.pace else START.timestamp()
        return {str(round(began * 1e6)): 0}

    def latest(self, start: Offsets) -> dict[str, int]:
        """As many rows as there are, or as many as have come by now."""
        ((began, _),) = start.items()
        come = (time.time() - int(began) / 1e6) * self.rate if self.pace else self.rows
        return {began: min(self.rows, max(0, int(come)))}

    def check(self, ranges: Sequence[Range]) -> None:
        """Rows that are made are always there."""

    def read(self, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[Chunk]:
        """The rows with these numbers."""
        for span in ranges:
            for start in range(span.start, span.end, MAX_CHUNK_ROWS):
                end = min(span.end, start + MAX_CHUNK_ROWS)
                blocks = range(start // BLOCK_ROWS, -(-end // BLOCK_ROWS))
                began = int(span.partition)
                table = pa.concat_tables([self._block(n, began) for n in blocks])
                rows = table.slice(start - blocks[0] * BLOCK_ROWS, end - start).select(schema.names)
                mark = int(began + end * (1e6 / self.rate) - self.disorder * 1e6) - 1
                yield Chunk(rows, mark=mark, place=end)

    def _block(self, number: int, began: int) -> pa.Table:
        random = np.random.default_rng([self.seed, number])
        slot = np.arange(number * BLOCK_ROWS, (number + 1) * BLOCK_ROWS) + random.random(BLOCK_ROWS)
        times = began + slot * (1e6 / self.rate)
        if self.disorder:
            times -= random.random(BLOCK_ROWS) * (self.disorder * 1e6)
        key = np.searchsorted(_shares(self.keys, self.skew), random.random(BLOCK_ROWS))
        schema, make = KINDS[self.data]
        rows = RowBlock(
            times.astype(np.int64), key, self.keys, random, np.random.default_rng([self.seed, 1 << 32])
        )
        return pa.table([pa.array(rows.times).cast(TIME), *make(rows)], schema=schema)


def _trades(rows: RowBlock) -> list[pa.Array]:
    """Prices in whole cents go up and down around each symbol's own; half of the trades are round lots."""
    base = np.exp(rows.fixed.normal(3.9, 0.8, rows.keys)).clip(2.0)
    drift = sum(_wave(rows, period, swing) for period, swing in ((37.0, 0.002), (411.0, 0.006), (5e3, 0.02)))
    price = base[rows.key] * np.exp(drift + rows.random.normal(0.0, 3e-4, rows.key.size))
    return [
        ticker_names(rows.keys).take(pa.array(rows.key)),
        pa.array(np.round(price, 2).clip(0.01)),
        pa.array(draw(rows.random, list(VOLUMES), list(VOLUMES.values()), rows.key.size)),
        _pick(rows, EXCHANGES),
    ]


def _sensors(rows: RowBlock) -> list[pa.Array]:
    """A daily rhythm; about one reading in twenty is null."""
    size = rows.key.size
    rhythm = np.sin(rows.times / 86_400e6 * 2 * np.pi)
    temperature = 15 + 8 * rhythm + rows.key % 5 + rows.random.normal(0, 0.5, size)
    humidity = (60 - 20 * rhythm + rows.random.normal(0, 3, size)).clip(0, 100)
    return [
        pa.array(rows.key),
        pa.array(PLACES).take(pa.array(rows.key % len(PLACES))),
        pa.array(np.round(temperature, 1), mask=rows.random.random(size) < 0.05),
        pa.array(np.round(humidity, 1), mask=rows.random.random(size) < 0.05),
    ]


def _clicks(rows: RowBlock) -> list[pa.Array]:
    """Users with a device of their own; most pages are left soon, some are read for minutes."""
    device = pa.array(list(DEVICES)).take(pa.array((rows.key * 2654435761 >> 7) % len(DEVICES)))
    seconds = np.round(rows.random.lognormal(2.0, 1.2, rows.key.size), 1)
    return [pa.array(rows.key), _pick(rows, PAGES), device, pa.array(seconds)]


def _meters(rows: RowBlock) -> list[pa.Array]:
    """Houses with up to four households of up to eight plugs each, a base load and a peak each evening."""
    size = rows.key.size
    household, plug = rows.random.integers(0, 1 + rows.key % 4), rows.random.integers(0, 8, size)
    evening = np.exp(-(((rows.times / 3_600e6 + rows.key % 3) % 24 - 19) ** 2) / 8)
    on = rows.random.random(size) < 0.25 + 0.5 * evening
    load = 2.0 + 5 * plug + np.where(on, rows.random.gamma(2.0, 60.0 + 20 * plug, size), 0.0)
    return [pa.array(rows.key), pa.array(household), pa.array(plug), pa.array(np.round(load, 3))]


def _payments(rows: RowBlock) -> list[pa.Array]:
    """Cards used at home for small amounts, and now and then a stolen one: large amounts from far away."""
    size = rows.key.size
    minute = rows.times // 60_000_000
    stolen = (rows.key * 7919 + minute // 10) % 97 == 0
    home = (rows.key * 31) % len(COUNTRIES)
    away = rows.random.integers(0, len(COUNTRIES), size)
    elsewhere = stolen | (rows.random.random(size) < 0.03)
    amount = np.round(rows.random.lognormal(3.2, 0.9, size) * np.where(stolen, 12.0, 1.0), 2)
    names = pa.array([f"card-{n:05}" for n in range(rows.keys)])
    country = pa.array(list(COUNTRIES)).take(pa.array(np.where(elsewhere, away, home)))
    return [names.take(pa.array(rows.key)), _pick(rows, MERCHANTS), country, pa.array(amount)]


KINDS: Mapping[str, tuple[pa.Schema, Callable[[RowBlock], list[pa.Array]]]] = {
    "trades": (TRADES, _trades),
    "sensors": (SENSORS, _sensors),
    "clicks": (CLICKS, _clicks),
    "meters": (METERS, _meters),
    "payments": (PAYMENTS, _payments),
}


def _wave(rows: RowBlock, period: float, swing: float) -> Floats:
    """A swing of each key's own, of about so many seconds."""
    pace, phase = rows.fixed.uniform(0.5, 1.5, rows.keys), rows.fixed.uniform(0, 2 * np.pi, rows.keys)
    turns = rows.times / 1e6 / period * pace[rows.key]
    return swing * np.sin(2 * np.pi * turns + phase[rows.key])


def _pick(rows: RowBlock, weights: Mapping[str, int]) -> pa.Array:
    chosen = draw(rows.random, range(len(weights)), list(weights.values()), rows.key.size)
    return pa.array(list(weights)).take(pa.array(chosen))


@lru_cache(maxsize=8)
def _shares(keys: int, skew: float) -> Floats:
    share = np.cumsum(1.0 / np.arange(1, keys + 1) ** skew)
    return share / share[-1]
