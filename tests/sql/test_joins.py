"""Joins in SQL and in the builder: what they read, and how they refuse."""

from __future__ import annotations

import pytest

import weft
from weft.errors import QueryError
from weft.model.expression import Column
from weft.model.join import JoinQuery
from weft.model.window import Window

MINUTE = 60_000_000


def read(text: str) -> JoinQuery:
    (found,) = weft.sql(text)
    assert isinstance(found, JoinQuery)
    return found


def test_selections_are_told_from_conditions() -> None:
    join = read("""
        SELECT t.location, t.value, h.value AS hv, t.value - h.value AS gap
        FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
        WHERE t.location = h.location AND t.value > 30 AND abs(t.value - h.value) < 2
            AND h.value IS NOT NULL""")
    assert [(s.stream, s.alias, s.range) for s in join.sides] == [
        ("temperature", "t", 60 * MINUTE),
        ("humidity", "h", 30 * MINUTE),
    ]
    assert list(map(str, join.selections)) == ["(value > 30)", "not(is_null(value))"]
    assert list(map(str, join.conditions)) == ["(t.location = h.location)", "(abs((t.value - h.value)) < 2)"]
    assert join.result_columns == ("ts", "location", "value", "hv", "gap")


@pytest.mark.parametrize(
    "source",
    [
        "a [RANGE '1 min'], b [RANGE '2 min'] WHERE a.x = b.x AND a.y > 1",
        "a [RANGE '1 min'] JOIN b [RANGE '2 min'] ON a.x = b.x WHERE a.y > 1",
        "a [RANGE '1 min'] INNER JOIN b [RANGE '2 min'] ON a.x = b.x AND a.y > 1",
        "a [RANGE 1 min] CROSS JOIN b [RANGE '120 s'] WHERE a.y > 1 AND a.x = b.x",
        "A [RANGE '1 min'], B [RANGE '2 min'] WHERE A.x = B.x AND A.y > 1",
    ],
)
def test_spellings_of_one_join(source: str) -> None:
    wanted = read("SELECT a.x FROM a [RANGE '1 min'], b [RANGE '2 min'] WHERE a.x = b.x AND a.y > 1")
    found = read(f"SELECT a.x FROM {source}")
    assert (found.selections, found.conditions, found.outputs) == (
        wanted.selections,
        wanted.conditions,
        wanted.outputs,
    )
    assert [s.range for s in found.sides] == [MINUTE, 2 * MINUTE]


def test_three_streams_and_a_stream_with_itself() -> None:
    three = read(
        "SELECT a.x FROM a [RANGE '1 s'], b [RANGE '2 s'], c [RANGE '3 s'] "
        "WHERE a.x = b.x AND b.y = c.y AND c.z"
    )
    assert (len(three.sides), len(three.conditions), str(three.selections[2])) == (3, 2, "z")
    twice = read("SELECT s.x FROM a s [RANGE '1 s'], a [RANGE '2 s'] t WHERE s.x = t.x")
    assert (twice.streams, [s.alias for s in twice.sides]) == (("a", "a"), ["s", "t"])


def test_aggregates_of_a_join_are_a_query_over_its_results() -> None:
    join = read("""
        -- name: counted
        SELECT t.location, count(*) AS n, max(t.value - h.value) AS gap, max(ts) AS last
        FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
        WHERE t.location = h.location AND t.value > 30
        GROUP BY t.location, window('10 min', '5 min') HAVING count(*) > 1""")
    assert join.aggregate is not None
    assert join.aggregate.window == Window(10 * MINUTE, 5 * MINUTE)
    assert join.aggregate.columns == {"location", "t.value", "h.value", "ts"}
    assert {(o.alias, o.expr) for o in join.outputs} == {
        ("location", Column("t.location")),
        ("t.value", Column("t.value")),
        ("h.value", Column("h.value")),
    }
    assert join.result_columns == ("location", "window_start", "window_end", "n", "gap", "last")
    assert join.renamed("x").aggregate.name == "x"


def test_two_grouped_columns_of_one_name_keep_their_alias() -> None:
    join = read("""SELECT t.x, h.x, t.y, count(*) AS n FROM t [RANGE '1 s'], h [RANGE '1 s'] WHERE t.z < h.z
                   GROUP BY t.x, h.x, t.y, window(ts, '1 min')""")
    assert join.result_columns == ("t.x", "h.x", "y", "window_start", "window_end", "n")
    numbered = read("""SELECT t.x, count(*) AS n FROM t [RANGE '1 s'], h [RANGE '1 s'] WHERE t.z < h.z
                       GROUP BY 1, window('1 min')""")
    assert numbered.result_columns == ("x", "window_start", "window_end", "n")


def test_joins_and_window_queries_in_one_text() -> None:
    found = weft.sql("""
        SELECT count(*) AS n FROM a [RANGE '1 min'];
        SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] WHERE a.x < b.x""")
    assert [type(q).__name__ for q in found] == ["Query", "JoinQuery"]


