"""Every endpoint: what it answers, and how it says no."""

from __future__ import annotations

import datetime
import math
import re
import time
from xml.etree import ElementTree

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.places import DOCS
from support.web_world import NEW, World
from weft.web.limits import Limits

QUERIES = "/api/v1/queries"
WAIT = {"wait": 30}
SHARES = pa.table({"symbol": ["A"], "shares": [1]})
DOUBLES = "SELECT symbol, sum(cast(volume AS double)) AS shares FROM trades [RANGE '10 s'] GROUP BY symbol"
TOKEN = "a-token-of-enough-letters"
HIGH = "SELECT max(price) AS high FROM trades [RANGE '10 s']"


def test_queries_are_listed_with_how_they_do(world, client):
    world.feed(1, ("A", 1.0, 5), ("B", 2.0, 7))
    world.feed(12, ("A", 1.0, 1))
    listed = client.get(QUERIES)
    assert listed.status_code == 200
    shares, top = listed.json()
    assert (shares["name"], shares["state"], shares["window"]) == ("shares", "running", "10 s")
    assert (shares["exact_from"], shares["results"]) == (None, 2)
    assert shares["query"]["group_by"] == ["symbol"]
    assert (top["name"], top["window"]) == ("top", "20 s every 10 s")
    assert client.get(f"{QUERIES}/top").json() == client.get(QUERIES).json()[1]


def test_a_query_joins_answers_and_leaves(world, client):
    world.feed(1, ("A", 5.0, 5))
    joined = client.post(QUERIES, json={"sql": HIGH, "name": "high"}, params=WAIT)
    assert joined.status_code == 201
    # The highest price so far is kept for another query: the window that has begun is answered whole.
    assert joined.json() == {
        "name": "high",
        "state": "running",
        "version": 2,
        "exact_from": "2024-01-01T00:00:00Z",
        "history": True,
    }
    world.feed(2, ("B", 3.0, 5), ("B", 4.0, 6))
    world.feed(11, ("A", 1.0, 1))
    assert client.get(f"{QUERIES}/high/results").json()["rows"] == [
        {"window_start": "2024-01-01T00:00:00+00:00", "window_end": "2024-01-01T00:00:10+00:00", "high": 5.0}
    ]
    left = client.delete(f"{QUERIES}/high", params=WAIT)
    assert (left.status_code, left.json()["state"], left.json()["version"]) == (200, "dropped", 3)
    assert client.get(f"{QUERIES}/high").status_code == 404
    assert client.get(f"{QUERIES}/high/results").status_code == 404
    assert world.own.tables["high"].column("high").to_pylist() == [5.0]


def test_a_query_without_history_is_exact_from_the_next_window(world, client):
    world.feed(1, ("A", 5.0, 5))
    joined = client.post(QUERIES, json={"sql": NEW}, params=WAIT).json()
    assert (joined["exact_from"], joined["history"]) == ("2024-01-01T00:00:10Z", False)
    assert client.get(f"{QUERIES}/q1").json()["exact_from"] == "2024-01-01T00:00:10Z"


def test_a_change_that_no_batch_has_taken_is_accepted(world, client):
    world.held = True
    time.sleep(0.05)
    asked = client.post(QUERIES, json={"sql": NEW, "name": "n"}, params={"wait": 0.05})
    assert (asked.status_code, asked.json()["state"], asked.json()["version"]) == (202, "adding", 1)
    shown = client.get(f"{QUERIES}/n").json()
    assert (shown["state"], shown["exact_from"], shown["results"]) == ("adding", None, 0)
    assert client.get(f"{QUERIES}/n/results").json() == {
        "name": "n",
        "columns": ["window_start", "window_end", "n"],
        "rows": [],
        "more": False,
    }
    assert client.post(QUERIES, json={"sql": NEW, "name": "n"}).status_code == 409
    assert client.delete(f"{QUERIES}/top").json()["state"] == "dropping"
    assert client.get(f"{QUERIES}/top").json()["state"] == "dropping"
    assert client.put(f"{QUERIES}/shares", json={"sql": NEW}).json()["state"] == "replacing"
    world.held = False
    assert client.post(QUERIES, json={"sql": NEW, "name": "last"}, params=WAIT).status_code == 201
    states = {q["name"]: q["state"] for q in client.get(QUERIES).json()}
    assert states == dict.fromkeys(("last", "n", "shares"), "running")


