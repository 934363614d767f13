"""A webhook: what is sent, when it is tried again, and when it gives up."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pyarrow as pa
import pytest

import weft
from support import servers
from weft.errors import JobError
from weft.sinks import WebhookSink


@pytest.fixture
def hook() -> Iterator[servers.Hook]:
    with servers.hook() as running:
        yield running


def results(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers})


def test_results_are_sent_in_parts(hook: servers.Hook) -> None:
    sink = WebhookSink(hook.url, rows=2, headers={"Authorization": "Bearer x"})
    sink.open({}, "s")
    sink.deliver({"high/low": results(1, 2, 3), "none": results()}, 4)
    keys = [headers["Idempotency-Key"] for _, headers, _ in hook.requests]
    assert keys == ["s-4-high/low-0", "s-4-high/low-1"]
    assert hook.requests[0][1]["Authorization"] == "Bearer x"
    assert hook.requests[1][2] == {
        "query": "high/low",
        "stream": "s",
        "step": 4,
        "part": 1,
        "results": [{"n": 3}],
    }


def test_it_is_tried_again_while_the_other_side_is_busy(hook: servers.Hook) -> None:
    hook.answers = [503, 429, 500]
    WebhookSink(hook.url, pause=0.001).deliver({"q": results(1)}, 1)
    assert [status for status, _, _ in hook.requests] == [503, 429, 500, 200]
    assert len({headers["Idempotency-Key"] for _, headers, _ in hook.requests}) == 1
    assert hook.taken() == [{"query": "q", "n": 1}]


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (302, 1), (503, 3)])
def test_it_gives_up(hook: servers.Hook, status: int, tries: int) -> None:
    hook.answers = [status] * 10
    with pytest.raises(JobError, match=rf"the webhook http://127.0.0.1/alerts .* answered {status}"):
        WebhookSink(hook.url, tries=3, pause=0.001).deliver({"q": results(1)}, 1)
    assert len(hook.requests) == tries


def test_nobody_listens() -> None:
    with pytest.raises(JobError, match=r"http://127.0.0.1/x did not take results in 2 tries: .*refused"):
        WebhookSink("http://127.0.0.1:1/x", tries=2, pause=0.001).deliver({"q": results(1)}, 1)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "example.org", "http://"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(JobError, match="must begin with http"):
        WebhookSink(url)


def test_only_windows_that_pass_the_threshold_are_sent(hook: servers.Hook) -> None:
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    rows = pa.table(
        {
            "ts": [start + datetime.timedelta(seconds=n) for n in range(60)],
            "sensor": ["a", "b", "c"] * 20,
            "value": [float(n if n % 3 == 1 else 1) for n in range(60)],
        }
    )
    text = "-- name: alert\nSELECT sensor, max(value) AS top FROM s [RANGE '30 s'] GROUP BY sensor"
    written = weft.sql(f"{text} HAVING max(value) > 40")
    built = weft.query("alert").source("s").group_by("sensor").window("30 s", time="ts")
    built = built.aggregate(top="max(value)").having("top > 40")
    for queries in (written, [built]):
        WebhookSink(hook.url).deliver(weft.run(queries, rows, time="ts"), 1)
    assert len(hook.requests) == 2
    assert hook.requests[0][2] == hook.requests[1][2]
    assert [row["sensor"] for row in hook.taken()] == ["b"]
    assert hook.taken()[0]["top"] == 58.0
    assert hook.taken()[0]["window_start"] == "2024-01-01T00:00:30+00:00"


def test_times_beyond_python_s_years_are_sent(hook: servers.Hook) -> None:
    far = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    WebhookSink(hook.url).deliver({"q": pa.table({"window_end": far})}, 1)
    assert hook.taken() == [{"query": "q", "window_end": "+010000-01-01T00:00:00+00:00"}]