A, B = "a [RANGE '1 min']", "b [RANGE '1 min']"


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (f"SELECT x FROM {A}, {B}", (1, 8), "whose column is 'x'?; write a.x or b.x"),
        (f"SELECT a.x FROM {A}, {B} WHERE ts > 1", (1, 60), "whose column is 'ts'?"),
        (f"SELECT a.x FROM {A}, {B}, c", (1, 55), "nothing says which row of 'c' to join"),
        (f"SELECT a.x FROM c, {A}, {B}", (1, 17), "'c' has no window"),
        (f"SELECT a.x FROM {A}, b [RANGE '1 min' SLIDE '1 min']", (1, 53), "a join's window has no SLIDE"),
        (f"SELECT a.x FROM {A}, b [ROWS 5]", (1, 38), "is a RANGE of time"),
        (f"SELECT a.x FROM {A}, b [RANGE '0 min']", (1, 38), "must be positive"),
        (f"SELECT a.x FROM {A}, b [RANGE 'soon']", (1, 45), "range"),
        (f"SELECT a.x, b.x FROM {A}, {B}", (1, 13), "'x' has the name of another result column"),
        (f"SELECT a.x AS ts FROM {A}, {B}", (1, 8), "'ts' has the name of the time of every result"),
        (f"SELECT a.x, count(*) FROM {A}, {B}", (1, 13), "an aggregate over a join needs a window"),
        (f"SELECT a.x FROM {A} LEFT JOIN {B} ON a.x = b.x", (1, 35), "LEFT is not supported"),
        (f"SELECT a.x FROM {A}, {A}", (1, 36), "two streams are called 'a'"),
        (f"SELECT a.x FROM {A}, {B} WHERE c.x = 1", (1, 60), "unknown table 'c'"),
        (f"SELECT a.x FROM {A}, (SELECT 1) b [RANGE '1 s']", (1, 44), "takes the names of streams"),
        (f"SELECT * FROM {A}, {B}", (1, 8), "* is not supported"),
        (f"SELECT a.x FROM {A}, {B} ORDER BY a.x", (1, 54), "ORDER BY is not supported"),
        (f"SELECT count(*) FROM {A}, {B} GROUP BY a.x", (1, 1), "the query has no window"),
        (f"SELECT a.x FROM {A}, {B} [RANGE '2 s']", (1, 54), "a second window"),
        ("SELECT t.x FROM a t [RANGE '1 s'], [RANGE '1 s']", (1, 36), "a window without a stream"),
        ("SELECT t.x FROM a t [RANGE '1 s'] JOIN [RANGE '1 s']", (1, 40), "a window without a stream"),
        (
            f"SELECT a.x, count(*) AS n FROM {A}, {B} GROUP BY {'9' * 5000}, window('1 min')",
            (1, 78),
            "GROUP BY 99999999999999999999: there is no such column",
        ),
        (
            f"SELECT count(*) AS n FROM {A}, {B} GROUP BY {', '.join(['a.x'] * 5000)}, window('1 min')",
            (1, 573),
            "GROUP BY has 5,001 columns, and the most is 100",
        ),
    ],
)
def test_refusals_say_where(text: str, position: tuple[int, int], message: str) -> None:
    with pytest.raises(QueryError) as refused:
        weft.sql(text)
    assert message in str(refused.value)
    assert refused.value.position == position
    assert refused.value.hint


def test_the_builder_builds_what_sql_reads() -> None:
    text = """SELECT t.location, h.value AS hv
              FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
              WHERE t.location = h.location AND t.value > 30"""
    hot = weft.join("q1").stream("temperature", "60 min", alias="t").stream("humidity", "30 min", alias="h")
    hot = hot.where("t.location = h.location").where("t.value > 30")
    assert hot.select(location="t.location", hv="h.value").build() == read(text)
    counted = hot.group_by("t.location").window("10 min", "5 min").aggregate(n="count(*)").having("n > 1")
    grouped = text.replace("h.value AS hv", "count(*) AS n") + (
        " GROUP BY t.location, window('10 min', '5 min') HAVING count(*) > 1"
    )
    assert counted.build() == read(grouped)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda j: j.stream("a", "1 s"), "a join needs two streams"),
        (lambda j: j.stream("a", "1 s").stream("a", "1 s"), "two streams are called 'a'"),
        (lambda j: j.stream("a", "1 s").stream("b", "1 s"), "the join selects nothing"),
        (lambda j: j.stream("a", "1 s").stream("b", "1 s").select(x="x"), "whose column is 'x'?"),
        (lambda j: j.stream("a", "1 s").stream("b", "1 s").select(x="a.x").where("a.x ="), "where 'a.x ='"),
        (lambda j: j.stream("a", "1 s").stream("b", "1 s").select(n="count(*)"), "needs a window"),
        (
            lambda j: j.stream("a", "1 s").stream("b", "1 s").group_by("a.x").select(n="count(*)"),
            "without a window",
        ),
    ],
)
def test_the_builder_refuses(build, message) -> None:
    with pytest.raises(QueryError) as refused:
        build(weft.join("pairs")).build()
    assert message in str(refused.value)
    assert refused.value.query == "pairs"