def test_a_query_is_replaced_and_old_results_are_forgotten(world, client):
    world.feed(1, ("A", 1.0, 5))
    world.feed(12, ("A", 3.0, 1))
    assert len(client.get(f"{QUERIES}/top/results").json()["rows"]) == 1
    other = "SELECT max(price) AS top FROM trades [RANGE '10 s']"
    replaced = client.put(f"{QUERIES}/top", json={"sql": other}, params=WAIT)
    assert (replaced.status_code, replaced.json()["name"]) == (200, "top")
    assert client.get(f"{QUERIES}/top/results").json()["rows"] == []
    world.feed(21, ("A", 9.0, 1))
    assert [row["top"] for row in client.get(f"{QUERIES}/top/results").json()["rows"]] == [3.0]


def test_names_come_from_the_request_the_text_or_are_free_ones(client):
    def add(**body: str) -> str:
        return client.post(QUERIES, json=body, params=WAIT).json()["name"]

    assert add(sql=NEW) == "q1"
    assert add(sql=NEW) == "q2"
    assert add(sql=f"-- name: mine\n{NEW}") == "mine"
    assert add(sql=f"-- name: his\n{NEW}", name="hers") == "hers"
    assert client.post(QUERIES, json={"sql": f"-- name: q1\n{NEW}"}).status_code == 409


def test_what_is_wrong_with_a_query_is_said_with_its_place(client):
    answer = client.post(
        QUERIES, json={"sql": "SELECT sum(prise) AS s\nFROM trades [RANGE '1 s']", "name": "x"}
    )
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["line"], problem["column"], problem["query"]) == (1, 12, "x")
    assert "prise" in problem["message"]
    assert "price" in problem["hint"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", QUERIES, {"sql": NEW, "name": "top"}, 409),
        ("PUT", f"{QUERIES}/nobody", {"sql": NEW}, 404),
        ("DELETE", f"{QUERIES}/nobody", None, 404),
        ("GET", f"{QUERIES}/nobody", None, 404),
        ("GET", f"{QUERIES}/nobody/results", None, 404),
        ("POST", QUERIES, {"sql": ""}, 422),
        ("POST", QUERIES, {"name": "x"}, 422),
        ("POST", QUERIES, {"sql": NEW, "name": ""}, 422),
        ("POST", QUERIES, {"sql": NEW, "name": "../../etc"}, 422),
        ("POST", QUERIES, {"sql": NEW, "name": ".."}, 422),
        ("POST", QUERIES, {"sql": NEW, "name": "a" * 101}, 422),
        ("POST", QUERIES, {"sql": f"-- name: {'a' * 101}\n{NEW}"}, 422),
        ("POST", QUERIES, {"sql": NEW, "nmae": "x"}, 422),
        ("POST", QUERIES, {"sql": f"{NEW}; {NEW}"}, 422),
        ("POST", QUERIES, {"sql": "SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '1 us']"}, 422),
        ("POST", QUERIES, {"sql": 5}, 422),
        ("POST", QUERIES, [], 422),
        ("POST", f"{QUERIES}?wait=61", {"sql": NEW}, 422),
        ("POST", f"{QUERIES}?wait=-1", {"sql": NEW}, 422),
        ("POST", f"{QUERIES}?wait=nan", {"sql": NEW}, 422),
        ("GET", f"{QUERIES}/top/results?limit=0", None, 422),
        ("GET", f"{QUERIES}/top/results?limit=999999", None, 422),
        ("GET", f"{QUERIES}/top/results?where=symbol=A", None, 422),
        ("GET", f"{QUERIES}/shares/results?where=shares=5", None, 422),
        ("GET", "/api/v1/progress?limit=x", None, 422),
        ("PATCH", QUERIES, {"sql": NEW}, 405),
        ("GET", "/api/v1/nothing", None, 404),
        ("GET", "/api/v1/queries/../../etc/passwd", None, 404),
    ],
)
def test_bad_requests(client, method, path, body, status):
    answer = client.request(method, path, json=body)
    assert answer.status_code == status
    assert answer.json()["message"]


