"""What the dashboard asks the server for: page by page, and the same whoever asks."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
import re

import pyarrow as pa
import pytest

from support.web_world import NEW, World
from weft.io.sinks.latest import MAX_FOLLOWED_GROUPS, LatestSink
from weft.web.filters import text, typed
from weft.web.groups import Groups

QUERIES = "/api/v1/queries"
UTC = datetime.UTC


def test_the_run_at_a_glance(world, client):
    empty = client.get("/api/v1/overview").json()
    assert (empty["state"], empty["latency"], empty["watermark"], empty["last_seq"]) == (
        "running",
        None,
        None,
        -1,
    )
    world.feed(1, ("A", 1.0, 5), ("B", 2.0, 7))
    world.feed(12, ("A", 1.0, 1))
    world.feed(1, ("A", 1.0, 1))
    shown = client.get("/api/v1/overview").json()
    assert shown["totals"] == {"rows": 4, "late": 1, "untimed": 0, "bad": 0, "results": 3}
    assert (shown["steps"], shown["queries"]) == ({"batch": 3}, {"running": 2})
    assert shown["watermark"] == "2024-01-01T00:00:12Z"
    assert shown["watermark_lag"] > 1e6
    assert 0 < shown["latency"]["p50"] <= shown["latency"]["p90"] <= shown["latency"]["p99"]
    assert (shown["rate"] > 0, shown["state_rows"] > 0, shown["last_seq"]) == (True, True, 3)
    world.end()
    assert client.get("/api/v1/overview").json()["watermark"] is None


def test_queries_are_found_ordered_and_paged(world, client):
    for n in range(1, 8):
        sql = f"SELECT symbol, min(price) AS low FROM trades [RANGE '{n} s'] GROUP BY symbol"
        world.served.add(sql, f"low{n}")
    assert client.post(QUERIES, json={"sql": NEW, "name": "last"}, params={"wait": 30}).status_code == 201

    def found(**asked: object) -> list[str]:
        return [q["name"] for q in client.get("/api/v1/summary", params=asked).json()["queries"]]

    lows = [f"low{n}" for n in range(1, 8)]
    assert found() == ["last", *lows, "shares", "top"]
    assert found(search="LOW", limit=3, offset=5) == ["low6", "low7"]
    assert found(search="min(price)") == lows
    assert found(search="20 s every") == ["top"]
    assert found(search="low", order="-window", limit=2) == ["low7", "low6"]
    assert found(state="dropping") == []
    page = client.get("/api/v1/summary", params={"search": "low", "limit": 2}).json()
    assert (page["total"], page["matching"], len(page["queries"])) == (10, 7, 2)
    world.feed(1, ("A", 1.0, 5), ("B", 2.0, 7))
    world.feed(12, ("A", 1.0, 1))
    shares = client.get("/api/v1/summary", params={"search": "shares"}).json()["queries"][0]
    assert (shares["groups"], shares["windows"], shares["results"]) == (2, 1, 2)
    assert (shares["group_by"], shares["values"], shares["exact_from"]) == (["symbol"], ["shares"], None)
    assert shares["latest"]["shares"] in (5, 7)
    top = client.get("/api/v1/summary", params={"search": "top"}).json()["queries"][0]
    assert (top["groups"], top["latest"]["top"]) == (None, 2.0)
    world.feed(14, ("A", 1.0, 1))
    for order in ("results", "windows"):
        for way, sign in (("", 1), ("-", -1)):
            asked = client.get("/api/v1/summary", params={"order": way + order}).json()["queries"]
            counts = [sign * q[order] for q in asked]
            assert counts == sorted(counts)
            assert counts[0] < counts[-1]


def test_groups_with_their_newest_answers(world, client):
    world.feed(1, ("A", 1.0, 5), ("Ab", 2.0, 7), (None, 1.0, 2))
    world.feed(12, ("A", 1.0, 1))
    world.feed(31, ("B", 1.0, 1))
    path = f"{QUERIES}/shares/groups"
    every = client.get(path).json()
    assert (every["keys"], every["total"], every["matching"]) == (["symbol"], 3, 3)
    assert [(g["symbol"], g["shares"], g["window_end"][14:19]) for g in every["groups"]] == [
        ("A", 1, "00:20"),
        ("Ab", 7, "00:10"),
        (None, 2, "00:10"),
    ]

    def found(**asked: object) -> list[str | None]:
        return [g["symbol"] for g in client.get(path, params=asked).json()["groups"]]

    assert found(search="a") == ["A", "Ab"]
    assert found(search="null") == [None]
    assert found(order="-shares") == ["Ab", None, "A"]
    assert found(order="shares", offset=1, limit=1) == [None]
    wrong = client.get(path, params={"order": "volume"})
    assert (wrong.status_code, "shares" in wrong.json()["hint"]) == (422, True)
    assert len(client.get(f"{QUERIES}/top/groups").json()["groups"]) == 1
    assert client.get(f"{QUERIES}/nobody/groups").status_code == 404
    world.feed(41, ("B", 1.0, 9))
    assert found() == ["A", "Ab", "B", None]


def test_the_series_of_a_group_goes_on_beyond_what_is_kept():
    world = World(keep=4)
    client = world.client()
    path = f"{QUERIES}/shares/series"
    groups = [f"g{n}" for n in range(20)]
    try:
        for step in range(3):
            world.feed(10 * step, *((group, 1.0, step) for group in groups))
        # Only the latest window has been kept, whole; from now on this group is kept apart.
        first = client.get(path, params={"where": "symbol=g7"}).json()
        assert (first["values"], first["group"]) == ({"shares": [1]}, {"symbol": "g7"})
        for step in range(3, 8):
            world.feed(10 * step, *((group, 1.0, step) for group in groups))
        later = client.get(path, params={"where": "symbol=g7"}).json()
        assert later["values"] == {"shares": [3, 4, 5, 6]}
        assert later["window_end"][-1] == "2024-01-01T00:01:10+00:00"
        assert client.get(path, params={"where": "symbol=g7", "limit": 1}).json()["values"] == {"shares": [6]}
        assert client.get(path, params={"where": "symbol=nobody"}).json()["values"] == {"shares": []}
        assert client.get(path, params={"where": "symbol"}).json()["values"] == {"shares": []}
        assert client.get(path).status_code == 422
        assert client.get(path, params={"where": "volume=1"}).status_code == 422
        assert client.get(f"{QUERIES}/top/series").json()["values"]["top"][-1] == 1.0
        other = "SELECT symbol, sum(volume) AS shares FROM trades [RANGE '5 s'] GROUP BY symbol"
        client.put(f"{QUERIES}/shares", json={"sql": other}, params={"wait": 30})
        assert client.get(path, params={"where": "symbol=g7"}).json()["values"] == {"shares": []}
    finally:
        world.stream.stop()


def test_a_window_of_ten_thousand_groups_is_kept_whole():
    sink = LatestSink(rows=100)
    for seq in range(1, 4):
        ends = [10 * seq] * 10_000 + [10 * seq - 5] * 10_000
        names = [f"g{n}" for n in range(10_000)] * 2
        sink.deliver({"q": pa.table({"k": names, "window_end": ends, "n": range(20_000)})}, seq)
    # Of a step with two windows, the later one, though it came first.
    assert set(sink.table("q").column("window_end").to_pylist()) == {30}
    assert sink.table("q").num_rows == 10_000
    assert (sink.delivered["q"], sink.windows["q"]) == (60_000, 6)


def test_a_step_that_is_delivered_again_is_kept_once():
    sink = LatestSink(rows=100)
    row = pa.table({"k": ["a"], "window_end": [1]})
    sink.deliver({"q": row}, 1)
    sink.series("q", (("k", "a"),))
    for seq in (*range(2, 40), 39, 39):
        sink.deliver({"q": row.set_column(1, "window_end", [[seq]])}, seq)
    assert sink.table("q").column("window_end").to_pylist() == list(range(1, 40))
    assert sink.series("q", (("k", "a"),)).column("window_end").to_pylist() == list(range(1, 40))


def test_a_step_that_catches_up_keeps_no_more_than_wanted():
    sink = LatestSink(rows=10)
    sink.deliver({"q": pa.table({"k": ["a"], "window_end": [0]})}, 1)
    sink.series("q", (("k", "a"),))
    sink.deliver({"q": pa.table({"k": ["a"] * 5000, "window_end": range(5000, 0, -1)})}, 2)
    assert sink.series("q", (("k", "a"),)).column("window_end").to_pylist() == list(range(4991, 5001))
    assert sink.table("q").num_rows == 10


def test_followed_groups_are_bounded():
    sink = LatestSink()
    many = [f"g{n}" for n in range(MAX_FOLLOWED_GROUPS + 50)]
    sink.deliver({"q": pa.table({"k": many, "window_end": [1] * len(many)})}, 1)
    for name in many:
        assert sink.series("q", (("k", name),)).num_rows == 1
    assert len(sink._followed) == MAX_FOLLOWED_GROUPS
    sink.forget("q")
    assert len(sink._followed) == 0
    assert sink.series("nobody", ()) is None


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (pa.string(), ["", "a", "é<b>", None]),
        (pa.int64(), [0, -5, 2**62, None]),
        (pa.float64(), [0.1, -1e300, math.inf, None]),
        (pa.bool_(), [True, False, None]),
        (pa.timestamp("us", "UTC"), [datetime.datetime(2024, 1, 1, 5, tzinfo=UTC), None]),
        (pa.timestamp("us"), [datetime.datetime(2024, 1, 1, 5, 0, 0, 7), None]),
        (pa.date32(), [datetime.date(2024, 2, 29), None]),
        (pa.decimal128(10, 2), [decimal.Decimal("1.50"), None]),
        (pa.binary(), [b"", b"\xff\x00", None]),
    ],
)
def test_a_group_is_found_by_what_its_value_is_written_as(dtype, values):
    for value in values:
        assert typed(text(value), dtype) == value
    ends = range(len(values))
    table = pa.table({"k": pa.array(values, dtype), "window_end": ends})
    sink = LatestSink()
    sink.deliver({"q": table}, 1)
    for at, value in enumerate(values):
        found = sink.series("q", (("k", typed(text(value), dtype)),))
        assert found.column("window_end").to_pylist() == [at]
    assert Groups(table, ("k",)).newest.num_rows == len(values)


def test_not_a_number_is_a_group_too():
    table = pa.table({"k": [math.nan, 1.0, math.nan], "window_end": [1, 1, 2]})
    sink = LatestSink()
    sink.deliver({"q": table}, 1)
    assert sink.series("q", (("k", typed("NaN", pa.float64())),)).column("window_end").to_pylist() == [1, 2]


def test_costs_are_estimated_and_measured_tree_by_tree(world, client):
    for second in range(1, 60, 5):
        world.feed(second, ("A", 1.0, 5), ("B", 2.0, 7))
    costs = client.get("/api/v1/costs").json()
    assert (costs["version"], costs["total"], costs["rows"]) == (1, 1, 24)
    parts = [costs["partial"], *(tree["cost"] for tree in costs["trees"])]
    assert all(part["measured"] > 0 and part["estimated"] > 0 for part in parts)
    for share in ("estimated_share", "measured_share"):
        assert sum(part[share] for part in parts) == pytest.approx(1.0)
    tree = costs["trees"][0]
    assert (tree["queries"], tree["windows"], tree["names"]) == (2, 2, ["shares", "top"])
    # Each cuts at every tenth second; together they do so once.
    assert (tree["edges"], tree["edges_alone"]) == (pytest.approx(0.1), pytest.approx(0.2))
    assert [(g["keys"], g["queries"], g["aggregates"]) for g in costs["groupings"]] == [
        (["symbol"], 1, 1),
        ([], 1, 1),
    ]
    told = client.get("/metrics").text
    assert float(re.search(r"weft_tree_seconds_total\{tree=\"0\"\} (\S+)", told)[1]) == pytest.approx(
        tree["cost"]["measured"]
    )
    step = client.get("/api/v1/progress").json()[-1]
    assert (len(step["tree_seconds"]), step["partial_seconds"] > 0) == (1, True)
    # Another plan is measured anew.
    client.post(QUERIES, json={"sql": NEW}, params={"wait": 30})
    assert client.get("/api/v1/costs").json()["rows"] == 0
    assert client.get("/api/v1/costs", params={"offset": 5}).json()["trees"] == []


def test_costs_of_no_query(client):
    for name in ("shares", "top"):
        client.delete(f"{QUERIES}/{name}", params={"wait": 30})
    costs = client.get("/api/v1/costs").json()
    assert (costs["trees"], costs["groupings"], costs["cost"]) == ([], [], 0.0)


def test_one_tree_as_a_picture(client):
    assert "tree 0" in client.get("/api/v1/plan.svg", params={"tree": 0}).text
    assert client.get("/api/v1/plan.svg", params={"tree": 1}).status_code == 404
    assert client.get("/api/v1/plan.svg", params={"tree": -1}).status_code == 422


def test_only_new_steps(world, client):
    for second in (1, 2, 3):
        world.feed(second, ("A", 1.0, 1))
    assert [s["seq"] for s in client.get("/api/v1/progress", params={"after": 1}).json()] == [2, 3]
    assert client.get("/api/v1/progress", params={"after": 3}).json() == []


def test_the_text_of_a_query_is_remembered(client):
    assert client.get(f"{QUERIES}/top").json()["sql"].startswith("SELECT max(price) AS top")
    client.post(QUERIES, json={"sql": f"{NEW} -- mine", "name": "n"}, params={"wait": 30})
    assert client.get(f"{QUERIES}/n").json()["sql"] == f"{NEW} -- mine"
    client.put(f"{QUERIES}/n", json={"sql": NEW}, params={"wait": 30})
    assert client.get(f"{QUERIES}/n").json()["sql"] == NEW


def test_the_page_is_made_of_files_of_this_server(world):
    client = world.client(token="a" * 20)
    start = client.get("/")
    assert (start.status_code, start.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = start.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    seen, waiting = set(), set(re.findall(r"/static/[\w.]+", start.text))
    while waiting:
        path = waiting.pop()
        seen.add(path)
        file = client.get(path)
        assert file.status_code == 200, path
        found = re.findall(r"from \"\./([\w.]+)\"", file.text)
        waiting |= {f"/static/{name}" for name in found} - seen
        assert not re.search(r"(src|href|url\(|from|import)\W*(https?:)?//", file.text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", file.text), (
            path
        )
    assert {"/static/app.js", "/static/chart.js", "/static/style.css", "/static/icon.svg"} <= seen
    # What is open is the page alone, and only to be read.
    assert client.get("/api/v1/overview").status_code == 401
    assert client.post("/").status_code == 401
    assert client.post("/static/app.js").status_code == 401
    for nothing in ("/static/", "/static/nothing.js", "/static/..%2fapi.py", "/static/%2e%2e/api.py"):
        assert client.get(nothing).status_code in (401, 404), nothing


def test_times_beyond_python_s_years_are_answered(world, client):
    world.feed(1, ("A", 1.0, 5))
    ends = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    far = pa.table({"symbol": ["A"], "window_start": ends, "window_end": ends, "shares": [7]})
    world.latest.deliver({"shares": far}, 5)
    world.record.step(dataclasses.replace(world.record.last, seq=5, watermark=253_402_300_800_000_001))
    end = "+010000-01-01T00:00:00+00:00"
    (row,) = client.get("/api/v1/queries/shares/results").json()["rows"]
    assert (row["window_end"], row["shares"]) == (end, 7)
    series = client.get("/api/v1/queries/shares/series", params={"where": "symbol=A"})
    assert (series.status_code, series.json()["window_end"]) == (200, [end])
    assert client.get("/api/v1/queries/shares/groups").status_code == 200
    assert client.get("/api/v1/overview").json()["watermark"] == "+010000-01-01T00:00:00.000001+00:00"
    assert "weft_watermark_seconds 2.53402300" in client.get("/metrics").text
