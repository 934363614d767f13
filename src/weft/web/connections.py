"""Connections that wait for their client: how long they may, and how many of them.

A request that comes slowly, or never whole, must not take the place of others. A connection waits for its
client from when it is made until the request is there with its body, and again once it is answered. One that
waits too long is closed; where too many wait, those of one address first, the one that has waited longest is.
So whoever sends a whole request gets an answer, however many others have sent half of one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.web.limits import MAX_WAITING, MAX_WAITING_OF_ADDRESS, WAITING_SECONDS


class WaitingConnections:
    """The connections of a server that wait for their clients, the one that has waited longest first."""

    def __init__(self) -> None:
        self._since: dict[GuardedProtocol, asyncio.TimerHandle] = {}
        self._addresses: Counter[str] = Counter()

    def add(self, connection: GuardedProtocol) -> None:
        """Note that a connection waits from now on; the oldest are closed where that is one too many."""
        self.remove(connection)
        expire = connection.loop.call_later(WAITING_SECONDS, self._close, connection)
        self._since[connection] = expire
        address = connection.address
        self._addresses[address] += 1
        if self._addresses[address] > MAX_WAITING_OF_ADDRESS:
            self._close(next(c for c in self._since if c.address == address))
        elif len(self._since) > MAX_WAITING:
            self._close(next(iter(self._since)))

    def remove(self, connection: GuardedProtocol) -> None:
        """Note that a connection has all it waited for, or is no more."""
        expire = self._since.pop(connection, None)
        if expire is not None:
            expire.cancel()
            self._addresses[connection.address] -= 1
            if not self._addresses[connection.address]:
                del self._addresses[connection.address]

    def _close(self, connection: GuardedProtocol) -> None:
        self.remove(connection)
        connection.transport.abort()


class GuardedProtocol(H11Protocol):
    """HTTP over one connection, which says when it waits for its client."""

    waiting: WaitingConnections
    _state: Any = None

    @property
    def address(self) -> str:
        """The client's host."""
        return self.client[0] if self.client else ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        """Go on with the request."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.waiting.remove(self)
        super().connection_lost(exc)

    def _note(self) -> None:
        state = self.conn.their_state
        if self.transport.is_closing() or state not in (h11.IDLE, h11.SEND_BODY):
            self.waiting.remove(self)
        elif state is not self._state:  # more of the same head or body buys no more time
            self.waiting.add(self)
        self._state = state


def guarded() -> type[GuardedProtocol]:
    """The protocol of one server, with the connections that wait there."""
    return type("Guarded", (GuardedProtocol,), {"waiting": WaitingConnections()})
