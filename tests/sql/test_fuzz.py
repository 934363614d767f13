"""Any text at all gives queries or a QueryError, never another exception."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

import weft

SEEDS = [
    "SELECT symbol, sum(price * volume) AS value FROM trades [RANGE '12 min' SLIDE '5 min']"
    " WHERE volume > 500 AND price BETWEEN 1 AND 2.5 GROUP BY symbol HAVING value > 1",
    "-- name: calm\nSELECT avg(x) FILTER (WHERE b IS NOT NULL) FROM t GROUP BY s, window(ts, '1 hour');",
    "SELECT window_start, count(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE,"
    " INTERVAL '12' MINUTE)) u WHERE u.s NOT IN ('a', 'b''c') GROUP BY window_start, window_end",
    "SELECT sum(CASE WHEN a LIKE 'x%' THEN -1 ELSE CAST(b AS bigint) END) / count(1) AS r FROM t [RANGE 90s]",
]
ODD = """
' " ` /* */ -- ; , . ( ) [ ] { } | || -> => :: : @ ? $ # ~ ^ & << 1e 0x 0xF x'1' r'a' N'a' 10L 1.5BD AS IS
NULL NOT ANY ALL SOME EXISTS OVER WITHIN IGNORE RESPECT NULLS INTERVAL DATE TIMESTAMP VALUES TABLE LATERAL
PIVOT FOR UNNEST ARRAY STRUCT PRIOR CONNECT MATCH_RECOGNIZE AT COLLATE ESCAPE BETWEEN SYMMETRIC CASE WHEN
THEN END DISTINCT FROM WHERE GROUP BY HAVING ORDER LIMIT UNION SELECT WITH RANGE SLIDE OFFSET ROWS HOP window
""".split()  # noqa: SIM905
ODD += ["\\", "\x00", "\ud800", "٣", "é", "\ufeff", "\r", "\n-- name: q1\n"]


def try_to_read(text: str) -> None:
    try:
        queries = weft.sql(text)
    except weft.QueryError as error:
        assert error.hint
        assert error.position or "no query" in error.message
        assert str(error)
    else:
        assert queries
        assert len({q.name for q in queries}) == len(queries)


@settings(deadline=None)
@given(st.text(max_size=80))
@example("SELECT")
@example("\ud800")
@example("/*/")
@example("-- name: \x00")
def test_any_text(text: str) -> None:
    try_to_read(text)


@settings(deadline=None)
@given(st.data())
def test_mutilated_queries(data: st.DataObject) -> None:
    words = data.draw(st.sampled_from(SEEDS)).replace("(", " ( ").replace(")", " ) ").split(" ")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words)))
        gone = data.draw(st.integers(0, 2))
        words[at : at + gone] = data.draw(st.lists(st.sampled_from(ODD + words), max_size=2))
    try_to_read(" ".join(words))


@settings(deadline=None)
@given(st.lists(st.sampled_from(ODD), max_size=12))
def test_expressions_of_odd_words(words: list[str]) -> None:
    try_to_read(f"SELECT sum({' '.join(words)}) FROM t [RANGE '1 s'] WHERE {' '.join(reversed(words))}")
