"""Versions of formats 3 and 4 as data of versions of now: window queries over one stream, or joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.store.old_manifest import JOINS, RESULTS, WINDOWS


def of_format_4(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a version; those that ran before queries could fail alone name none."""
    plain = {name: body[name] for name in ("version", "seq")}
    about = _windows(body) if body["joins"] is None else _joins(body, body["joins"])
    kind = "window" if body["joins"] is None else "join"
    failed = {
        name: {"message": failure["message"], "query": {"kind": kind, **failure["query"]}}
        for name, failure in body.get("failed", {}).items()
    }
    lateness = {name: dict.fromkeys(about["streams"], body[name]) for name in ("lateness", "base_lateness")}
    return {**plain, **about, **lateness, "zone": body.get("zone"), "failed": failed, "epoch": 0}


def _windows(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "streams": {"": {"time": body["time"], "types": body["types"]}},
        "queries": [{"kind": "window", **query} for query in body["queries"]],
        "base": [{"kind": "window", **query} for query in body["base"]],
        "stages": {WINDOWS: _window_stage(body)},
    }


def _joins(body: Mapping[str, Any], joins: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is written of joins; the queries of the body are those over their results."""
    data = {"lines": joins["lines"], "ends": joins["ends"]}
    # Where no join was aggregated, there is no such stage now.
    results = {RESULTS: _window_stage(body)} if body["queries"] else {}
    return {
        "streams": {
            stream: {"time": joins["times"].get(stream), "types": joins["types"].get(stream, {})}
            for stream in joins["streams"]
        },
        "queries": [{"kind": "join", **query} for query in joins["queries"]],
        "base": [{"kind": "join", **query} for query in joins["base"]],
        "stages": {JOINS: {"layout": {"chains": joins["layout"]}, "data": data}, **results},
    }


def _window_stage(body: Mapping[str, Any]) -> dict[str, Any]:
    origins = {query["name"]: query["origin"] for query in body["queries"]}
    return {"layout": body["layout"], "data": {"origins": origins}}
