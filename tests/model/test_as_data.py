"""Queries as data: what comes back is the query, and equal expressions have one text."""

from __future__ import annotations

import datetime
import json
import math

import pytest
from hypothesis import given, settings

import weft
from support import strategies
from weft.errors import QueryError
from weft.model.as_data import canonical, expr_from_data, expr_to_data, query_from_dict, query_to_dict
from weft.model.expression import Column, Literal
from weft.model.query import Query

ZONE = datetime.timezone(datetime.timedelta(hours=2))


@settings(deadline=None)
@given(strategies.query_sets())
def test_queries_come_back_from_json(queries: tuple[Query, ...]) -> None:
    for query in queries:
        back = query_from_dict(json.loads(json.dumps(query_to_dict(query))))
        assert back == query
        assert canonical(back.predicate) == canonical(query.predicate)


@pytest.mark.parametrize(
    "literal",
    [
        Literal(None, "null"),
        Literal(None, "bigint"),
        Literal(True, "boolean"),
        Literal(2**70, "bigint"),
        Literal(0.1 + 0.2, "double"),
        Literal(math.inf, "double"),
        Literal("a \"quoted\" 'text' \u00e9", "string"),
        Literal(datetime.datetime(2024, 2, 29, 1, 2, 3, 4), "timestamp"),
        Literal(datetime.datetime(2024, 2, 29, 1, tzinfo=ZONE), "timestamp"),
        Literal(datetime.date(2024, 2, 29), "date"),
    ],
)
def test_literals_come_back(literal: Literal) -> None:
    back = expr_from_data(json.loads(json.dumps(expr_to_data(literal))))
    assert back == literal
    assert canonical(back) == canonical(literal)


def test_equal_expressions_have_one_text() -> None:
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    for one, other in [
        (Literal(1, "double"), Literal(1.0, "double")),
        (Literal(0.0, "double"), Literal(-0.0, "double")),
        (Literal(moment, "timestamp"), Literal(moment.astimezone(ZONE), "timestamp")),
    ]:
        assert one == other
        assert canonical(one) == canonical(other)
    different = [None, Column("1"), Literal(1, "bigint"), Literal("1", "string"), Literal(True, "boolean")]
    assert len(set(map(canonical, different))) == len(different)


@pytest.mark.parametrize("change", [{"window": 3}, {"predicate": ["magic", "x"]}, {"aggregates": [{}]}])
def test_other_data_is_refused(change: dict[str, object]) -> None:
    data = query_to_dict(weft.sql("SELECT count(*) AS n FROM t [RANGE '1 s']")[0])
    with pytest.raises(QueryError, match="not a query as data"):
        query_from_dict({**data, **change})