def test_bodies_that_are_no_json(client):
    headers = {"content-type": "application/json"}
    for body in (b"", b"{", b"\xff", b'{"sql": ' + b"[" * 100_000, b'{"sql": "\\ud800"}', b'{"sql": "\x00"}'):
        answer = client.post(QUERIES, content=body, headers=headers)
        assert 400 <= answer.status_code < 500, body[:20]
        assert answer.json()["message"]


def test_results_by_group_newest_first_as_far_as_wanted(world, client):
    for second in (1, 11, 21, 31):
        world.feed(second, ("A", 1.0, second), ("B", 1.0, -second), (None, 1.0, 7))
    path = f"{QUERIES}/shares/results"
    everything = client.get(path).json()
    assert everything["columns"] == ["symbol", "window_start", "window_end", "shares"]
    assert (len(everything["rows"]), everything["more"]) == (9, False)
    of_a = client.get(path, params={"where": "symbol=A", "limit": 2}).json()
    assert ([row["shares"] for row in of_a["rows"]], of_a["more"]) == ([21, 11], True)
    of_none = client.get(path, params={"where": "symbol"}).json()
    assert [row["shares"] for row in of_none["rows"]] == [7, 7, 7]
    assert client.get(path, params={"where": "symbol=nobody"}).json()["rows"] == []


def test_numbers_that_json_cannot_hold(world, client):
    world.feed(1, ("A", math.inf, 2**62))
    world.feed(11, ("A", math.nan, None))
    world.feed(31, ("A", 1.0, None))
    rows = client.get(f"{QUERIES}/top/results").json()["rows"]
    assert [row["top"] for row in rows] == ["NaN", "NaN", "Infinity"]
    assert [row["shares"] for row in client.get(f"{QUERIES}/shares/results").json()["rows"]] == [None, 2**62]


def test_only_the_latest_results_are_kept():
    world = World(keep=3)
    for step in range(20):
        world.feed(10 * step, ("A", 1.0, step), ("B", 1.0, step))
    rows = world.client().get(f"{QUERIES}/shares/results").json()["rows"]
    assert [row["shares"] for row in rows] == [18, 18, 17, 17]
    assert world.client().get(f"{QUERIES}/shares").json()["results"] == 38
    assert world.own.tables["shares"].num_rows == 38
    world.stream.stop()


