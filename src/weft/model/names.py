"""Names: what queries are called, and what their FROM may name. The one place that checks both."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from weft.errors import JobError, QueryError
from weft.model.expression import Position
from weft.model.join import JoinQuery
from weft.model.query import Query


def check_names(queries: Sequence[Query | JoinQuery], streams: Collection[str] | None = None) -> None:
    """Refuse queries of the same name, and those that read what is no stream.

    ``streams`` are those that are given by name; where one is given without a name (None), any name stands
    for it, but not that of another query.

    >>> import weft
    >>> check_names(weft.sql("SELECT count(*) AS n FROM quotes [RANGE '1 s']"), ["trades"])
    Traceback (most recent call last):
    weft.errors.QueryError: query 'q1': there is no stream 'quotes'; given are trades
    """
    names: set[str] = set()
    for query in queries:
        if query.name in names:
            raise QueryError("two queries have this name", query=query.name, hint="names must be unique")
        names.add(query.name)
    for query in queries:
        _check_sources(query, names, streams)


def check_added(
    query: Query | JoinQuery, others: Iterable[Query | JoinQuery], streams: Collection[str] | None = None
) -> None:
    """Refuse a query that cannot be answered beside others: it reads one of them, or one of them reads it."""
    others = [other for other in others if other.name != query.name]
    _check_sources(query, {other.name for other in others}, streams)
    for other in others:
        if query.name in other.streams:
            _check_sources(other, {query.name}, streams)


def _check_sources(query: Query | JoinQuery, names: Collection[str], streams: Collection[str] | None) -> None:
    for name, position in _sources(query):
        if streams is not None and name in streams:
            continue
        if name in names and name != query.name:
            raise QueryError(
                f"it reads '{name}', which is another query, and queries over the results of queries are "
                "not there yet",
                query=query.name,
                position=position,
                hint=f"read the stream itself, or give the query '{name}' another name",
            )
        if streams is not None:
            raise QueryError(
                f"there is no stream '{name}'",
                query=query.name,
                position=position,
                hint=_suggest_stream(name, streams),
            )


def _sources(query: Query | JoinQuery) -> Iterator[tuple[str, Position | None]]:
    """The names in FROM, and where they stand."""
    if isinstance(query, Query):
        yield query.source, None
    else:
        yield from ((side.stream, side.position) for side in query.sides)


def _suggest_stream(name: str, streams: Collection[str]) -> str:
    lowered = {stream.lower(): stream for stream in streams}
    close = difflib.get_close_matches(name.lower(), lowered, 1)
    listed = f"given are {', '.join(streams)}"
    return f"did you mean '{lowered[close[0]]}'? {listed}" if close else listed


def time_of(time: Mapping[str, str], stream: str) -> str:
    """Return the time column of a stream."""
    if stream not in time:
        raise JobError(f"there is no time column for the stream {stream!r}; add it to time={{...}}")
    return time[stream]
