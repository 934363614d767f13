"""Generated streams: the same rows for the same seed, and the shape that trades have."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from weft.errors import JobError
from weft.io.sources.generate import SENSORS, TRADES, sensors, ticker_names, trades, write_parquet


def table(rows: int, **options: object) -> pa.Table:
    return pa.Table.from_batches(trades(rows, **options), schema=TRADES)


def times(of: pa.Table) -> np.ndarray:
    return of["ts"].cast(pa.int64()).to_numpy()


def test_the_same_seed_gives_the_same_rows():
    assert table(5000, seed=3).equals(table(5000, seed=3))
    assert not table(5000, seed=3).equals(table(5000, seed=4))


def test_no_rows_is_an_empty_stream():
    assert table(0).num_rows == 0


def test_event_time_runs_at_the_rate_and_in_order():
    ts = times(table(20_000, rate=100.0))
    assert (np.diff(ts) >= 0).all()
    assert (ts[-1] - ts[0]) / 1e6 == pytest.approx(200, rel=0.05)


def test_disorder_is_there_and_bounded():
    ts = times(table(20_000, disorder=5.0))
    behind = np.maximum.accumulate(ts) - ts
    assert 4e6 < behind.max() <= 5e6


def test_symbols_are_skewed_and_half_the_trades_are_round_lots():
    made = table(100_000, symbols=50)
    counts = {v["values"]: v["counts"] for v in made["symbol"].value_counts().to_pylist()}
    assert len(counts) == 50
    assert counts["AAA"] / counts["AAB"] == pytest.approx(2.0, rel=0.1)
    assert pc.mean(pc.equal(made["volume"], 100).cast(pa.int8())).as_py() == pytest.approx(0.5, abs=0.02)


def test_a_price_walks_in_small_steps_of_whole_cents_across_batches(monkeypatch):
    monkeypatch.setattr("weft.io.sources.generate.BATCH_ROWS", 1000)
    made = table(10_000, symbols=3)
    for symbol in ticker_names(3):
        price = made.filter(pc.equal(made["symbol"], symbol))["price"].to_numpy()
        assert (np.abs(np.diff(price)) / price[1:]).max() < 0.01
        assert np.round(price, 2) == pytest.approx(price, abs=0)


def test_write_parquet_splits_the_very_same_rows(tmp_path):
    written = write_parquet(tmp_path, 10_001, files=4, seed=1)
    parts = [pq.read_table(p) for p in written]
    assert [p.num_rows for p in parts] == [2500, 2500, 2500, 2501]
    assert pa.concat_tables(parts).equals(table(10_001, seed=1).combine_chunks())
    assert sorted(p.name for p in tmp_path.iterdir()) == [p.name for p in written]
    ages = [p.stat().st_mtime for p in written]
    assert ages == sorted(set(ages))


def test_sensors_have_nulls():
    made = pa.Table.from_batches(sensors(10_000), schema=SENSORS)
    for column in ("temperature", "humidity"):
        assert made[column].null_count / made.num_rows == pytest.approx(0.05, abs=0.01)


def test_more_symbols_than_three_letters_have_names():
    names = ticker_names(26**3 + 1)
    assert len(names.unique()) == 26**3 + 1


@pytest.mark.parametrize("options", [{"rows": -1}, {"rows": 1, "rate": 0}, {"rows": 1, "symbols": 0}])
def test_impossible_streams_are_refused(options):
    with pytest.raises(JobError, match="generator"):
        list(trades(**options))