def test_the_plan_in_force(world, client):
    shown = client.get("/api/v1/plan").json()
    assert shown["version"] == 1
    assert {q["name"] for tree in shown["trees"] for q in tree["queries"]} == {"shares", "top"}
    assert client.get("/api/v1/plan.txt").text.startswith("2 queries in ")
    picture = client.get("/api/v1/plan.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert ElementTree.fromstring(picture.text).tag.endswith("svg")


def test_a_run_without_queries_is_served_too(client):
    for name in ("shares", "top"):
        assert client.delete(f"{QUERIES}/{name}", params=WAIT).status_code == 200
    assert client.get(QUERIES).json() == []
    for path in ("/api/v1/plan", "/api/v1/plan.txt", "/api/v1/plan.svg", "/metrics", "/api/v1/health"):
        assert client.get(path).status_code == 200, path
    assert client.post(QUERIES, json={"sql": NEW}, params=WAIT).status_code == 201


def test_a_query_that_failed_is_shown_with_why_until_it_is_replaced(world, client):
    for second in (1, 2):
        world.feed(second, ("A", 1.0, 2**63 - 1), ("B", 1.0, 1))
    world.feed(12, ("A", 1.0, 1))
    shares = client.get(f"{QUERIES}/shares").json()
    assert (shares["state"], shares["results"], shares["window"]) == ("failed", 0, "10 s")
    assert shares["error"].startswith("query 'shares', shares: an integer sum does not fit 64 bits")
    assert client.get(f"{QUERIES}/top").json()["error"] is None
    overview = client.get("/api/v1/overview").json()
    assert (overview["state"], overview["queries"]) == ("running", {"failed": 1, "running": 1})
    found = client.get("/api/v1/summary", params={"state": "failed"}).json()
    assert [(q["name"], q["error"]) for q in found["queries"]] == [("shares", shares["error"])]
    assert client.get("/api/v1/progress").json()[-1]["failed"] == {"shares": shares["error"]}
    assert client.get("/health").status_code == 200
    assert 'weft_queries{state="failed"} 1.0' in client.get("/metrics").text
    assert client.get(f"{QUERIES}/shares/results").json()["rows"] == []
    put = client.put(f"{QUERIES}/shares", json={"sql": DOUBLES}, params=WAIT)
    assert put.status_code == 200
    assert client.get(f"{QUERIES}/shares").json()["state"] == "running"
    world.feed(23, ("A", 1.0, 4))
    world.feed(34, ("A", 1.0, 4))
    assert client.get(f"{QUERIES}/shares/results").json()["rows"][0]["shares"] == 4.0


def test_progress(world, client):
    for second in (1, 2, 3):
        world.feed(second, ("A", 1.0, 1))
    latest = client.get("/api/v1/progress", params={"limit": 2}).json()
    assert [(step["rows"], step["version"], step["queries"]) for step in latest] == [(1, 1, 2)] * 2
    done = datetime.datetime.fromisoformat(latest[1]["done"])
    assert abs(datetime.datetime.now(datetime.UTC) - done) < datetime.timedelta(minutes=1)


def test_health_of_a_run(world, client):
    healthy = client.get("/health")
    assert (healthy.status_code, healthy.json()["state"], healthy.json()["queries"]) == (200, "running", 2)
    world.feed(1, ("A", 1.0, 1))
    world.feed(12, ("A", 1.0, 1))
    world.fail()
    failed = client.get("/api/v1/health")
    assert (failed.status_code, failed.json()["state"]) == (503, "failed")
    assert "the disk is full" in failed.json()["error"]
    assert client.get(f"{QUERIES}/shares/results").json()["rows"][0]["shares"] == 1
    refused = client.post(QUERIES, json={"sql": NEW})
    assert (refused.status_code, "has ended" in refused.json()["message"]) == (409, True)


def test_health_shows_nothing_of_the_machine_to_those_who_are_not_let_in(world):
    world.fail("cannot write '/srv/secret/answers': password=hunter2")
    outside, inside = world.client(token=TOKEN), {"authorization": f"Bearer {TOKEN}"}
    for path in ("/health", "/api/v1/health"):
        shown = outside.get(path)
        assert (shown.status_code, shown.json()["state"], shown.json()["error"]) == (
            503,
            "failed",
            "JobError",
        )
        assert "secret" not in shown.text and "hunter2" not in shown.text
        assert "/srv/secret" in outside.get(path, headers=inside).json()["error"]
        assert "/srv/secret" in world.client(token=TOKEN, open_reads=True).get(path).json()["error"]


def test_a_run_that_ended(world, client):
    world.feed(1, ("A", 1.0, 5))
    world.end()
    assert client.get("/health").json()["state"] == "ended"
    assert client.get(f"{QUERIES}/shares/results").json()["rows"][0]["shares"] == 5
    assert client.delete(f"{QUERIES}/shares").status_code == 409
    assert client.get("/metrics").status_code == 200


def test_a_change_still_waiting_when_the_run_ends_is_refused(world, client):
    world.held = True
    time.sleep(0.05)
    asked = world.served.add(NEW)
    world.end()
    assert "ended before" in str(asked.future.exception(10))


def test_metrics_are_what_prometheus_reads(world, client):
    world.feed(1, ("A", 1.0, 5), ("B", 2.0, 7))
    world.feed(12, ("A", 1.0, 1))
    world.feed(1, ("A", 1.0, 1))
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in text_string_to_metric_families(answer.text)}
    values = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
    assert values[("weft_rows_total",)] == 4
    assert values[("weft_late_rows_total",)] == 1
    assert values[("weft_batches_total", "batch")] == 3
    assert values[("weft_results_total",)] == values[("weft_query_results_total", "shares")] + 1
    assert values[("weft_step_seconds_count",)] == 3
    assert 0 < values[("weft_step_seconds", "0.5")] <= values[("weft_step_seconds", "0.99")]
    assert values[("weft_watermark_seconds",)] == 1704067212
    assert values[("weft_watermark_lag_seconds",)] > 1e6
    assert values[("weft_queries", "running")] == 2
    assert values[("weft_run_state", "running")] == 1
    assert values[("weft_state_rows",)] > 0
    assert sum(v for k, v in values.items() if k[0] == "weft_tree_cost") > 0
    for name, family in families.items():
        assert family.documentation, name
        assert family.type in ("counter", "gauge", "summary"), name
        assert re.fullmatch("weft_[a-z_]+", name) or name == "weft"
    assert all(line.startswith(("#", "weft")) for line in answer.text.splitlines())


