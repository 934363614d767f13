"""What goes in and out over HTTP, as data."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from weft.duration import format_duration, format_length
from weft.errors import QueryError, WeftError
from weft.query import JoinQuery, Query
from weft.query_json import join_to_dict, query_to_dict
from weft.web.limits import NAME, SQL
from weft.web.served import Shown

Sql = Annotated[str, Field(min_length=1, max_length=SQL, description="One query in SQL.")]


class Replacement(BaseModel):
    """Another question under a name that is there."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"additionalProperties": False})
    sql: Sql


class NewQuery(Replacement):
    """A question, and its name unless the text has one or any will do."""

    name: Annotated[str | None, Field(min_length=1, max_length=NAME)] = None


class ChangeAnswer(BaseModel):
    """A change: accepted (``state`` joining, replacing or leaving), or done, with the version it made.

    Of a query that joined, windows that start at ``exact_from`` or later are answered (null: all), and
    ``history`` says whether rows from before it joined are in them.
    """

    name: str
    state: str
    version: Annotated[int, Field(description="In force; for a change that is done, the one it made.")]
    exact_from: datetime.datetime | None = None
    history: bool | None = None


class QueryAnswer(BaseModel):
    """A query and how it does."""

    name: str
    state: Annotated[str, Field(description="running, joining, replacing or leaving")]
    since: Annotated[datetime.datetime, Field(description="When it joined, or asked to.")]
    exact_from: datetime.datetime | None
    results: Annotated[int, Field(description="Delivered since the server was started, or it joined.")]
    window: Annotated[str, Field(description="In words.")]
    query: Annotated[dict[str, Any], Field(description="The query as data.")]


class ResultsAnswer(BaseModel):
    """The latest results of a query, the newest first."""

    name: str
    columns: list[str]
    rows: list[dict[str, Any]]
    more: Annotated[bool, Field(description="Whether the server has more of these than `limit`.")]


class HealthAnswer(BaseModel):
    """How the run does."""

    state: Annotated[str, Field(description="running, ended or failed")]
    error: Annotated[str | None, Field(description="What it failed with.")]
    engine: str
    weft: Annotated[str, Field(description="The version of weft.")]
    version: Annotated[int, Field(description="Of the queries in force.")]
    queries: int
    started: datetime.datetime
    steps: int
    last_step: Annotated[datetime.datetime | None, Field(description="When the latest step was done.")]


class Problem(BaseModel):
    """What was wrong, where, and what to do."""

    message: str
    query: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None

    @classmethod
    def of(cls, error: WeftError) -> Problem:
        """An error as data."""
        if not isinstance(error, QueryError):
            return cls(message=str(error))
        line, column = error.position or (None, None)
        return cls(message=error.message, query=error.query, line=line, column=column, hint=error.hint)


def query_answer(shown: Shown) -> QueryAnswer:
    """A query as data."""
    query = shown.query
    return QueryAnswer(
        name=shown.name,
        state=shown.state,
        since=shown.since,
        exact_from=shown.joined.exact_from if shown.joined else None,
        results=shown.results,
        window=_in_words(query),
        query=join_to_dict(query) if isinstance(query, JoinQuery) else query_to_dict(query),
    )


def _in_words(query: Query | JoinQuery) -> str:
    """A query's window; of a join, how long rows of each stream wait."""
    if isinstance(query, JoinQuery):
        ranges = ", ".join(f"{side.alias} {format_duration(side.range)}" for side in query.sides)
        return ranges if query.aggregate is None else f"{_in_words(query.aggregate)} of {ranges}"
    window = query.window
    range, slide = (format_length(length, window.rows) for length in (window.range, window.slide))
    return range if range == slide else f"{range} every {slide}"
