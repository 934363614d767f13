"""Queries as they are given, in SQL, as a builder or built, read as what they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from weft.errors import QueryError
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.sql import sql
from weft.sql.builder import QueryBuilder
from weft.sql.join_builder import JoinBuilder

QueryInput: TypeAlias = Query | QueryBuilder | JoinQuery | JoinBuilder


def built(query: QueryInput) -> Query | JoinQuery:
    """Return the query itself."""
    return query.build() if isinstance(query, QueryBuilder | JoinBuilder) else query


def read_any(query: QueryInput | str, name: str | None = None) -> Query | JoinQuery:
    """Return one query of any kind from SQL, a builder or as it is, under another name if one is given."""
    read = read_one(query) if isinstance(query, str) else built(query)
    return read if name is None else read.renamed(name)


def read_queries(queries: Iterable[QueryInput] | str) -> tuple[Query | JoinQuery, ...]:
    """Return all queries of a text, or those given, built.

    >>> [query.name for query in read_queries("SELECT count(*) AS n FROM s [RANGE '1 s']")]
    ['q1']
    """
    return tuple(sql(queries)) if isinstance(queries, str) else tuple(map(built, queries))


def read_one(text: str) -> Query | JoinQuery:
    """The one query of a text."""
    found = sql(text)
    if len(found) != 1:
        raise QueryError(f"this text has {len(found)} queries", hint="give one at a time")
    return found[0]


def read_join(query: Any, name: str | None = None) -> JoinQuery:
    """One join from SQL, a builder or as it is, under another name if one is given."""
    read = read_one(query) if isinstance(query, str) else query
    read = read.build() if isinstance(read, JoinBuilder) else read
    if not isinstance(read, JoinQuery):
        raise QueryError(
            "a stream of joins cannot answer window queries beside them",
            query=getattr(read, "name", None),
            hint="give it a weft.stream of its own, over one source",
        )
    return read if name is None else read.renamed(name)