def test_labels_are_escaped(world, client):
    world.latest.deliver({'a"b\\c\nd': world.own.tables["top"]}, 1)
    world.latest.delivered['a"b\\c\nd'] = 3
    families = text_string_to_metric_families(client.get("/metrics").text)
    labels = {
        s.labels["query"]: s.value
        for f in families
        for s in f.samples
        if s.name == "weft_query_results_total"
    }
    assert labels['a"b\\c\nd'] == 3


def test_limits_are_said():
    world = World(Limits(queries=3))
    client = world.client()
    assert client.post(QUERIES, json={"sql": NEW}, params=WAIT).status_code == 201
    full = client.post(QUERIES, json={"sql": NEW})
    assert full.status_code == 429
    assert "takes no more" in full.json()["message"]
    assert client.put(f"{QUERIES}/q1", json={"sql": NEW}, params=WAIT).status_code == 200
    world.held = True
    time.sleep(0.05)
    answers = [client.put(f"{QUERIES}/q1", json={"sql": NEW}) for _ in range(7)]
    assert [a.status_code for a in answers] == [202] * 6 + [429]
    long = client.post(QUERIES, json={"sql": NEW + " " * 20_000})
    assert (long.status_code, "20000" in long.json()["message"]) == (422, True)
    world.held = False
    world.stream.stop()


def test_other_columns_than_those_delivered_are_refused_before_they_can_stop_the_run(world, client):
    world.feed(1, ("A", 1.0, 5))
    world.feed(12, ("A", 1.0, 1))
    answer = client.put(f"{QUERIES}/shares", json={"sql": "SELECT min(price) AS low FROM t [RANGE '1 s']"})
    assert (answer.status_code, "other columns" in answer.json()["message"]) == (409, True)
    world.feed(13, ("A", 1.0, 1))
    assert world.stream.is_active


def test_results_that_come_while_a_change_waits_can_refuse_it_but_not_stop_the_run(world, client):
    world.held = True
    time.sleep(0.05)
    # No result so far, so that other columns are fine; then results come before a batch takes the change.
    asked = world.served.replace("shares", "SELECT min(price) AS low FROM t [RANGE '1 s']")
    world.own.deliver({"shares": SHARES.slice(0, 1)}, 1)
    world.held = False
    assert "other columns" in str(asked.future.exception(30))
    world.feed(1, ("A", 1.0, 1))
    world.feed(12, ("A", 1.0, 1))
    assert client.get(f"{QUERIES}/shares/results").json()["rows"][0]["shares"] == 1


def test_the_page_for_people_asks_nothing_of_other_hosts(client):
    page = client.get("/docs")
    assert page.status_code == 200
    assert f"POST {QUERIES}" in page.text
    assert not re.search(r"(src|href)\s*=\s*['\"]?(https?:)?//", page.text)
    assert "<script" not in page.text
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) >= {QUERIES, "/metrics", "/api/v1/plan", "/api/v1/health"}


def test_every_route_and_metric_is_documented(world, client):
    text = (DOCS / "server.md").read_text()
    for path in client.get("/openapi.json").json()["paths"]:
        assert path.replace("{name}", "NAME") in text, path
    world.feed(1, ("A", 1.0, 5))
    for name in set(re.findall(r"^# HELP (\S+)", client.get("/metrics").text, re.MULTILINE)):
        assert name in text, name
