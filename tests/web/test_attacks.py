"""Queries that would take the memory of the server, asked over HTTP: refused, or answered in bounds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.places import TESTS

ATTACKED = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from support.web_world import World
world = World()
resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)
with world.client() as client:
    def ask(condition, select="count(*) AS n"):
        text = f"SELECT {select} FROM trades [RANGE '10 s'] WHERE {condition}"
        new = {"sql": text, "name": f"n{len(text)}"}
        asked = client.post("/api/v1/queries", params={"wait": 30}, json=new)
        assert client.get("/health").status_code == 200
        return asked.status_code, asked.json()

    def nested(of, times):
        for _ in range(times):
            of = f"replace({of}, 'A', 'AAAAAAAAAA')"
        return of

    def doubled(of, times):
        for _ in range(times):
            of = f"concat({of}, {of})"
        return of

    status, problem = ask(f"length({nested(repr('A'), 9)}) > 3")
    assert (status, problem["line"], "column" in problem, "hint" in problem) == (422, 1, True, True), problem
    assert ask(f"length({doubled(repr('A' * 1000), 3)}) > 3")[0] == 201
    assert ask("(" * 9000 + "price" + ")" * 9000 + " > 1")[0] == 422
    assert ask("NOT " * 4000 + "price > 1")[0] == 422
    assert ask("symbol LIKE '" + "_" * 15000 + "'")[0] == 422
    assert ask("price > " + "9" * 15000)[0] == 422
    assert ask("price IN (" + "1," * 25000 + "1)")[0] == 422
    assert ask(f"length({nested('symbol', 9)}) > 3")[0] == 201
    assert ask("TRUE", f"max({nested('symbol', 6)}) AS m")[0] == 201
    world.feed(1, *[("A" * 10, 1.0, 5)] * 300)
    world.feed(12, ("A", 1.0, 1))
    assert client.get("/health").json()["state"] == "running"
    assert client.get("/api/v1/queries/shares/results").json()["rows"][0]["shares"] == 1500
    assert sum(step["bad"] for step in client.get("/api/v1/progress").json()) > 0
world.stream.stop()
print("held")
"""


@pytest.mark.slow
def test_a_server_survives_what_would_take_its_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTACKED, str(TESTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("held\n"), done.stderr[-2000:]
