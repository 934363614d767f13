"""Rows as tests write them: short times, types by column, and text that comes back as it was."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.testing import at, rows
from weft.testing.literals import read_rows, show

MINUTE = dt.timedelta(minutes=1)


def test_a_table_drawn_in_text() -> None:
    table = rows("""
        ts           symbol       price  volume  open   since       seen      note
        00:01        A            10.5   100     true   2024-01-31  00:00:30  'two words'
        00:04:30.25  'B'          7      null    false  null        null      '7'
        90           null         nan    -3      true   2023-12-31  -00:01    ''
    """)
    assert table.schema == pa.schema(
        {
            "ts": pa.timestamp("us"),
            "symbol": pa.string(),
            "price": pa.float64(),
            "volume": pa.int64(),
            "open": pa.bool_(),
            "since": pa.date32(),
            "seen": pa.timestamp("us"),
            "note": pa.string(),
        }
    )
    first, second, third = table.to_pylist()
    assert first == {
        "ts": dt.datetime(2024, 1, 1, 0, 1),
        "symbol": "A",
        "price": 10.5,
        "volume": 100,
        "open": True,
        "since": dt.date(2024, 1, 31),
        "seen": dt.datetime(2024, 1, 1, 0, 0, 30),
        "note": "two words",
    }
    assert (second["ts"], second["symbol"], second["note"]) == (
        dt.datetime(2024, 1, 1, 0, 4, 30, 250_000),
        "B",
        "7",
    )
    assert (third["ts"], third["symbol"], third["note"]) == (dt.datetime(2024, 1, 1, 0, 1, 30), None, "")
    assert math.isnan(third["price"])
    assert third["seen"] == dt.datetime(2023, 12, 31, 23, 59)


def test_a_column_is_of_one_type() -> None:
    table = rows("""
        ts     code  id    kind
        00:01  7     1     00:01
        00:02  x     2.5   soon
    """)
    assert table.column("code").to_pylist() == ["7", "x"]
    assert table.column("id").to_pylist() == [1.0, 2.5]
    assert table.column("kind").to_pylist() == ["00:01", "soon"]


def test_dictionaries_with_short_times() -> None:
    table = rows(
        [{"at": 60, "x": "00:05"}, {"at": "00:02", "y": 1}, {"at": at("00:03")}],
        time="at",
        types={"y": pa.int16()},
    )
    assert table.column("at").to_pylist() == [at(60), at("00:02"), at("00:03")]
    assert table.column("x").to_pylist() == ["00:05", None, None]
    assert table.schema.field("y").type == pa.int16()


def test_no_row() -> None:
    table = rows("ts  x")
    assert (table.num_rows, table.schema.field("ts").type) == (0, pa.timestamp("us"))
    with pytest.raises(ValueError, match="begin with a line of column names"):
        rows("")


def test_a_line_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 values for 2 columns \(ts x\): 00:01 two words"):
        rows("""
            ts     x
            00:01  two words
        """)


def test_times() -> None:
    assert at("25:30") == dt.datetime(2024, 1, 2, 1, 30)
    assert at("2024-03-01T12:00:00+01:00").utcoffset() == dt.timedelta(hours=1)
    assert at(1.5) == dt.datetime(2024, 1, 1, 0, 0, 1, 500_000)
    with pytest.raises(ValueError, match="noon"):
        at("noon")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)),
    st.dates(),
    st.text(st.characters(codec="utf-8", exclude_characters="'", exclude_categories=["Cc", "Zl", "Zp"])),
    st.sampled_from(["null", "true", "1", "00:01", "2024-01-01", "inf", "'", ""]).filter(lambda t: t != "'"),
)


@given(VALUES)
def test_what_is_shown_is_read_as_it_was(value: Any) -> None:
    shown = show(value)
    assert read_rows(f"x\n{shown}") == [{"x": value}]
