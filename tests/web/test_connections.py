"""Half-sent requests: however many there are, whole ones are answered."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from support.web_world import NEW
from weft.web import connections, limits
from weft.web.guard import RequestGuard
from weft.web.server import listening, up

MANY = 1100
HEADS = {
    "nothing": b"",
    "half a head": b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n",
    "half a body": b"POST /api/v1/queries HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    b'content-length: 100\r\n\r\n{"sql"',
}


@pytest.fixture
def port(world: Any) -> Iterator[int]:
    with listening("127.0.0.1", 0) as listener, up(RequestGuard(world.api), listener):
        yield listener.getsockname()[1]


def ask(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {} if body is None else {"content-type": "application/json"}
    client.request(method, path, None if body is None else json.dumps(body), headers)
    answer = client.getresponse()
    read = json.loads(answer.read())
    client.close()
    return answer.status, read


@contextmanager
def half_sent(port: int, head: bytes, count: int = MANY) -> Iterator[list[socket.socket]]:
    with ExitStack() as opened:
        sockets = []
        for _ in range(count):
            half = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            with suppress(OSError):  # it may be closed for others that came after it
                half.sendall(head)
            sockets.append(half)
        yield sockets


def is_closed(half: socket.socket) -> bool:
    """Whether the other side has closed a connection without an answer, or does so within half a minute."""
    try:
        return half.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_half_sent_requests_keep_nobody_from_an_answer(port: int, head: bytes) -> None:
    with half_sent(port, head):
        for _ in range(3):
            assert ask(port, "GET", "/health")[0] == 200
            assert ask(port, "GET", "/api/v1/queries")[0] == 200
        status, _ = ask(port, "POST", "/api/v1/queries", {"sql": NEW})
        assert status in (201, 202)
    assert ask(port, "GET", "/health")[0] == 200


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_a_connection_does_not_wait_for_ever(port: int, head: bytes, monkeypatch: Any) -> None:
    monkeypatch.setattr(connections, "WAITING_SECONDS", 0.2)
    with half_sent(port, head, 1) as (half,):
        assert is_closed(half)
    assert ask(port, "GET", "/health")[0] == 200


def test_the_oldest_of_one_address_are_closed_first(port: int) -> None:
    with half_sent(port, HEADS["half a head"], limits.MAX_WAITING_OF_ADDRESS + 10) as sockets:
        assert ask(port, "GET", "/health")[0] == 200
        newest = sockets[-1]
        newest.sendall(b"connection: close\r\n\r\n")
        assert newest.recv(20).startswith(b"HTTP/1.1 200")
        assert is_closed(sockets[0])


def test_a_request_that_comes_in_pieces_is_answered(port: int) -> None:
    with half_sent(port, HEADS["half a head"], 1) as (half,):
        for byte in b"accept: */*\r\nconnection: close\r\n\r\n":
            half.sendall(bytes([byte]))
        assert half.recv(20).startswith(b"HTTP/1.1 200")


def test_a_body_that_ends_early_changes_nothing(world: Any, port: int) -> None:
    body = json.dumps({"sql": NEW}).encode()
    head = b"POST /api/v1/queries HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    with half_sent(port, head + b"content-length: 1000\r\n\r\n" + body, 1) as (half,):
        half.shutdown(socket.SHUT_WR)
        half.recv(100)
    assert ask(port, "GET", "/health")[0] == 200
    assert [q.name for q in world.stream.queries()] == ["shares", "top"]
