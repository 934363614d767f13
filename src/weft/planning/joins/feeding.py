"""Joins that are aggregated: what they feed to the queries over their results, and these queries.

The results of all of them are one stream. A row of it says in ``_join`` which join it is a result of; its
columns are called by what they are, whatever the queries call them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.model.as_data import canonical
from weft.model.expression import Call, Column, Expr, Literal, with_columns
from weft.model.join import JoinQuery
from weft.model.query import Output, Query
from weft.planning.joins.member import Member, member, merged

FEED = "_join"


def feeding(member: Member) -> Member:
    """A join that is aggregated, with its columns called by what they are; another as it is."""
    if not member.aggregates:
        return member
    names = {o.alias: _name(o.expr) for o in member.outputs}
    outputs = {name: Output(name, o.expr) for name, o in zip(names.values(), member.outputs)}
    return replace(
        member,
        outputs=tuple(outputs.values()),
        aggregates=tuple(_renamed(query, names) for query in member.aggregates),
    )


def fed(query: Query, feed: str) -> Query:
    """A query over the results of one join, as one over those of all."""
    own_rows: Expr = Call("=", (Column(FEED), Literal(feed, "string")))
    return replace(
        query, predicate=own_rows if query.predicate is None else Call("and", (own_rows, query.predicate))
    )


def result_queries(joins: Iterable[JoinQuery]) -> list[Query]:
    """Return the queries over the results of joins that are aggregated, as those over one stream.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM a [RANGE '1 min'], b [RANGE '{} min'] WHERE a.x = b.x GROUP BY"
    >>> joins = weft.sql(f"{text.format(1)} window('1 min'); {text.format(2)} window('5 min')")
    >>> [(query.name, str(query.predicate)) for query in result_queries(joins)]
    [('q1', "(_join = 'q1')"), ('q2', "(_join = 'q2')")]
    """
    members = merged(feeding(member(join)) for join in joins)
    return [fed(query, join.name) for join in members for query in join.aggregates]


def _name(expr: Expr) -> str:
    return expr.name if isinstance(expr, Column) else canonical(expr)


def _renamed(query: Query, names: Mapping[str, str]) -> Query:
    """A query over columns under other names; its results have the names they had."""
    return replace(
        query,
        aggregates=tuple(
            replace(a, args=tuple(with_columns(arg, names) for arg in a.args)) for a in query.aggregates
        ),
        group_by=tuple(names.get(key, key) for key in query.group_by),
        group_names=query.result_keys,
        predicate=None if query.predicate is None else with_columns(query.predicate, names),
    )
