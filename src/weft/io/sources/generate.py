"""Seeded, realistic streams as Arrow batches: trades to measure with, sensor readings with holes in them.

The same arguments give the same rows on every machine, in batches of ``BATCH_ROWS`` rows.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import JobError

BATCH_ROWS = 1 << 20
START = datetime.datetime(2025, 1, 2, 14, 30, tzinfo=datetime.UTC)
TRADES = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "symbol": pa.string(),
        "price": pa.float64(),
        "volume": pa.int64(),
        "exchange": pa.string(),
    }
)
SENSORS = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "sensor_id": pa.int64(),
        "location": pa.string(),
        "temperature": pa.float64(),
        "humidity": pa.float64(),
    }
)

# Trade sizes and venues roughly as on a consolidated tape: half of the trades are round lots of 100.
VOLUMES = {
    100: 50,
    200: 11,
    300: 6,
    400: 4,
    500: 5,
    1000: 5,
    2000: 2,
    5000: 1,
    1: 3,
    5: 2,
    10: 4,
    25: 3,
    50: 4,
}
EXCHANGES = {"N": 30, "Q": 38, "P": 14, "Z": 11, "V": 7}

Ints = npt.NDArray[np.int64]


def trades(
    rows: int,
    *,
    rate: float = 1000.0,
    symbols: int = 500,
    seed: int = 0,
    disorder: float = 0.0,
    start: datetime.datetime = START,
) -> Iterator[pa.RecordBatch]:
    """Trades arriving at ``rate`` rows a second of event time, over Zipf-skewed symbols.

    ``disorder`` is the most seconds by which a row can come after a younger one.
    Each symbol's price is a random walk in whole cents.

    >>> batch = next(trades(3, seed=7))
    >>> batch.num_rows, batch.schema.names
    (3, ['ts', 'symbol', 'price', 'volume', 'exchange'])
    """
    for name, value in {"rows": rows, "disorder": disorder}.items():
        if value < 0:
            raise JobError(f"the generator's {name} must not be negative, not {value}")
    if symbols < 1 or not rate > 0:
        raise JobError(
            f"the generator needs symbols >= 1 and rate > 0, not symbols={symbols} and rate={rate}"
        )
    random = np.random.default_rng(seed)
    names = ticker_names(symbols)
    share = np.cumsum(1.0 / np.arange(1, symbols + 1))
    share /= share[-1]
    log_price = np.log(np.exp(random.normal(3.9, 0.8, symbols)).clip(2.0))
    clock = float(_microseconds(start))
    for size in _sizes(rows):
        arrival = clock + np.cumsum(random.exponential(1e6 / rate, size))
        clock = float(arrival[-1])
        symbol = np.searchsorted(share, random.random(size)).astype(np.int32)
        price = _walk(log_price, symbol, random.normal(0.0, 2e-4, size))
        delay = random.random(size) * (disorder * 1e6) if disorder else 0.0
        yield pa.record_batch(
            [
                pa.array((arrival - delay).astype(np.int64)).cast(TRADES.field("ts").type),
                pa.DictionaryArray.from_arrays(symbol, names).cast(pa.string()),
                pa.array(price),
                pa.array(draw(random, list(VOLUMES), list(VOLUMES.values()), size)),
                pa.DictionaryArray.from_arrays(
                    draw(random, range(len(EXCHANGES)), list(EXCHANGES.values()), size).astype(np.int32),
                    pa.array(list(EXCHANGES)),
                ).cast(pa.string()),
            ],
            schema=TRADES,
        )


def sensors(
    rows: int, *, rate: float = 10.0, sensors: int = 20, seed: int = 0, start: datetime.datetime = START
) -> Iterator[pa.RecordBatch]:
    """Sensor readings with a daily rhythm; about one reading in twenty is null.

    >>> next(sensors(1000)).column("humidity").null_count > 0
    True
    """
    random = np.random.default_rng(seed)
    places = pa.array(["cellar", "hall", "roof", "yard"])
    clock = float(_microseconds(start))
    for size in _sizes(rows):
        ts = clock + np.cumsum(random.exponential(1e6 / rate, size))
        clock = float(ts[-1])
        sensor = random.integers(0, sensors, size)
        rhythm = np.sin(ts / 86_400e6 * 2 * np.pi)
        temperature = np.round(15 + 8 * rhythm + sensor % 5 + random.normal(0, 0.5, size), 1)
        humidity = np.round((60 - 20 * rhythm + random.normal(0, 3, size)).clip(0, 100), 1)
        yield pa.record_batch(
            [
                pa.array(ts.astype(np.int64)).cast(SENSORS.field("ts").type),
                pa.array(sensor),
                places.take(pa.array(sensor % len(places))),
                pa.array(temperature, mask=random.random(size) < 0.05),
                pa.array(humidity, mask=random.random(size) < 0.05),
            ],
            schema=SENSORS,
        )


def write_parquet(
    path: str | os.PathLike[str],
    rows: int,
    *,
    files: int = 1,
    row_group: int = BATCH_ROWS,
    rate: float = 1000.0,
    symbols: int = 500,
    seed: int = 0,
    disorder: float = 0.0,
) -> list[Path]:
    """Trades as ``files`` Parquet files of equal size in the folder ``path``, in order of arrival.

    >>> import tempfile
    >>> [p.name for p in write_parquet(tempfile.mkdtemp(), 1000, files=2)]
    ['part-00000.parquet', 'part-00001.parquet']
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    stream = trades(rows, rate=rate, symbols=symbols, seed=seed, disorder=disorder)
    waiting: list[pa.RecordBatch] = []
    written = []
    for number in range(files):
        rows_left = rows * (number + 1) // files - rows * number // files
        target = folder / f"part-{number:05}.parquet"
        # Streams take files by age, to the millisecond: the last is written now, the one before a second ago.
        with (
            _whole(target, age=files - 1 - number) as unfinished,
            pq.ParquetWriter(unfinished, TRADES) as writer,
        ):
            while rows_left:
                batch = waiting.pop() if waiting else next(stream)
                writer.write_batch(batch.slice(0, rows_left), row_group_size=row_group)
                if batch.num_rows > rows_left:
                    waiting.append(batch.slice(rows_left))
                rows_left -= min(rows_left, batch.num_rows)
        written.append(target)
    return written


