"""The HTTP API: one route per thing that can be asked, each a call of `RunService`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib import metadata
from typing import Annotated, Any, TypeAlias

from fastapi import Body, FastAPI, Query, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from weft.errors import JobError, NameTaken, QueryError, UnknownQuery, WeftError
from weft.io.json_values import plain, rows
from weft.web.dashboard import Name, Where, add_dashboard, conditions
from weft.web.guard import FULL_ACCESS_KEY
from weft.web.limits import MAX_RESULT_ROWS, MAX_WAIT_SECONDS
from weft.web.metrics import CONTENT_TYPE, metrics
from weft.web.models import (
    ChangeAnswer,
    ErrorBody,
    HealthAnswer,
    NewQuery,
    QueryAnswer,
    Replacement,
    ResultsAnswer,
    query_answer,
)
from weft.web.page import page
from weft.web.run_service import ChangeRequest, RunService, TooMuch

STATUS: dict[type[WeftError], int] = {
    UnknownQuery: 404,
    NameTaken: 409,
    TooMuch: 429,
    JobError: 409,
    QueryError: 422,
}
"""The status of each kind of error; the first that fits."""

Responses: TypeAlias = dict[int | str, dict[str, Any]]

PROBLEMS: Responses = {
    status: {"model": ErrorBody, "description": words}
    for status, words in {
        400: "The request cannot be read.",
        401: "The token is missing or wrong.",
        403: "Asked for by a page of another site.",
        404: "There is no such query.",
        409: "The name is taken, the run has ended, or the results would not fit those so far.",
        413: "The body is too long.",
        415: "The body is not JSON.",
        421: "Asked for under another host's name.",
        422: "The query or a parameter is wrong.",
        429: "There are too many queries or changes.",
    }.items()
}
READ_RESPONSES: Responses = {status: PROBLEMS[status] for status in (400, 401, 404, 421, 422)}

Wait = Annotated[
    float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a batch to take the change.")
]


def make_api(served: RunService) -> FastAPI:
    """Make the API over a run, as an ASGI application; a `RequestGuard` belongs before it."""
    api = FastAPI(
        title="weft",
        version=metadata.version("weft"),
        description="Continuous queries over one stream: change them while it runs, read their results.",
        docs_url=None,
        redoc_url=None,
        # Nothing about requests leaves this process, whatever the environment says.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
    )
    _queries(api, served)
    _reads(api, served)
    add_dashboard(api, served, READ_RESPONSES)
    _errors(api)

    @api.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return HTMLResponse(page(api.openapi()))

    return api


def _queries(api: FastAPI, served: RunService) -> None:
    """Add the routes that list, add, replace and drop queries, and read their results."""
    done: Responses = {202: {"model": ChangeAnswer, "description": "Accepted: the next batch takes it."}}

    @api.get("/api/v1/queries", responses=READ_RESPONSES)
    def list_queries() -> list[QueryAnswer]:
        """The queries that are answered, and those that the next batch adds."""
        return [query_answer(shown, served.text(shown.name)) for shown in served.queries()]

    @api.post("/api/v1/queries", status_code=201, response_model=ChangeAnswer, responses={**done, **PROBLEMS})
    async def add_query(query: Annotated[NewQuery, Body()], wait: Wait = 0.0) -> Response:
        """Add a query with the next batch."""
        return await _change(await run_in_threadpool(served.add, query.sql, query.name), wait, 201)

    @api.get("/api/v1/queries/{name}", responses=READ_RESPONSES)
    def show_query(name: Name) -> QueryAnswer:
        """One query."""
        return query_answer(served.query(name), served.text(name))

    @api.put("/api/v1/queries/{name}", response_model=ChangeAnswer, responses={**done, **PROBLEMS})
    async def replace_query(name: Name, query: Annotated[Replacement, Body()], wait: Wait = 0.0) -> Response:
        """Replace the query of this name by another."""
        return await _change(await run_in_threadpool(served.replace, name, query.sql), wait, 200)

    @api.delete("/api/v1/queries/{name}", response_model=ChangeAnswer, responses={**done, **PROBLEMS})
    async def drop_query(name: Name, wait: Wait = 0.0) -> Response:
        """Drop a query; its open windows are not answered."""
        return await _change(await run_in_threadpool(served.drop, name), wait, 200)

    @api.get("/api/v1/queries/{name}/results", responses=READ_RESPONSES)
    def read_results(
        name: Name,
        limit: Annotated[int, Query(ge=1, le=MAX_RESULT_ROWS)] = 100,
        where: Where = [],  # noqa: B006
    ) -> ResultsAnswer:
        """A query's latest results, the newest first."""
        table = served.results(name, conditions(where))
        newest = table.slice(max(0, table.num_rows - limit))
        return ResultsAnswer(
            name=name,
            columns=table.column_names,
            rows=rows(newest)[::-1],
            more=table.num_rows > limit,
        )


