"""The oracle for users: what it answers, what it refuses, and the engine against it on random rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft import aggregates
from weft.errors import AnswerOverflow, JobError, QueryError
from weft.testing import at, check_query, oracle, rows

SECTORS = pa.table({"symbol": ["A", "B"], "sector": ["tech", "food"], "weight": [1.5, None]})
QUERIES = {
    "sliding": """SELECT symbol, avg(price) AS mean, count(volume) AS n
                  FROM trades [RANGE '5 min' SLIDE '2 min'] WHERE price > 3 GROUP BY symbol""",
    "computed": """SELECT sum(price * volume) / sum(volume) AS vwap FROM trades [RANGE '7 min' SLIDE '3 min']
                   HAVING count(*) > 1""",
    "counted": """SELECT symbol, max(price) AS top, sum(volume) AS v
                  FROM trades [ROWS 3 SLIDE 2] GROUP BY symbol""",
    "inner": """SELECT c.sector, symbol, sum(weight * price) AS w FROM trades [RANGE '4 min']
                JOIN c ON trades.symbol = c.symbol WHERE c.sector <> 'x' GROUP BY c.sector, trades.symbol
                HAVING c.sector IS NOT NULL""",
    "left": """SELECT c.sector AS branch, count(*) AS n FROM trades [RANGE '4 min' SLIDE '1 min']
               LEFT JOIN c ON trades.symbol = c.symbol GROUP BY c.sector HAVING n < 5""",
    "own": "SELECT symbol, spread(price) AS s FROM trades [RANGE '5 min' SLIDE '1 min'] GROUP BY symbol",
    "in_order": "SELECT path(symbol, volume) AS p FROM trades [RANGE '6 min' SLIDE '2 min']",
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 1200),
            "symbol": st.sampled_from(["A", "B", "C", None]),
            "price": st.none() | st.integers(-40, 40).map(lambda n: n / 4),
            "volume": st.none() | st.integers(0, 9),
        }
    ),
    min_size=1,
    max_size=25,
)
TYPES = {"symbol": pa.string(), "price": pa.float64(), "volume": pa.int64()}


@pytest.fixture(scope="module", autouse=True)
def own_aggregates() -> Iterator[None]:
    before = dict(aggregates.USER_FUNCTIONS)
    weft.define_aggregate(
        "spread",
        lift=lambda x: (x, x),
        combine=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
        lower=lambda s: s[1] - s[0],
        identity=(float("inf"), float("-inf")),
        result="double",
        compiled=False,
    )
    weft.define_aggregate(
        "path",
        lift=lambda symbol, volume: f"{symbol}{volume}",
        combine=lambda a, b: a + b,
        lower=lambda s: s,
        identity="",
        result="string",
        commutative=False,
        arguments=2,
    )
    yield
    aggregates.USER_FUNCTIONS.clear()
    aggregates.USER_FUNCTIONS.update(before)


@pytest.mark.parametrize("name", QUERIES)
@given(given_rows=ROWS, seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_the_engine_answers_as_the_oracle(name: str, given_rows: list[dict[str, Any]], seed: int) -> None:
    tables = {"c": SECTORS}
    stream = rows(given_rows, types=TYPES)
    answers = oracle(QUERIES[name], stream, tables=tables)
    check_query(QUERIES[name], stream, answers, tables=tables, splits=2, seed=seed)


PAIRS = {
    "pairs": """SELECT a.symbol AS s, b.volume - a.volume AS more FROM a [RANGE '3 min'], b [RANGE '1 min']
                WHERE a.symbol = b.symbol AND a.price > 0""",
    "three": """SELECT a.volume AS x, c.volume AS y
                FROM a [RANGE '4 min'], b [RANGE '2 min'], c [RANGE '2 min']
                WHERE a.volume = b.volume AND b.price < c.price""",
    "windows": """SELECT a.symbol, count(*) AS n, max(b.price) AS top
                  FROM a [RANGE '3 min'], b [RANGE '2 min']
                  WHERE a.volume < b.volume GROUP BY a.symbol, window('5 min', '2 min')""",
}


@pytest.mark.parametrize("name", PAIRS)
@given(streams=st.fixed_dictionaries({name: ROWS.map(lambda rows: rows[:6]) for name in "abc"}))
@settings(max_examples=5, deadline=None)
def test_joins_answer_as_the_oracle(name: str, streams: dict[str, list[dict[str, Any]]]) -> None:
    tables = {stream: rows(given_rows, types=TYPES) for stream, given_rows in streams.items()}
    query = weft.sql(PAIRS[name])[0]
    read = {stream: tables[stream] for stream in query.streams}
    check_query(query, read, oracle(query, read), splits=2)


def test_windows_are_times() -> None:
    #  -00:02   00:01   00:03   00:06
    #     |-------x-------|              windows end at multiples of the slide
    #             x---------------|
    assert oracle("SELECT count(*) AS n FROM s [RANGE '5 min' SLIDE '3 min']", "ts\n00:01") == [
        {"window_start": at("-00:02"), "window_end": at("00:03"), "n": 1},
        {"window_start": at("00:01"), "window_end": at("00:06"), "n": 1},
    ]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_local_times_are_those_of_the_zone(zone: str) -> None:
    query = "SELECT max(hour(ts)) AS h, max(CAST(ts AS date)) AS d FROM s [RANGE '5 min']"
    for tz in (None, "UTC", "Europe/Berlin"):
        stream = pa.table({"ts": pa.array([dt.datetime(2024, 1, 1, 20)], pa.timestamp("ns", tz))})
        (answer,) = oracle(query, stream, zone=zone)
        late = zone == "Asia/Tokyo" and tz is not None
        assert (answer["h"], answer["d"]) == ((5, dt.date(2024, 1, 2)) if late else (20, dt.date(2024, 1, 1)))
        check_query(query, stream, [answer], zone=zone)


def test_what_it_does_not_know_is_refused() -> None:
    with pytest.raises(
        QueryError, match="approx_median is approximate, and the oracle has exact answers only"
    ):
        oracle("SELECT approx_median(x) AS m FROM s [RANGE '1 min']", [{"ts": 0, "x": 1.0}])
    with pytest.raises(JobError, match="no table 'c' is given"):
        oracle(QUERIES["inner"], rows([{"ts": 0, "symbol": "A", "price": 1.0, "volume": 1}]))
    with pytest.raises(AnswerOverflow, match="query 'q1', total: an answer does not fit 64 bits"):
        oracle("SELECT sum(x) AS total FROM s [RANGE '1 min']", [{"ts": n, "x": 2**62} for n in range(2)])
