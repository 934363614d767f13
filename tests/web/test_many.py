"""Many clients at once: every change is taken once or refused, and all agree on what runs in the end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient

from support.seeds import seeded_random
from support.web_world import NEW, World
from weft.web.client import Client
from weft.web.guard import RequestGuard
from weft.web.server import listening, up, url_of

QUERIES = "/api/v1/queries"


def test_hundreds_of_adds_and_drops_from_many_threads(world: World) -> None:
    """Each thread owns its names, so that what must be there in the end is known."""
    feeding = threading.Event()

    def feed() -> None:
        second = 0
        while not feeding.is_set():
            second += 1
            world.feed(second, ("A", 1.0, second), ("B", 2.0, 1))

    def work(thread: int) -> set[str]:
        client, mine, choose = (
            TestClient(RequestGuard(world.api), base_url="http://localhost"),
            set(),
            seeded_random(thread),
        )
        for number in range(40):
            if mine and choose.random() < 0.5:
                name = choose.choice(sorted(mine))
                assert client.delete(f"{QUERIES}/{name}").status_code in (200, 202)
                mine.remove(name)
            else:
                name = f"t{thread}_{number}"
                slide = choose.randint(1, 5)
                sql = f"SELECT sum(volume) AS v FROM trades [RANGE '{2 * slide} s' SLIDE '{slide} s']"
                assert client.post(QUERIES, json={"sql": sql, "name": name}).status_code in (201, 202)
                mine.add(name)
            client.get(QUERIES)
        return mine

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            kept = set().union(*pool.map(work, range(8)))
        assert (
            world.client().post(QUERIES, json={"sql": NEW, "name": "last"}, params={"wait": 60}).status_code
            == 201
        )
    finally:
        feeding.set()
        feeder.join()
    states = {q["name"]: q["state"] for q in world.client().get(QUERIES).json()}
    assert states == dict.fromkeys({*kept, "shares", "top", "last"}, "running")
    assert {q.name for q in world.stream.queries()} == set(states)
    assert world.stream.is_active


def test_one_name_wanted_by_many_is_given_to_one(world: World) -> None:
    world.held = True

    def ask(_: int) -> int:
        return world.client().post(QUERIES, json={"sql": NEW, "name": "wanted"}).status_code

    with ThreadPoolExecutor(16) as pool:
        answers = sorted(pool.map(ask, range(64)))
    assert answers == [202] + [409] * 63
    world.held = False


def test_free_names_are_given_once_each(world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: world.served.add(NEW).name, range(60)))
    assert len(set(names)) == 60


def test_those_who_wait_do_not_keep_others_from_reading(world: World) -> None:
    """Over a real socket: a hundred wait for a batch, more than there are threads for requests."""
    world.held = True
    with listening("127.0.0.1", 0) as listener, up(RequestGuard(world.api), listener):
        client = Client(url_of(listener))
        with ThreadPoolExecutor(100) as pool:
            waiting = [pool.submit(client.add, NEW, f"n{i}", 60) for i in range(100)]
            while len(world.served.queries()) < 102:
                assert len(client.queries()) >= 2
            assert not any(each.done() for each in waiting)
            world.held = False
            assert {each.result(60)["state"] for each in waiting} == {"running"}
