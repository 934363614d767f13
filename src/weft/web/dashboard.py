"""The dashboard: its page and the files it is made of, and what it asks for beside the API of queries.

The page has no data of its own: it asks for everything, with the token where one is needed, so that its files
can be handed to anyone. Whatever can be long comes page by page.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from weft.io.json_values import plain, rows
from weft.model.instants import python_values
from weft.model.join import time_column
from weft.web.limits import MAX_NAME_CHARACTERS
from weft.web.models import CostsAnswer, GroupsAnswer, Overview, SeriesAnswer, Summary
from weft.web.overview import costs, overview, summary
from weft.web.run_service import RunService

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FILES = {
    file.name: file.read_bytes()
    for file in resources.files("weft.web").joinpath("static").iterdir()
    if file.name.rpartition(".")[2] in KINDS
}

Name = Annotated[str, Path(min_length=1, max_length=MAX_NAME_CHARACTERS, description="The query's name.")]
Where = Annotated[
    list[str],
    Query(
        max_length=20,
        description="`column=value`, for a column that the query groups by; `column` alone for null.",
    ),
]
Search = Annotated[str, Query(max_length=200, description="Text to look for, in any case.")]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="How many to leave out.")]
Limit = Annotated[int, Query(ge=1, le=200, description="How many to give.")]
Order = Literal[
    "name", "-name", "state", "-state", "window", "-window", "since", "-since",
    "results", "-results", "windows", "-windows",
]  # fmt: skip


def conditions(where: list[str]) -> dict[str, str | None]:
    """Return columns and the values asked for.

    >>> conditions(["symbol=A=B", "venue"])
    {'symbol': 'A=B', 'venue': None}
    """
    parted = (text.partition("=") for text in where)
    return {column: value if equals else None for column, equals, value in parted}


def add_dashboard(api: FastAPI, served: RunService, problems: dict[int | str, dict[str, Any]]) -> None:
    """Give the API the dashboard's page and routes."""

    @api.get("/", include_in_schema=False)
    def page() -> Response:
        return _file("index.html")

    @api.get("/static/{name}", include_in_schema=False)
    def file(name: str) -> Response:
        return _file(name)

    @api.get("/api/v1/overview", responses=problems)
    def show_overview() -> Overview:
        """The run at a glance: rows, latency, watermark, state."""
        return overview(served)

    @api.get("/api/v1/summary", responses=problems)
    def list_summaries(
        search: Search = "",
        state: Literal["", "running", "adding", "replacing", "dropping", "failed"] = "",
        order: Annotated[Order, Query(description="With a - before it, from the top.")] = "name",
        offset: Offset = 0,
        limit: Limit = 25,
    ) -> Summary:
        """Some of the queries, a line each: those whose name, window or columns have the text."""
        return summary(served, search, state, order, offset, limit)

    @api.get("/api/v1/queries/{name}/groups", responses=problems)
    def list_groups(
        name: Name,
        search: Search = "",
        order: Annotated[
            str, Query(max_length=200, description="A result column; with a - before it, from the top.")
        ] = "",
        offset: Offset = 0,
        limit: Limit = 25,
    ) -> GroupsAnswer:
        """Some of a query's groups among its latest results, each with its newest result."""
        query = served.query(name).query
        groups = served.groups(query)
        matching, table = groups.page(search, order, offset, limit)
        return GroupsAnswer(
            name=name,
            keys=list(query.result_keys),
            columns=list(query.result_columns),
            total=groups.newest.num_rows,
            matching=matching,
            groups=rows(table),
        )

    @api.get("/api/v1/queries/{name}/series", responses=problems)
    def read_series(
        name: Name,
        where: Where = [],  # noqa: B006
        limit: Annotated[int, Query(ge=1, le=1000)] = 300,
    ) -> SeriesAnswer:
        """The latest results of one group, oldest first, column by column: what a chart shows.

        From when it is first asked for, the server keeps a group's results apart, so that those of others
        do not push them out.
        """
        group = conditions(where)
        table = served.series(name, group)
        table = table.slice(max(0, table.num_rows - limit))
        data = {column: plain(python_values(table.column(column))) for column in table.column_names}
        ends = data.pop(time_column(table.column_names))
        return SeriesAnswer(
            name=name,
            group=group,
            window_start=data.pop("window_start", ends),
            window_end=ends,
            values={c: v for c, v in data.items() if c not in group},
        )

    @api.get("/api/v1/costs", responses=problems)
    def show_costs(offset: Offset = 0, limit: Limit = 25) -> CostsAnswer:
        """The estimated and the measured cost, tree by tree, and what is shared."""
        return costs(served, offset, limit)


def _file(name: str) -> Response:
    if name not in FILES:
        raise HTTPException(404, "there is no such file")
    kind = KINDS[name.rpartition(".")[2]]
    return Response(FILES[name], media_type=f"{kind}; charset=utf-8")
