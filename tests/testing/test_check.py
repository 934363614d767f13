"""Unit tests of queries: answers in any order, differences in words, random batches within the lateness."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars
import pyarrow as pa
import pytest

import weft
from weft import aggregates
from weft.errors import JobError, QueryError
from weft.testing import at, check_query, rows
from weft.testing.compare import differences, same

#         00:00      00:05      00:10
#           |----------|----------|
#  A           10  12        9
#  B                   11
TRADES = """
    ts     symbol  price
    00:01  A       10.0
    00:04  A       12.0
    00:05  B       11.0
    00:08  A       9.0
"""
TOPS = "SELECT symbol, max(price) AS top FROM trades [RANGE '5 min'] GROUP BY symbol"


@pytest.fixture
def own_aggregates() -> Iterator[None]:
    before = dict(aggregates.USER_FUNCTIONS)
    yield
    aggregates.USER_FUNCTIONS.clear()
    aggregates.USER_FUNCTIONS.update(before)


def failure(*args: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as error:
        check_query(*args, **options)
    return str(error.value)


def test_answers_come_in_any_order_and_any_batches() -> None:
    check_query(
        TOPS,
        TRADES,
        """
        top   symbol  window_end  window_start
        11    B       00:10       00:05
        12    A       00:05       00:00
        9     A       00:10       00:05
        """,
        splits=10,
    )


def test_only_the_columns_that_are_named_are_compared() -> None:
    check_query(TOPS, TRADES, [{"top": 9.0}, {"top": 11.0}, {"top": 12.0}])
    check_query(TOPS, TRADES, pa.table({"symbol": ["A", "A", "B"]}))
    symbols = rows(TRADES).select(["symbol"]).slice(1)
    check_query(TOPS, rows(TRADES).to_pandas(), symbols.to_pandas())
    check_query(TOPS, polars.DataFrame(rows(TRADES)), polars.DataFrame(symbols))
    check_query(TOPS, rows(TRADES).to_batches()[0], symbols.to_batches()[0])
    assert failure(TOPS, TRADES, [{"price": 1}]) == (
        "query 'q1' has no column 'price'; it has symbol, window_start, window_end, top"
    )


def test_differences_in_words() -> None:
    expected = """
        symbol  window_start  window_end  top
        A       00:00         00:05       13
        C       00:05         00:10       9
        A       00:05         00:10       9
    """
    assert failure(TOPS, TRADES, expected).splitlines() == [
        "query 'q1' gives other answers:",
        "  different:  window [00:00, 00:05), symbol=A: top is 12.0, expected 13",
        "  missing:    window [00:05, 00:10), symbol=C, top=9",
        "  unexpected: window [00:05, 00:10), symbol=B, top=11.0",
    ]


def test_no_answer_is_expected() -> None:
    rare = f"{TOPS} HAVING top > 100"
    check_query(rare, TRADES, [])
    check_query(rare, TRADES, "symbol  top")
    assert "unexpected: window [00:00, 00:05), symbol=A, top=12.0" in failure(TOPS, TRADES, [])


def test_an_answer_given_twice_is_expected_twice() -> None:
    assert "missing:    top=9.0" in failure(
        TOPS, TRADES, [{"top": 9.0}, {"top": 9.0}, {"top": 11.0}, {"top": 12.0}]
    )


def test_long_differences_are_cut() -> None:
    many = [{"ts": 300 * n} for n in range(40)]
    message = failure("SELECT count(*) AS n FROM s [RANGE '5 min']", many, [])
    assert message.splitlines()[-1] == "  ... and 20 more"


#   batch 1   00:01        00:07
#   batch 2         00:03             one that a window waits for, or that is late
LATE = [rows([{"ts": "00:01"}, {"ts": "00:07"}]), rows([{"ts": "00:03"}])]
COUNT = "SELECT count(*) AS n FROM s [RANGE '5 min']"


def test_rows_that_are_late_are_left_out() -> None:
    check_query(COUNT, LATE, [{"n": 2}, {"n": 1}])
    check_query(COUNT, LATE, [{"n": 1}, {"n": 1}], lateness="1 min")
    check_query(COUNT, LATE, [{"n": 2}, {"n": 1}], lateness="4 min", splits=20)
    message = failure(COUNT, LATE, [{"n": 2}, {"n": 1}], lateness="1 min")
    assert message.splitlines()[-1] == "  1 of 3 rows came too late"


def test_windows_counted_in_rows_keep_rows_of_one_time_in_order() -> None:
    check_query(
        "SELECT last(x) AS x, count(*) AS n FROM s [ROWS 2 SLIDE 1]",
        [{"ts": "00:01", "x": 1}, {"ts": "00:02", "x": 2}, {"ts": "00:02", "x": 3}],
        [{"n": 1, "x": 1}, {"n": 2, "x": 2}, {"n": 2, "x": 3}],
        splits=20,
    )


def test_random_batches_find_an_aggregate_that_is_not_associative(own_aggregates: None) -> None:
    weft.define_aggregate(
        "mean_of_means",
        lift=lambda x: x,
        combine=lambda a, b: (a + b) / 2,
        lower=lambda s: s,
        identity=None,
        result="double",
        compiled=False,
    )
    query = "SELECT mean_of_means(x) AS mean FROM s [RANGE '5 min']"
    given = [{"ts": n, "x": float(n * n)} for n in range(8)]
    single = weft.run(weft.sql(query), rows(given), time="ts")["q1"]
    check_query(query, given, single)
    message = failure(query, given, single, splits=20)
    assert "different:  window [00:00, 00:05): mean is " in message
    assert message.splitlines()[-1].startswith("  with 's' in batches of ")


def test_lookup_tables_and_options_are_passed_on() -> None:
    query = """
        SELECT c.sector, count(*) AS n FROM trades [RANGE '10 min'] JOIN c ON trades.symbol = c.symbol
        GROUP BY c.sector
    """
    sectors = pa.table({"symbol": ["A", "B"], "sector": ["tech", "food"]})
    check_query(
        query,
        TRADES,
        """
        sector  n
        tech    3
        food    1
        """,
        tables={"c": sectors},
        technique="twostacks",
        threads=1,
        splits=3,
    )
    with pytest.raises(QueryError, match="no table 'c' is given"):
        check_query(query, TRADES, [])
    with pytest.raises(TypeError, match="did you mean 'technique'"):
        check_query(query, TRADES, [], techniqe="flatfat")


def test_a_join_of_streams() -> None:
    query = "SELECT a.x, b.y FROM a [RANGE '2 min'], b [RANGE '1 min'] WHERE a.x < b.y"
    streams = {"a": "ts x\n 00:01 1\n 00:05 2", "b": [{"ts": "00:02", "y": 3}, {"ts": "00:09", "y": 4}]}
    check_query(query, streams, [{"ts": "00:02", "x": 1, "y": 3}], splits=5)
    assert "missing:    ts=00:03, x=1, y=3" in failure(query, streams, [{"ts": "00:03", "x": 1, "y": 3}])
    with pytest.raises(JobError, match="there are no rows of the stream 'b'; given are a"):
        check_query(query, {"a": "ts x"}, [])
    with pytest.raises(JobError, match="a join needs the rows of its streams by name: a, b"):
        check_query(query, "ts x", [])


def test_queries_in_python_and_time_columns_of_another_name() -> None:
    query = weft.query("busy").source("s").window("5 min").aggregate(n="count(*)")
    check_query(query, "seen\n00:01", [{"n": 1}], time="seen")
    check_query(query.build(), {"s": rows("seen\n00:01", time="seen")}, [{"n": 1}], time={"s": "seen"})


def test_values_that_are_one_answer() -> None:
    assert same(1, Decimal(1))
    assert same(0.1 + 0.2, Decimal("0.3"))
    assert not same(2**53, 2**53 + 1)
    assert not same(1.0, math.nan)
    assert not same("1", 1)
    assert same(at("00:05").replace(tzinfo=dt.UTC), at("00:05"))
    assert not same(at("00:05"), at("00:05").date())


def test_differences_of_keys_that_are_not_equal_to_themselves() -> None:
    row = {"k": math.nan, "n": 1}
    assert list(differences([row], [dict(row)], ["k"])) == []
    assert list(differences([row], [{"k": math.nan, "n": 2}], ["k"])) == [
        "different:  k=nan: n is 1, expected 2"
    ]
