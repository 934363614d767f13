"""Who is let in: hosts, pages of other sites, tokens, sizes; and that query text reaches nothing but data."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from pathlib import Path

import pytest

import weft
from support.web_world import NEW, World
from weft.errors import JobError
from weft.web import guard
from weft.web.limits import MAX_BODY_BYTES
from weft.web.server import ServerAddress

QUERIES = "/api/v1/queries"
TOKEN = "a-token-of-enough-letters"


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost:1", "LOCALHOST", "[::1]:8787", "127.8.9.1"])
def test_loopback_names_are_let_in(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost.evil.example", "192.168.0.7",
     "", "127.0.0.1@evil.example", "[", "0.0.0.0", "[::1", "localhost:x@evil.example"],
)  # fmt: skip
def test_a_name_that_was_rebound_to_this_machine_is_not(client, host):
    for path in ("/health", QUERIES, "/metrics", "/docs", "/openapi.json"):
        assert client.get(path, headers={"host": host}).status_code == 421
    assert client.post(QUERIES, json={"sql": NEW}, headers={"host": host}).status_code == 421


def test_a_second_host_is_not_let_in_either(client):
    headers = [("host", "127.0.0.1"), ("host", "evil.example")]
    assert client.get("/health", headers=headers).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://[::1"},
        {"origin": "http://127.0.0.1:8787]"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(world, client, headers):
    assert client.post(QUERIES, json={"sql": NEW}, headers=headers).status_code == 403
    assert client.put(f"{QUERIES}/top", json={"sql": NEW}, headers=headers).status_code == 403
    assert client.delete(f"{QUERIES}/top", headers=headers).status_code == 403
    assert [q.name for q in world.stream.queries()] == ["shares", "top"]


def test_other_sites_get_no_leave_to_read(client):
    ask = {"origin": "http://evil.example", "access-control-request-method": "DELETE"}
    asked = client.options(f"{QUERIES}/top", headers=ask)
    read = client.get(QUERIES, headers={"origin": "http://evil.example"})
    for answer in (asked, read):
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_page_of_this_server_may_change_queries(client):
    headers = {"origin": "http://127.0.0.1:8787", "sec-fetch-site": "same-origin"}
    assert client.post(QUERIES, json={"sql": NEW}, headers=headers).status_code in (201, 202)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
def test_what_a_form_can_send_is_refused(client, kind):
    body = f'{{"sql": "{NEW}"}}'.encode()
    assert client.post(QUERIES, content=body, headers={"content-type": kind}).status_code == 415


def test_answers_keep_browsers_careful(client):
    for path in ("/docs", QUERIES, "/api/v1/plan.svg", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


def test_with_a_token_everything_but_health_and_the_page_needs_it(world):
    client = world.client("weft.example", loopback=False, token=TOKEN)
    assert client.get("/health").status_code == 200
    good = {"authorization": f"Bearer {TOKEN}"}
    wrong = ["", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer ", "Bearer é"]
    assert client.get("/").status_code == 200
    assert client.get("/static/app.js").status_code == 200
    for path in (QUERIES, "/metrics", "/openapi.json", "/docs", "/api/v1/overview", f"{QUERIES}/top/results"):
        for given in wrong:
            refused = client.get(path, headers={"authorization": given.encode("latin-1")})
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers=good).status_code == 200
    assert client.post(QUERIES, json={"sql": NEW}).status_code == 401
    assert client.delete(f"{QUERIES}/top").status_code == 401
    assert client.post(QUERIES, json={"sql": NEW}, headers=good).status_code in (201, 202)


def test_reads_can_be_left_open(world):
    client = world.client("weft.example", loopback=False, token=TOKEN, open_reads=True)
    assert client.get(QUERIES).status_code == 200
    assert client.get("/metrics").status_code == 200
    assert client.post(QUERIES, json={"sql": NEW}).status_code == 401


def test_tokens_are_compared_in_constant_time(world, monkeypatch):
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(guard, "hmac", type("Spy", (), {"compare_digest": staticmethod(compare)}))
    client = world.client(token=TOKEN)
    assert client.get(QUERIES, headers={"authorization": "Bearer guess"}).status_code == 401
    assert compared == [(b"guess", TOKEN.encode())]


@pytest.mark.parametrize("token", ["short", "", "ä" * 20])
def test_weak_tokens_are_refused(token):
    with pytest.raises(JobError, match="at least 16"):
        ServerAddress(token=token)


def test_long_bodies_are_refused_whatever_they_say_of_their_length(client):
    big = b'{"sql": "' + b"(" * (1 << 20) + b'"}'
    kind = {"content-type": "application/json"}
    assert client.post(QUERIES, content=big, headers=kind).status_code == 413

    def pieces():
        yield from (big[at : at + 65_536] for at in range(0, len(big), 65_536))

    assert client.post(QUERIES, content=pieces(), headers=kind).status_code == 413
    at_most = b'{"sql": "' + b" " * (MAX_BODY_BYTES - 11) + b'"}'
    assert client.post(QUERIES, content=at_most, headers=kind).status_code == 422
    for length in ("-1", "x", "9" * 30):
        assert (
            client.post(QUERIES, content=b"{}", headers={**kind, "content-length": length}).status_code == 413
        )


def test_a_body_that_does_not_come_is_not_waited_for(world, monkeypatch):
    monkeypatch.setattr(guard, "BODY_TIMEOUT_SECONDS", 0.05)
    sent = []

    async def never():
        await asyncio.sleep(60)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": QUERIES, "headers": [(b"host", b"localhost")]}
    asyncio.run(guard.RequestGuard(world.api)(scope, never, send))
    assert sent[0]["status"] == 408


DEEP = 500
HOSTILE = [
    "SELECT reflect('java.lang.System', 'exit', 1) AS x FROM trades [RANGE '1 s']",
    "SELECT java_method('java.lang.Runtime', 'getRuntime') AS x FROM trades [RANGE '1 s']",
    "SELECT max(reflect('java.lang.System', 'getenv', 'PATH')) AS x FROM trades [RANGE '1 s']",
    "SELECT max(input_file_name()) AS x FROM trades [RANGE '1 s']",
    "SELECT max(current_user()) AS x FROM trades [RANGE '1 s']",
    "SELECT max(try_reflect('a', 'b')) AS x FROM trades [RANGE '1 s']",
    "SELECT count(*) AS n FROM parquet.`/etc/passwd` [RANGE '1 s']",
    "SELECT count(*) AS n FROM csv.`file:///etc/passwd` GROUP BY window(ts, '1 s')",
    "SELECT count(*) AS n FROM read_files('/etc') [RANGE '1 s']",
    "SELECT count(*) AS n FROM (SELECT * FROM trades) [RANGE '1 s']",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] WHERE price > (SELECT max(price) FROM trades)",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] WHERE EXISTS (SELECT 1 FROM secrets)",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'], secrets",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] JOIN secrets ON true",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] UNION SELECT password FROM users",
    "WITH t AS (SELECT 1) SELECT count(*) AS n FROM trades [RANGE '1 s']",
    "SELECT TRANSFORM(symbol) USING 'sh -c id' AS x FROM trades",
    "SELECT transform(symbol, x -> x) AS x FROM trades [RANGE '1 s']",
    "CREATE TABLE t (a INT)",
    "CREATE FUNCTION f AS 'com.evil.F' USING JAR '/tmp/f.jar'",
    "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT 1",
    "INSERT INTO trades VALUES (1)",
    "DROP TABLE trades",
    "DELETE FROM trades",
    "SET spark.sql.extensions=com.evil.E",
    "ADD JAR '/tmp/evil.jar'",
    "LOAD DATA INPATH '/etc/passwd' INTO TABLE t",
    "EXPLAIN SELECT 1",
    "DESCRIBE trades",
    "SHOW TABLES",
    "USE default",
    "CACHE TABLE trades",
    "; DROP TABLE trades; --",
    f"{NEW}; DROP TABLE trades",
    f"{NEW} /* ; */ ; -- x\n SELECT 1",
    f"{NEW} /*",
    "-- name: ../../../etc/cron.d/x\n" + NEW,
    "-- name: a\x00b\n" + NEW,
    "/*+ BROADCAST(x) */",
    "SELECT /*+ REPARTITION(1000000) */ secrets(*) AS n FROM trades [RANGE '1 s']",
    "SELECT ｒｅｆｌｅｃｔ('java.lang.System', 'exit') AS x FROM trades [RANGE '1 s']",
    "SELECT max(re\u200bflect('a', 'b')) AS x FROM trades [RANGE '1 s']",
    "SELECT max(\u202eprice) AS x FROM trades [RANGE '1 s']",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] WHERE symbol = 'a\ud800'",
    "SELECT `__import__('os').system('id')` AS x FROM trades [RANGE '1 s']",
    "SELECT max(price.__class__) AS x FROM trades [RANGE '1 s']",
    "SELECT max(@@version) AS x FROM trades [RANGE '1 s']",
    "SELECT max(${spark.home}) AS x FROM trades [RANGE '1 s']",
    "SELECT max({{price}}) AS x FROM trades [RANGE '1 s']",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] WHERE " + "(" * DEEP + "price > 1" + ")" * DEEP,
    "SELECT max(" + "-" * 19_000 + "price) AS x FROM trades [RANGE '1 s']",
    "SELECT max(" + "abs(" * DEEP + "price" + ")" * DEEP + ") AS x FROM trades [RANGE '1 s']",
    "SELECT max(" + "CASE WHEN true THEN " * DEEP + "1" + " END" * DEEP + ") AS x FROM trades [RANGE '1 s']",
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] WHERE " + "NOT " * 4_500 + "true",
    "SELECT max(price" + " + price" * 2_300 + ") AS x FROM trades [RANGE '1 s']",
    "(" * 20_000,
    "[" * 20_000,
    "/*" * 9_999,
    "/*/" * 3_000 + "*/" * 3_000,
    "'" * 19_999,
    "SELECT " + "a," * 9_000,
    "SELECT count(*) AS n FROM trades [RANGE '1 s'] WHERE symbol IN (" + "'a'," * 4_000 + ")",
    "(" * 100_000,
    "SELECT count(*) AS n FROM trades [RANGE '99999999999999999999 years']",
    "SELECT count(*) AS n FROM trades [RANGE '1 s' SLIDE '0 s']",
    "SELECT count(*) AS n FROM trades [ROWS 999999999999999999999999]",
    "\x00",
    " ",
    "💥" * 5_000,
]  # fmt: skip


@pytest.fixture(scope="module")
def shared():
    made = World()
    made.feed(1, ("A", 1.0, 1))
    yield made
    made.stream.stop()


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:60]))
def test_hostile_text_is_refused_with_little_work(shared, text):
    client = shared.client()
    body = json.dumps({"sql": text})
    began = time.process_time()
    answer = client.post(QUERIES, content=body.encode(), headers={"content-type": "application/json"})
    taken = time.process_time() - began
    assert 400 <= answer.status_code < 500
    assert answer.json()["message"]
    assert taken < 5.0  # of the processor, however busy the machine; the longest takes well under one
    assert shared.stream.is_active
    assert [q.name for q in shared.stream.queries()] == ["shares", "top"]


def test_hostile_names_in_paths(shared):
    client = shared.client()
    for name in ("..%2f..%2fetc%2fpasswd", "%00", "a%0ab", "%ff", "'; DROP", "💥", "a" * 5000, "%2e%2e"):
        for method in ("GET", "DELETE"):
            assert client.request(method, f"{QUERIES}/{name}").status_code in (404, 422), name
        assert client.put(f"{QUERIES}/{name}", json={"sql": NEW}).status_code in (404, 405, 422), name


def test_checkpoints_and_the_network_are_read_as_data():
    """Pickles are read in three places: a program, or a source, on its way to Spark's processes, and states
    of aggregates that users wrote in Python, by a reader that knows plain data alone. Code is made of numbers
    of columns alone."""
    source = Path(weft.__file__).parent
    texts = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.py")}
    unpickle = {
        name for name, text in texts.items() if re.search(r"pickle\.loads?\b|Unpickler|marshal", text)
    }
    assert unpickle == {"spark/shipping.py", "spark/ranges.py"}
    run = {name for name, text in texts.items() if re.search(r"(?<![.\w])(eval|exec)\(", text)}
    assert run == {"aggregates/checked.py", "aggregates/formulas.py", "final/algebra.py"}
    for name, text in texts.items():
        if name.startswith(("engine/", "web/", "files/", "sql/", "expr/")):
            assert not re.search(r"pickle|subprocess|os\.system|shell=|importlib\.import", text), name
