"""GROUP BY several columns: a group keeps its rows however many groups come and go."""

from __future__ import annotations

import datetime
from collections import Counter

import pyarrow as pa
import pytest

import weft
from support.seeds import seeded_random

COUNTED = "SELECT a, b, count(*) AS n FROM s GROUP BY a, b, window(ts, '10 minutes')"
MINUTES = datetime.timedelta(minutes=1)
START = datetime.datetime(2024, 1, 1)

Rows = list[tuple[int, object, object]]


def table(rows: Rows) -> pa.Table:
    """A table of (minute, a, b)."""
    minutes, a, b = zip(*rows)
    return pa.table(
        {"ts": pa.array([START + m * MINUTES for m in minutes], pa.timestamp("us")), "a": a, "b": b}
    )


def expected(rows: Rows) -> Counter[tuple[object, ...]]:
    return Counter((START + m // 10 * 10 * MINUTES, a, b) for m, a, b in rows)


def counted(results: dict[str, pa.Table]) -> dict[tuple[object, ...], int]:
    found = {(r["window_start"], r["a"], r["b"]): r["n"] for r in results["q1"].to_pylist()}
    assert len(found) == results["q1"].num_rows
    return found


def test_groups_that_outlive_others_keep_their_rows() -> None:
    rows: Rows = [
        *[(39, 6, 10), (41, 5, 27), (42, 6, 18), (43, 2, 12), (44, 4, 9), (45, 2, 34)],
        *[(54, 6, 10), (57, 5, 27), (58, 5, 27), (59, 6, 23)],
    ]
    whole = table(rows)
    batches = [whole.slice(i, 1) for i in range(len(rows))]
    assert counted(weft.run(weft.sql(COUNTED), batches, time="ts")) == expected(rows)
    assert counted(weft.run(weft.sql(COUNTED), whole, time="ts")) == expected(rows)


@pytest.mark.parametrize("seed", range(12))
def test_two_integer_keys_over_many_windows(seed: int) -> None:
    chance = seeded_random(seed)
    rows: Rows = [(i // 4, chance.randrange(12), chance.randrange(40)) for i in range(5_000)]
    whole = table(rows)
    assert counted(weft.run(weft.sql(COUNTED), whole, time="ts")) == expected(rows)
    batches = [whole.slice(i, 100) for i in range(0, len(rows), 100)]
    assert counted(weft.run(weft.sql(COUNTED), batches, time="ts", lateness="3 min")) == expected(rows)


@pytest.mark.parametrize("dictionaries", [False, True])
def test_three_keys_with_nulls_over_many_windows(dictionaries: bool) -> None:
    chance = seeded_random(5)
    rows = [
        (i // 4, chance.choice([None, *"abcdefgh"]), chance.choice([None, *range(9)]), chance.random() < 0.5)
        for i in range(2_000)
    ]
    whole = table([(m, a, b) for m, a, b, _ in rows]).append_column("c", pa.array([c for *_, c in rows]))
    if dictionaries:
        # Sorted: the dictionary is not in the order of the rows.
        letters = pa.array(list("hgfedcba"))
        places = pa.array([None if r[1] is None else "hgfedcba".index(r[1]) for r in rows], pa.uint8())
        whole = whole.set_column(1, "a", pa.DictionaryArray.from_arrays(places, letters))
    batches = [whole.slice(i, 50) for i in range(0, len(rows), 50)]
    query = COUNTED.replace("b, ", "b, c, ")
    results = weft.run(weft.sql(query), batches, time="ts")["q1"].to_pylist()
    found = {(r["window_start"], r["a"], r["b"], r["c"]): r["n"] for r in results}
    assert found == Counter((START + m // 10 * 10 * MINUTES, a, b, c) for m, a, b, c in rows)