def _reads(api: FastAPI, served: RunService) -> None:
    """Add the routes of the plan in force, progress, health and metrics."""

    @api.get("/api/v1/plan", responses=READ_RESPONSES)
    def show_plan() -> dict[str, Any]:
        """The plan in force: what is shared, how it is answered, what it should cost."""
        return {"version": served.running.program.version, **plain(served.running.plan.to_dict())}

    @api.get("/api/v1/plan.txt", response_class=PlainTextResponse, responses=READ_RESPONSES)
    def plan_text() -> str:
        """The plan in force, in words."""
        return str(served.running.plan)

    @api.get(
        "/api/v1/plan.svg",
        response_class=Response,
        responses={200: {"content": {"image/svg+xml": {}}}, **READ_RESPONSES},
    )
    def plan_picture(
        tree: Annotated[int | None, Query(ge=0, description="This tree alone.")] = None,
        chains: Annotated[bool, Query(description="The chains of joins alone.")] = False,
    ) -> Response:
        """The plan in force, as a picture."""
        plan = served.running.plan
        if tree is not None and tree >= len(plan.trees):
            raise HTTPException(404, f"there is no tree {tree}")
        shown = replace(plan, trees=(), parts=()) if chains else plan
        return Response(shown.to_svg(None if chains else tree), media_type="image/svg+xml")

    @api.get("/api/v1/progress", responses=READ_RESPONSES)
    def show_progress(
        limit: Annotated[int, Query(ge=1, le=1000)] = 20,
        after: Annotated[int, Query(description="Only steps with a higher number.")] = -1,
    ) -> list[dict[str, Any]]:
        """The progress of the latest steps, oldest first."""
        return [plain(step) for step in served.record.steps(limit, after)]

    failed: Responses = {503: {"model": HealthAnswer, "description": "The run has failed."}}

    @api.get("/health", response_model=HealthAnswer, responses=failed, include_in_schema=False)
    @api.get("/api/v1/health", response_model=HealthAnswer, responses=failed)
    def health(request: Request) -> Response:
        """The state of the run; 503 once it has failed. The error itself is for those who may read more."""
        state, error = served.state, served.running.exception
        steps = served.record.steps(1)
        answer = HealthAnswer(
            state=state,
            error=None
            if error is None
            else str(error)
            if request.scope.get(FULL_ACCESS_KEY)
            else type(error).__name__,
            engine=served.engine,
            weft=metadata.version("weft"),
            version=served.running.program.version,
            queries=len(served.running.queries()),
            started=served.started,
            steps=sum(served.record.kinds.values()),
            last_step=steps[0]["done"] if steps else None,
        )
        return JSONResponse(jsonable_encoder(answer), 503 if state == "failed" else 200)

    @api.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def read_metrics() -> Response:
        """Everything that is counted, in the text form that Prometheus reads."""
        return Response(metrics(served), media_type=CONTENT_TYPE)


async def _change(request: ChangeRequest, wait: float, status: int) -> Response:
    """Return a change as the client sees it: done, or accepted where no batch took it in time."""
    # Not wait_for: that would cancel the change.
    await asyncio.wait({asyncio.wrap_future(request.future)}, timeout=wait)
    if not request.future.done():
        accepted = ChangeAnswer(name=request.name, state=request.state, version=request.version)
        return JSONResponse(jsonable_encoder(accepted), 202)
    change = request.future.result()
    dropped = request.state == "dropping"
    answer = ChangeAnswer(
        name=change.name,
        state="dropped" if dropped else "running",
        version=change.version,
        exact_from=change.exact_from,
        history=None if dropped else change.history,
    )
    return JSONResponse(jsonable_encoder(answer), status)


def _errors(api: FastAPI) -> None:
    """Answer every error with an `ErrorBody`."""

    @api.exception_handler(WeftError)
    def refused(request: Request, error: WeftError) -> JSONResponse:
        status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 422)
        return _problem(status, ErrorBody.of(error))

    @api.exception_handler(RequestValidationError)
    def wrong(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return _problem(422, ErrorBody(message=f"{where}: {first['msg']}", hint="see /docs"))

    @api.exception_handler(HTTPException)
    def no_such_thing(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(
            error.status_code, ErrorBody(message=str(error.detail), hint="see /docs"), error.headers
        )


def _problem(status: int, problem: ErrorBody, headers: Any = None) -> JSONResponse:
    # Text from the client may hold half of a surrogate pair, which UTF-8 has no bytes for.
    text = problem.model_dump(exclude_none=True)
    safe = {k: v.encode(errors="replace").decode() if isinstance(v, str) else v for k, v in text.items()}
    return JSONResponse(safe, status, headers)
