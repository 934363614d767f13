"""Bodies of requests and answers over HTTP, as data."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from weft.errors import QueryError, WeftError
from weft.model.as_data import join_to_dict, query_to_dict
from weft.model.duration import format_duration, format_length
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.web.limits import MAX_NAME_CHARACTERS, MAX_SQL_CHARACTERS
from weft.web.run_service import Shown

Sql = Annotated[str, Field(min_length=1, max_length=MAX_SQL_CHARACTERS, description="One query in SQL.")]


class Replacement(BaseModel):
    """Another question under a name that is there."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"additionalProperties": False})
    sql: Sql


class NewQuery(Replacement):
    """A question, and its name unless the text has one or any will do."""

    name: Annotated[str | None, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)] = None


class ChangeAnswer(BaseModel):
    """A change: accepted (``state`` adding, replacing or dropping), or done, with the version it made.

    Of a query that was added, windows that start at ``exact_from`` or later are answered (null: all), and
    ``history`` says whether rows from before it was added are in them.
    """

    name: str
    state: str
    version: Annotated[int, Field(description="In force; for a change that is done, the one it made.")]
    exact_from: datetime.datetime | None = None
    history: bool | None = None


class QueryAnswer(BaseModel):
    """A query and its state."""

    name: str
    state: Annotated[str, Field(description="running, adding, replacing, dropping or failed")]
    error: Annotated[str | None, Field(description="Why it failed; the others have gone on.")] = None
    since: Annotated[datetime.datetime, Field(description="When it was added, or asked for.")]
    exact_from: datetime.datetime | None
    results: Annotated[int, Field(description="Delivered since the server was started, or it was added.")]
    window: Annotated[str, Field(description="In words.")]
    sql: Annotated[
        str | None, Field(description="As it was asked for; null where only a checkpoint knows it.")
    ] = None
    query: Annotated[dict[str, Any], Field(description="The query as data.")]


class QuerySummary(BaseModel):
    """A query in a line."""

    name: str
    state: Annotated[str, Field(description="running, adding, replacing, dropping or failed")]
    error: Annotated[str | None, Field(description="Why it failed.")] = None
    since: datetime.datetime
    exact_from: datetime.datetime | None
    window: Annotated[str, Field(description="In words.")]
    group_by: list[str]
    values: Annotated[list[str], Field(description="The columns that it computes.")]
    results: int
    windows: Annotated[int, Field(description="Windows answered.")]
    groups: Annotated[int | None, Field(description="Among the latest results; null without GROUP BY.")]
    latest: Annotated[dict[str, Any] | None, Field(description="Its newest result.")]


class Summary(BaseModel):
    """Some of the queries."""

    total: Annotated[int, Field(description="All queries.")]
    matching: Annotated[int, Field(description="Those that the search finds.")]
    queries: list[QuerySummary]


class GroupsAnswer(BaseModel):
    """Some of a query's groups, each with its newest result."""

    name: str
    keys: list[str]
    columns: list[str]
    total: int
    matching: int
    groups: list[dict[str, Any]]


class SeriesAnswer(BaseModel):
    """The latest results of one group, oldest first, column by column."""

    name: str
    group: dict[str, str | None]
    window_start: list[str]
    window_end: list[str]
    values: dict[str, list[Any]]


class Latency(BaseModel):
    """Seconds that a share of the latest steps did not exceed."""

    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, quantiles: dict[float, float]) -> Latency | None:
        """From shares and seconds; None before the first step."""
        return cls(**{f"p{round(100 * q)}": s for q, s in quantiles.items()}) if quantiles else None


class Overview(BaseModel):
    """The run at a glance."""

    state: Annotated[str, Field(description="running, ended or failed")]
    error: str | None
    engine: str
    weft: str
    version: Annotated[int, Field(description="Of the queries in force.")]
    started: datetime.datetime
    now: Annotated[datetime.datetime, Field(description="The server's clock.")]
    queries: Annotated[dict[str, int], Field(description="By state.")]
    totals: Annotated[dict[str, int], Field(description="Since the start of the server.")]
    steps: Annotated[dict[str, int], Field(description="By kind.")]
    rate: Annotated[float | None, Field(description="Rows per second of the clock, over the last steps.")]
    latency: Latency | None
    watermark: Annotated[
        datetime.datetime | str | None, Field(description="As text in years that are not from 1 to 9999.")
    ]
    watermark_lag: Annotated[float | None, Field(description="Seconds behind the clock.")]
    state_rows: int
    state_bytes: int
    last_seq: Annotated[int, Field(description="The number of the latest step; -1 before the first.")]


