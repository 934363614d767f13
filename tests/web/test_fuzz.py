"""Requests made up from the API's description: no error of the server, no answer that it does not tell of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.web_world import NEW, World
from weft.web.api import make_api
from weft.web.guard import RequestGuard
from weft.web.run_service import RunService

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
WORDS = [
    "SELECT", "count(*)", "sum(volume)", "max(price)", "AS", "n", ",", "FROM", "trades", "[RANGE '10 s']",
    "[RANGE '7 s' SLIDE '3 s']", "[ROWS 5]", "WHERE", "price", ">", "1", "symbol", "=", "'A'", "GROUP BY",
    "window(ts, '5 s')", "HAVING", "AND", "NOT", "(", ")", ";", "-- name: x\n", "NULL", "CASE", "WHEN", "END",
]  # fmt: skip


@pytest.fixture(scope="module")
def fed() -> Iterator[World]:
    world = World()
    world.feed(1, ("A", 1.0, 1))
    world.feed(12, ("A", 1.0, 1))
    yield world
    world.feed(40, ("A", 1.0, 1))
    assert world.stream.is_active
    world.stream.stop()


@pytest.fixture(scope="module")
def described(fed: World) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", RequestGuard(fed.api, loopback=False))


# Requests as described, and ones that are not, where there is something to get wrong.
OPERATIONS = [
    pytest.param(path, method, mode, id=f"{method} {path} {mode.value}")
    for path, methods in make_api(cast(RunService, None)).openapi()["paths"].items()
    for method, facts in methods.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "parameters" in facts
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_made_up_requests(described, path, method, mode):
    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def try_one(data: st.DataObject) -> None:
        case = data.draw(described[path][method].as_strategy(generation_mode=mode))
        # What is made up alone would hardly ever reach a query that is there.
        if case.path_parameters and method != "delete" and data.draw(st.booleans()):
            case.path_parameters["name"] = "top" if method == "put" else "shares"
        if "where" in (case.query or {}) and data.draw(st.booleans()):
            case.query["where"] = ["symbol=A"]
        if isinstance(case.body, dict) and data.draw(st.booleans()):
            case.body["sql"] = NEW
        case.call_and_validate(checks=CHECKS)

    try_one()


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join))
def test_made_up_text_is_a_query_or_refused(fed, text):
    answer = fed.client().post(
        "/api/v1/queries", content=json.dumps({"sql": text}), headers={"content-type": "application/json"}
    )
    assert answer.status_code in (201, 202, 409, 422, 429)