@contextmanager
def _whole(target: Path, age: float = 0.0) -> Iterator[Path]:
    """A file to write, ``age`` seconds old, that has its name only when the block is done."""
    # Readers that watch the folder skip names with a leading dot, so they never see half a file.
    unfinished = target.with_name(f".{target.name}")
    yield unfinished
    when = time.time() - age
    os.utime(unfinished, (when, when))
    unfinished.rename(target)


def ticker_names(count: int) -> pa.Array:
    """``count`` ticker names, the most traded first.

    >>> ticker_names(3).to_pylist()
    ['AAA', 'AAB', 'AAC']
    """
    letters = np.array([chr(65 + i) for i in range(26)])
    width = 3
    while 26**width < count:
        width += 1
    digits = np.arange(count)[:, None] // 26 ** np.arange(width - 1, -1, -1) % 26
    return pa.array(["".join(row) for row in letters[digits]])


def _sizes(rows: int) -> Iterator[int]:
    """The sizes of the batches that make up ``rows``."""
    yield from (min(BATCH_ROWS, rows - done) for done in range(0, rows, BATCH_ROWS))


def _walk(
    log_price: npt.NDArray[np.float64], symbol: npt.NDArray[np.int32], step: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Each row's price after its step, per symbol; ``log_price`` moves on to where each symbol ends."""
    order = np.argsort(symbol, kind="stable")
    path = np.cumsum(step[order])
    present, first, counts = np.unique(symbol[order], return_index=True, return_counts=True)
    before = np.where(first > 0, path[first - 1], 0.0)
    path += np.repeat(log_price[present] - before, counts)
    log_price[present] = path[first + counts - 1]
    price = np.empty_like(path)
    price[order] = np.round(np.exp(path), 2).clip(0.01)
    return price


def draw(random: np.random.Generator, values: list[int] | range, weights: list[int], size: int) -> Ints:
    """``size`` values drawn by weight, by looking each up in a table of all weights."""
    table = np.repeat(np.array(values, dtype=np.int64), weights)
    return table[random.integers(0, len(table), size)]


def _microseconds(instant: datetime.datetime) -> int:
    return round(instant.timestamp() * 1e6)