class WorkPart(BaseModel):
    """A part of the work: estimated in the plan's unit, measured in seconds, each with its share of all."""

    estimated: float
    estimated_share: float
    measured: float
    measured_share: float

    @classmethod
    def of(cls, estimated: float, all_estimated: float, measured: float, all_measured: float) -> WorkPart:
        """A part of a whole."""
        return cls(
            estimated=estimated,
            estimated_share=estimated / all_estimated if all_estimated else 0.0,
            measured=measured,
            measured_share=measured / all_measured if all_measured else 0.0,
        )


class TreeAnswer(BaseModel):
    """Queries that share slices, and what answering them costs."""

    tree: int
    stream: Annotated[str, Field(description="Whose rows they are, where streams have names.")]
    node: int
    technique: str
    queries: int
    names: Annotated[list[str], Field(description="Of the first few.")]
    windows: Annotated[int, Field(description="Different windows.")]
    edges: Annotated[float, Field(description="Edges per second, shared.")]
    edges_alone: Annotated[float, Field(description="Edges per second, each query for itself.")]
    cost: WorkPart


class GroupingAnswer(BaseModel):
    """The partial aggregates that are kept for one group-by."""

    keys: list[str]
    axis: Annotated[str, Field(description="time, or rows for windows counted in rows")]
    queries: int
    predicates: int
    aggregates: Annotated[int, Field(description="That the queries ask for.")]
    parts: Annotated[int, Field(description="Partial aggregates that are kept for them.")]
    names: Annotated[list[str], Field(description="Of the first few parts.")]


class ChainsAnswer(BaseModel):
    """Chains of joins, and the cost that the plan estimates for them."""

    chains: int
    joins: int
    unit: str
    cost: float
    alone: Annotated[float, Field(description="Of the joins one by one.")]


class CostsAnswer(BaseModel):
    """The cost that the plan estimates, and what was measured since the queries are in force."""

    version: int
    strategy: str
    unit: str
    rate: Annotated[float, Field(description="Rows per second that the plan is made for.")]
    cost: float
    alone: Annotated[float, Field(description="Of the queries one by one.")]
    rows: Annotated[int, Field(description="Taken in since then.")]
    seconds: Annotated[float, Field(description="That steps took since then.")]
    partial: Annotated[WorkPart, Field(description="Rows to partials, for all trees together.")]
    total: Annotated[int, Field(description="All trees.")]
    trees: list[TreeAnswer]
    groupings: list[GroupingAnswer]
    joins: Annotated[ChainsAnswer | None, Field(description="Of the joins, where there are some.")]


class ResultsAnswer(BaseModel):
    """The latest results of a query, the newest first."""

    name: str
    columns: list[str]
    rows: list[dict[str, Any]]
    more: Annotated[bool, Field(description="Whether the server has more of these than `limit`.")]


class HealthAnswer(BaseModel):
    """The state of the run."""

    state: Annotated[str, Field(description="running, ended or failed")]
    error: Annotated[
        str | None, Field(description="What it failed with; without the token, only the kind of error.")
    ]
    engine: str
    weft: Annotated[str, Field(description="The version of weft.")]
    version: Annotated[int, Field(description="Of the queries in force.")]
    queries: int
    started: datetime.datetime
    steps: int
    last_step: Annotated[datetime.datetime | None, Field(description="When the latest step was done.")]


class ErrorBody(BaseModel):
    """An error: what was wrong, where, and what to do."""

    message: str
    query: str | None = None
    line: int | None = None
    column: int | None = None
    hint: str | None = None

    @classmethod
    def of(cls, error: WeftError) -> ErrorBody:
        """Return an error as data."""
        if not isinstance(error, QueryError):
            return cls(message=str(error))
        line, column = error.position or (None, None)
        return cls(message=error.message, query=error.query, line=line, column=column, hint=error.hint)


def window_words(query: Query | JoinQuery) -> str:
    """Return a query's window in words; of a join, how long rows of each stream wait.

    >>> import weft
    >>> window_words(weft.sql("SELECT count(*) AS n FROM t [RANGE '12 min' SLIDE '5 min']")[0])
    '12 min every 5 min'
    """
    if isinstance(query, JoinQuery):
        ranges = ", ".join(f"{side.alias} {format_duration(side.range)}" for side in query.sides)
        return ranges if query.aggregate is None else f"{window_words(query.aggregate)} of {ranges}"
    window = query.window
    size, slide = (format_length(length, window.rows) for length in (window.range, window.slide))
    return size if size == slide else f"{size} every {slide}"


def query_answer(shown: Shown, sql: str | None) -> QueryAnswer:
    """Return a query as data."""
    query = shown.query
    return QueryAnswer(
        name=shown.name,
        state=shown.state,
        error=shown.error,
        since=shown.since,
        exact_from=shown.change.exact_from if shown.change else None,
        results=shown.results,
        window=window_words(query),
        sql=sql,
        query=join_to_dict(query) if isinstance(query, JoinQuery) else query_to_dict(query),
    )
