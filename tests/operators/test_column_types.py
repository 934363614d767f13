"""Columns of every Arrow type: grouped by and read, or refused by name."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError

TIMES = [datetime.datetime(2024, 1, 1, 0, 0, second) for second in range(4)]


def answers(column: pa.Array, text: str) -> list[Any]:
    table = pa.table({"ts": TIMES, "c": column})
    (found,) = weft.run(weft.sql(text), table, time="ts").values()
    return found.to_pylist()


VIEW = pa.array(["a", "b", "a", None], pa.string_view())
ENCODED = pa.DictionaryArray.from_arrays(
    pa.array([0, 1, 0, None], pa.int32()), pa.array(["a", "b"], pa.string_view())
)


@pytest.mark.parametrize(
    "column",
    [
        VIEW,
        ENCODED,
        pa.array(["a", "b", "a", None], pa.large_string()),
        pa.array([1, 2, 1, None], pa.decimal32(5, 2)),
        pa.array([1, 2, 1, None], pa.decimal64(5, 2)),
        pa.array([1, 2, 1, None], pa.decimal256(50, 2)),
        pa.array([1, 2, 1, None], pa.float16()),
        pa.array([0, 1, 0, None], pa.date32()),
        pa.array([0, 1, 0, None], pa.timestamp("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_keys_of_a_type_are_grouped_by_their_values(column: pa.Array) -> None:
    rows = answers(column, "SELECT count(*) AS n FROM t [RANGE '1 min'] GROUP BY c")
    # Groups of several buckets come in no order.
    assert {row["c"]: row["n"] for row in rows} == {column[0].as_py(): 2, column[1].as_py(): 1, None: 1}
    assert len(rows) == 3


@pytest.mark.parametrize("column", [VIEW, ENCODED], ids=["string_view", "dictionary"])
def test_string_views_are_text(column: pa.Array) -> None:
    select = "count(c) AS n, max(c) AS top, approx_count_distinct(c) AS few"
    (row,) = answers(column, f"SELECT {select} FROM t [RANGE '1 min'] WHERE c <> 'z' AND upper(c) < 'C'")
    assert (row["n"], row["top"], row["few"]) == (3, "b", 2)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a"] * 4),
        pa.array([b"a"] * 4, pa.binary_view()),
        pa.array([b"a"] * 4, pa.large_binary()),
        pa.array([[1]] * 4),
        pa.array([{"a": 1}] * 4),
        pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
        pa.array([1] * 4, pa.duration("us")),
        pa.array([1] * 4, pa.time32("s")),
        pa.array([1] * 4, pa.time64("us")),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM t [RANGE '1 min'] GROUP BY c",
        "SELECT max(c) AS n FROM t [RANGE '1 min']",
        "SELECT count(*) AS n FROM t [RANGE '1 min'] WHERE c IS NULL",
    ],
)
def test_other_types_are_refused_by_column_type_and_remedy(column: pa.Array, text: str) -> None:
    with pytest.raises(QueryError) as refused:
        answers(column, text)
    assert f"column 'c' is {column.type}" in refused.value.message
    assert refused.value.position is not None
    assert "convert the column" in (refused.value.hint or "")
