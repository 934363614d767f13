"""Queries as plain data, for checkpoints and the network: what JSON can hold, and nothing that runs.

Aggregates are kept by name; a user's own must be defined again before the query is read.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from weft.errors import QueryError
from weft.model.expression import Call, Column, Expr, Literal
from weft.model.join import JoinQuery, Side
from weft.model.query import Aggregate, Lookup, Output, Query
from weft.model.window import Window

Q = TypeVar("Q", Query, JoinQuery)


def query_to_dict(query: Query) -> dict[str, Any]:
    """The query as plain data; positions in its text are left out.

    >>> counted = Query("q", "trades", Window(range=60, slide=30), (Aggregate("count_star", (), "n"),))
    >>> query_from_dict(query_to_dict(counted)) == counted
    True
    """
    window = query.window
    return {
        "name": query.name,
        "source": query.source,
        "window": {
            "range": window.range,
            "slide": window.slide,
            "offset": window.offset,
            "rows": window.rows,
        },
        "aggregates": [
            {"function": a.function, "args": [expr_to_data(x) for x in a.args], "alias": a.alias}
            for a in query.aggregates
        ],
        "group_by": list(query.group_by),
        "predicate": _optional(query.predicate),
        "outputs": [{"alias": o.alias, "expr": expr_to_data(o.expr)} for o in query.outputs],
        "having": _optional(query.having),
        "time": query.time,
        "joins": list(map(_lookup_to_data, query.lookups)),
        "group_names": list(query.group_names),
    }


def query_from_dict(data: Mapping[str, Any]) -> Query:
    """The query behind ``query_to_dict``; QueryError where the data is none."""
    try:
        return Query(
            name=data["name"],
            source=data["source"],
            window=Window(**data["window"]),
            aggregates=tuple(
                Aggregate(a["function"], tuple(map(expr_from_data, a["args"])), a["alias"])
                for a in data["aggregates"]
            ),
            group_by=tuple(data["group_by"]),
            predicate=None if data["predicate"] is None else expr_from_data(data["predicate"]),
            outputs=tuple(Output(o["alias"], expr_from_data(o["expr"])) for o in data["outputs"]),
            having=None if data["having"] is None else expr_from_data(data["having"]),
            time=data["time"],
            lookups=tuple(map(_lookup_from_data, data["joins"])),
            group_names=tuple(data["group_names"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise QueryError(f"this is not a query as data ({type(error).__name__}: {error})") from error


def join_to_dict(query: JoinQuery) -> dict[str, Any]:
    """The join as plain data.

    >>> sides = (Side("a", "a", 60), Side("b", "b", 30))
    >>> join = JoinQuery("j", sides, (None, None), (), (Output("x", Column("a.x")),))
    >>> join_from_dict(join_to_dict(join)) == join
    True
    """
    data = {
        "name": query.name,
        "sides": [[side.stream, side.alias, side.range] for side in query.sides],
        "selections": list(map(_optional, query.selections)),
        "conditions": list(map(expr_to_data, query.conditions)),
        "outputs": [{"alias": o.alias, "expr": expr_to_data(o.expr)} for o in query.outputs],
        "aggregate": None if query.aggregate is None else query_to_dict(query.aggregate),
    }
    if query.lookups:  # as data of joins without any always was
        data["lookups"] = [list(map(_lookup_to_data, lookups)) for lookups in query.lookups]
    return data


def join_from_dict(data: Mapping[str, Any]) -> JoinQuery:
    """The join behind ``join_to_dict``; QueryError where the data is none."""
    try:
        return JoinQuery(
            name=data["name"],
            sides=tuple(Side(stream, alias, span) for stream, alias, span in data["sides"]),
            selections=tuple(None if s is None else expr_from_data(s) for s in data["selections"]),
            conditions=tuple(map(expr_from_data, data["conditions"])),
            outputs=tuple(Output(o["alias"], expr_from_data(o["expr"])) for o in data["outputs"]),
            aggregate=None if data["aggregate"] is None else query_from_dict(data["aggregate"]),
            lookups=tuple(tuple(map(_lookup_from_data, lookups)) for lookups in data.get("lookups", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise QueryError(f"this is not a join as data ({type(error).__name__}: {error})") from error


def _lookup_to_data(lookup: Lookup) -> dict[str, Any]:
    return {
        "table": lookup.table,
        "keys": [[expr_to_data(key), column] for key, column in lookup.keys],
        "how": lookup.how,
        "alias": lookup.alias,
    }


def _lookup_from_data(data: Mapping[str, Any]) -> Lookup:
    keys = tuple((expr_from_data(key), column) for key, column in data["keys"])
    return Lookup(data["table"], keys, data["how"], data["alias"])


def expr_to_data(expr: Expr) -> Any:
    """An expression as nested lists: a column, a literal with its type, or a call.

    >>> expr_to_data(Call(">", (Column("price"), Literal(1.5, "double"))))
    ['call', '>', ['column', 'price'], ['literal', 'double', '1.5']]
    """
    if isinstance(expr, Column):
        return ["column", expr.name]
    if isinstance(expr, Literal):
        return ["literal", expr.type, _written(expr.value, expr.type)]
    return ["call", expr.function, *map(expr_to_data, expr.args)]


def expr_from_data(data: Any) -> Expr:
    """The expression behind ``expr_to_data``."""
    kind, name, *rest = data
    if kind == "column" and isinstance(name, str):
        return Column(name)
    if kind == "literal":
        return Literal(_read(rest[0], name), name)
    if kind == "call":
        return Call(name, tuple(map(expr_from_data, rest)))
    raise ValueError(f"{kind!r} is no kind of expression")


def in_utc(query: Q) -> Q:
    """The query with its timestamps that name no zone taken as UTC.

    >>> from weft.sql import sql
    >>> query = sql("SELECT count(*) AS n FROM t [RANGE '1 s'] WHERE ts > TIMESTAMP '2024-01-01'")[0]
    >>> print(in_utc(query).predicate)
    (ts > TIMESTAMP '2024-01-01 00:00:00+00:00')
    """
    if isinstance(query, Query):
        return query_from_dict(_literals_in_utc(query_to_dict(query)))
    return join_from_dict(_literals_in_utc(join_to_dict(query)))


def _literals_in_utc(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _literals_in_utc(value) for key, value in data.items()}
    if not isinstance(data, list):
        return data
    if data[:2] == ["literal", "timestamp"] and data[2] is not None:
        moment = _read(data[2], "timestamp")
        return [
            *data[:2],
            _written(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC), data[1]),
        ]
    return list(map(_literals_in_utc, data))


@lru_cache(maxsize=1 << 14)
def canonical(expr: Expr | None) -> str:
    """A text that equal expressions share, however they were written, and no others.

    >>> canonical(Literal(1, "double")) == canonical(Literal(1.0, "double"))
    True
    """
    text = json.dumps(_optional(expr))
    # Zeros are equal whatever their sign.
    return text.replace('["literal", "double", "-0.0"]', '["literal", "double", "0.0"]')


def _optional(expr: Expr | None) -> Any:
    return None if expr is None else expr_to_data(expr)


def _written(value: Any, dtype: str) -> Any:
    """A literal's value in JSON; floats as text, for infinity and NaN are no numbers there."""
    if value is None:
        return None
    if dtype == "double":
        return repr(float(value))
    if isinstance(value, datetime.datetime):
        return (value.astimezone(datetime.UTC) if value.tzinfo else value).isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    return int(value) if dtype == "bigint" else value


def _read(value: Any, dtype: str) -> Any:
    """The value behind ``_written``."""
    if value is None:
        return None
    readers: dict[str, Callable[[Any], Any]] = {
        "double": float,
        "timestamp": datetime.datetime.fromisoformat,
        "date": datetime.date.fromisoformat,
        "bigint": int,
        "boolean": bool,
        "string": str,
    }
    return readers[dtype](value)
