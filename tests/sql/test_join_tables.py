"""Lookup tables in joins of streams, in SQL and in the builder: what they read, and how they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from support.sql_errors import caught
from weft.errors import QueryError
from weft.model.as_data import join_from_dict, join_to_dict
from weft.model.expression import Call, Column, Literal
from weft.model.join import JoinQuery
from weft.model.query import Lookup
from weft.planning.joins.member import member
from weft.planning.joins.plan import plan_joins

A, B = "a [RANGE '1 min']", "b [RANGE '1 min']"
ID = Column("id")


def read(text: str) -> JoinQuery:
    (query,) = weft.sql(text)
    assert isinstance(query, JoinQuery)
    return query


@pytest.mark.parametrize(
    ("source", "lookups"),
    [
        (f"{A}, {B} JOIN names n ON n.id = a.id", [[Lookup("names", ((ID, "id"),), alias="n")], []]),
        (f"{A}, {B} JOIN names ON (B.id = names.id)", [[], [Lookup("names", ((ID, "id"),))]]),
        (f"{A} LEFT JOIN names USING (id), {B}", [[Lookup("names", ((ID, "id"),), "left")], []]),
        (f"{A}, {B} INNER JOIN names USING (id)", [[], [Lookup("names", ((ID, "id"),))]]),
        (
            f"{A} JOIN names n ON n.id = a.x + 1 AND n.kind = 'p' JOIN {B} ON a.k = b.k",
            [
                [
                    Lookup(
                        "names",
                        (
                            (Call("+", (Column("x"), Literal(1, "bigint"))), "id"),
                            (Literal("p", "string"), "kind"),
                        ),
                        alias="n",
                    )
                ],
                [],
            ],
        ),
        (
            f"{A}, {B} JOIN db.names ON db.names.id = b.id LEFT JOIN more m ON m.z = names.z AND m.id = b.id",
            [
                [],
                [
                    Lookup("db.names", ((ID, "id"),)),
                    Lookup("more", ((Column("db.names[id].z"), "z"), (ID, "id")), "left", "m"),
                ],
            ],
        ),
        (
            f"{A}, {B}, names n, names m WHERE n.id = a.id AND b.id = m.id AND a.k = b.k",
            [[Lookup("names", ((ID, "id"),), alias="n")], [Lookup("names", ((ID, "id"),), alias="m")]],
        ),
    ],
)
def test_lookups_are_of_the_stream_that_they_are_looked_up_by(
    source: str, lookups: list[list[Lookup]]
) -> None:
    query = read(f"SELECT a.x FROM {source}")
    assert query.lookups == tuple(map(tuple, lookups))
    assert query.tables == tuple(dict.fromkeys(k.table for side in lookups for k in side))


def test_columns_of_a_table_are_columns_of_its_side() -> None:
    query = read(
        f"SELECT n.title, N.w + b.x AS s FROM {A}, {B} LEFT JOIN names n ON n.id = a.id "
        "WHERE n.title = b.title AND n.w > a.x AND n.w > 3 AND a.y > 0"
    )
    assert list(map(str, query.conditions)) == ["(a.names[id].title = b.title)"]
    assert str(query.selections[0]) == "(((names[id].w > 3) AND (names[id].w > x)) AND (y > 0))"
    assert [str(o.expr) for o in query.outputs] == ["a.names[id].title", "(a.names[id].w + b.x)"]
    assert query.result_columns == ("ts", "title", "s")


def test_rows_that_meet_nothing_are_left_out_by_a_selection() -> None:
    inner = read(f"SELECT a.x FROM {A}, {B} JOIN names n ON n.id = a.id WHERE a.y > 1")
    assert list(map(str, inner.selections)) == ["((y > 1) AND not(is_null(names[id].id)))", "None"]


def test_whatever_the_alias_it_is_one_question() -> None:
    one, other = (
        read(f"SELECT {n}.title FROM {A}, {B} LEFT JOIN names {n} ON {n}.id = a.id WHERE {n}.title = b.k")
        for n in ("n", "other")
    )
    assert (one.conditions, one.outputs) == (other.conditions, other.outputs)
    assert member(one).key == member(other).key


def test_aggregates_group_by_columns_of_tables() -> None:
    query = read(
        f"SELECT n.title, b.title, n.kind, max(n.w) AS top, max(w.x) FROM {A}, {B} "
        "JOIN names n ON n.id = a.id LEFT JOIN more w ON w.z = n.z "
        "GROUP BY n.title, b.title, n.kind, window('1 min') HAVING max(n.w) > 1"
    )
    assert query.result_columns == (
        "n.title",
        "b.title",
        "kind",
        "window_start",
        "window_end",
        "top",
        "max_x",
    )
    assert {o.alias: str(o.expr) for o in query.outputs} == {
        "n.title": "a.names[id].title",
        "b.title": "b.title",
        "kind": "a.names[id].kind",
        "n.w": "a.names[id].w",
        "w.x": "a.more[names[id].z = z].x",
    }
    assert query.renamed("other").lookups == query.lookups


def test_as_data_and_as_data_was() -> None:
    query = read(f"SELECT n.title FROM {A}, {B} LEFT JOIN names n ON n.id = a.id WHERE a.k = b.k")
    assert join_from_dict(join_to_dict(query)) == query
    plain = read(f"SELECT a.x FROM {A}, {B} WHERE a.k = b.k")
    assert "lookups" not in join_to_dict(plain), "as it was before there were any"
    assert join_from_dict(join_to_dict(plain)) == plain


def test_plans_need_no_tables() -> None:
    text = f"SELECT n.title FROM {A}, {B} LEFT JOIN names n ON n.id = a.id WHERE n.title = b.k"
    (plan,) = plan_joins([read(text)], rate=10.0)
    assert "(a.names[id].title = b.k)" in str(plan)


def test_the_builder_says_the_same() -> None:
    begun = weft.join("q1").stream("a", "1 min").stream("b", "1 min").where("a.k = b.k")
    built = begun.join("names", {"a.id": "id"}, how="left", alias="n").join("more", on=["b.z", "b.k"])
    assert built.where("n.w > 1").select(title="n.title").build() == read(
        f"SELECT n.title FROM {A}, {B} LEFT JOIN names n ON n.id = a.id "
        "JOIN more ON b.z = more.z AND b.k = more.k WHERE a.k = b.k AND n.w > 1"
    )
    counted = built.group_by("n.title").window("5 min").aggregate(c="count(*)", top="max(more.w)").build()
    assert counted == read(
        f"SELECT n.title, count(*) AS c, max(more.w) AS top FROM {A}, {B} LEFT JOIN names n ON n.id = a.id "
        "JOIN more ON b.z = more.z AND b.k = more.k WHERE a.k = b.k GROUP BY n.title, window('5 min')"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "a.id", "how": "right"}, "how must be 'inner' or 'left'"),
        ({"on": []}, "nothing says which row of 'names'"),
        ({"on": "id"}, "whose column is 'id'?; write a.id or b.id"),
        ({"on": {"c.id": "id"}}, "unknown table 'c'"),
        (
            {"on": {"a.id": "id", "b.k": "k"}},
            "'names' is looked up by columns of several streams, 'a' and 'b'",
        ),
        ({"on": {"3": "id"}}, "nothing says beside which stream 'names' is looked up"),
        ({"on": "a.id", "alias": "b"}, "two tables are called 'b'"),
    ],
)
def test_the_builder_refuses(options: dict[str, Any], message: str) -> None:
    begun = weft.join("q1").stream("a", "1 min").stream("b", "1 min").select(x="a.x")
    with pytest.raises(QueryError) as refused:
        begun.join("names", **options).build()
    assert message in str(refused.value)
    assert refused.value.query == "q1"


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        (
            f"{A}, {B} JOIN names n ON n.id = a.id AND n.k = ^b.k",
            "'n' is looked up by columns of several streams",
        ),
        (f"{A}, {B} JOIN names n ON n.id = a.id + ^b.id", "columns of several streams, 'a' and 'b'"),
        (f"{A}, {B} JOIN names n ON n.id = ^id", "whose column is 'id'?"),
        (f"{A} JOIN {B} ON a.k = b.k JOIN names n USING (^id)", "whose column is 'id'?"),
        (f"{A}, {B} JOIN ^names n ON n.id = 3", "nothing says beside which stream 'n' is looked up"),
        (f"{A}, {B} JOIN ^names n", "a JOIN without ON"),
        (f"{A}, {B}, ^names n WHERE n.id > a.id", "nothing says which row of 'names' to join"),
        (f"{A}, {B} RIGHT JOIN ^names n ON n.id = a.id", "RIGHT JOIN is not supported"),
        (f"{A}, {B} JOIN names n ON ^n.id > a.id", "ON takes equalities"),
        (f"{A}, {B} JOIN ^names a ON a.id = b.id", "two tables are called 'a'"),
        (f"{A}, {B} JOIN (SELECT ^1) n ON n.id = b.id", "JOIN takes the name of a table"),
        (f"{A}, {B} JOIN names n ON n.id = a.id WHERE ^m.x = 1", "unknown table 'm'"),
        (f"{A}, {B} JOIN names n ON n.id = a.id WHERE ^x = 1", "whose column is 'x'?"),
        (f"{A}, {B} JOIN names n ON n.id = m.id JOIN more m ON m.id = a.id", "^"),
    ],
)
def test_refusals_say_where(marked: str, message: str) -> None:
    if message == "^":  # a table that comes later is not known yet
        with pytest.raises(QueryError, match="ON takes equalities"):
            weft.sql(f"SELECT a.x FROM {marked}")
        return
    assert message in caught(f"SELECT a.x FROM {marked}").message


def test_hints_name_the_tables() -> None:
    refused = caught(f"SELECT ^m.x FROM {A}, {B} JOIN names n ON n.id = a.id")
    assert refused.hint == "the streams and tables here are a, b, n"
    refused = caught(f"SELECT ^x FROM {A}, {B} JOIN names n ON n.id = a.id")
    assert refused.hint == "write a.x or b.x or n.x"
