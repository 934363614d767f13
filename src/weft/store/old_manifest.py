"""Manifests of formats 3 and 4 as data of entries: one operator in a checkpoint, delivered before the commit.

Windows had one watermark, and layers for each bucket. Joins had the watermark of each stream, under "" that
of their results, and the layers of all buckets of the joins before those of the queries over results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WINDOWS, JOINS, RESULTS = "windows:", "joins", "results"
"""The stages that such a checkpoint can have."""
JOINED = "joined"
"""The stream of the results of joins, which queries over them read."""

RESULTS_MARK = ""
PARTS_PER_CHAIN, WAITING_PART = 10, 9
"""Numbers of files of joins: ten to a chain, nine sides and what waits."""

COUNTS = ("rows", "late", "untimed", "bad", "ahead")


def of_format_4(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry; in format 3, the hash was one of pandas."""
    plain = {name: body[name] for name in ("seq", "token", "kind", "batch_id", "version", "buckets", "taken")}
    # Only joins have the marks of their streams.
    about = _joins(body) if body["watermarks"] else _windows(body)
    log = {"entry": body["seq"], "epoch": 0, "driver": "", "parent": body["seq"] - 1}
    delivered = {"answers": [], "delivered": body["seq"], "rewind": None, "offsets": {}}
    return {**plain, **about, **log, **delivered, "hash": body.get("hash", "pandas")}


def _windows(body: Mapping[str, Any]) -> dict[str, Any]:
    stage = {"marks": {"": body["watermark"]}, "layers": _layers(body["layers"], str)}
    stream = {"seen": body["seen"], "mark": body["watermark"], "heard": body.get("heard", {})}
    return {"stages": {WINDOWS: stage}, "streams": {"": stream}}


def _joins(body: Mapping[str, Any]) -> dict[str, Any]:
    buckets, layers = body["buckets"], body["layers"]
    marks = {stream: mark for stream, mark in body["watermarks"].items() if stream != RESULTS_MARK}
    over = layers[buckets:] or [[]] * buckets
    return {
        "stages": {
            JOINS: {"marks": marks, "layers": _layers(layers[:buckets], _part_of_join)},
            RESULTS: {
                "marks": {JOINED: body["watermarks"].get(RESULTS_MARK)},
                "layers": _layers(over, str),
            },
        },
        "streams": _streams(body, marks),
    }


def _streams(body: Mapping[str, Any], marks: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the streams of joins, whose rows had been counted together.

    The one that is furthest has the latest time of all; of the others only their marks are known, which are
    no later than their rows. The counts are given to the first.
    """
    seen, heard = body["seen"], body.get("heard", {})
    order = sorted(marks)
    furthest = max(order, key=lambda stream: (marks[stream] is not None, marks[stream]))
    streams = {}
    for stream, mark in marks.items():
        latest = seen["max_time"] if stream == furthest else mark
        counts = {name: seen.get(name, 0) if stream == order[0] else 0 for name in COUNTS}
        streams[stream] = {
            "seen": {
                **counts,
                "max_time": latest,
                "ahead_time": seen.get("ahead_time") if stream == furthest else None,
                "latest": {} if latest is None else {"": latest},
            },
            "mark": mark,
            "heard": {"": heard[stream]} if stream in heard else {},
        }
    return streams


def _layers(layers: Sequence[Sequence[Mapping[str, Any]]], part: Any) -> list[list[dict[str, Any]]]:
    return [[_layer(layer, part) for layer in bucket] for bucket in layers]


def _layer(layer: Mapping[str, Any], part: Any) -> dict[str, Any]:
    files = [
        {
            **{name: value for name, value in file.items() if name != "grouping"},
            "part": part(file["grouping"]),
            "needed_until": layer["needed_until"],
        }
        for file in layer["files"]
    ]
    return {**{name: layer[name] for name in ("first", "last", "version")}, "files": files}


def _part_of_join(number: int) -> str:
    chain, part = divmod(number, PARTS_PER_CHAIN)
    return f"{chain}.waiting" if part == WAITING_PART else f"{chain}.{part}"
