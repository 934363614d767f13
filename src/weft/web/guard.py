"""The request guard: an ASGI layer before every route, which refuses requests before the API sees them.

- Against DNS rebinding: on loopback, a request must name a loopback host.
- Against other sites in the user's browser: a change must come from no page or from one of this server, and
  be JSON, which a form cannot send.
- With a token, every request needs it but for the health of the server, the dashboard's page (which asks for
  all that it shows), and reads where they are left open.
- Bodies are small, and come soon.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.web.limits import MAX_BODY_BYTES

READ_METHODS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/", "/health", "/api/v1/health")
FULL_ACCESS_KEY = "weft.full_access"
"""In the scope of a request: whether it may read all there is."""
FILES_PREFIX = "/static/"
"""Below this are the dashboard's own files, which hold no data and cannot bring a token along."""
BODY_TIMEOUT_SECONDS = 4.0
"""Time for a whole body to come; then the request is answered with 408, and the connection closed."""

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str, hint: str) -> None:
        self.status, self.message, self.hint = status, message, hint


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone.

    >>> [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org", "")]
    [True, True, True, False, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """A guard before ``app``, which gets only the requests that may go there."""

    app: ASGIApp
    loopback: bool = True
    token: str | None = None
    open_reads: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and give its response the headers that keep browsers careful."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            receive = await self._checked(scope, receive)
        except Refused as refused:
            await _refuse(scope, careful, refused)
            return
        await self.app(scope, receive, careful)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        self._check_host(headers)
        reads = scope["type"] == "http" and scope["method"] in READ_METHODS
        if not reads:
            self._check_origin(headers)
        path = scope["path"]
        is_open = reads and (self.open_reads or path in OPEN_PATHS or path.startswith(FILES_PREFIX))
        has_token = self._has_token(headers)
        scope[FULL_ACCESS_KEY] = self.open_reads or has_token
        if not is_open and not has_token:
            raise Refused(401, "the token is missing or wrong", "send Authorization: Bearer TOKEN")
        if reads or scope["type"] == "websocket":
            return receive
        body = await _body(headers, receive)
        if body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "a change must be JSON", "send Content-Type: application/json")
        return _again(body, receive)

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if self.loopback and (len(hosts) != 1 or not is_loopback(_hostname(hosts[0]))):
            raise Refused(421, "this server is for its own machine", "ask for 127.0.0.1 or localhost")

    def _check_origin(self, headers: Headers) -> None:
        origin, host = headers.get("origin"), headers.get("host", "")
        elsewhere = origin is not None and _place(origin) != host.lower()
        if elsewhere or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "a page of another site cannot change queries", "use this server's own page")

    def _has_token(self, headers: Headers) -> bool:
        if self.token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        # Compared as bytes: text outside ASCII would raise.
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())


def _place(origin: str) -> str | None:
    """Host and port of an origin; None for one that cannot be read, which is that of no page here."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


async def _body(headers: Headers, receive: Receive) -> bytes:
    """The whole body, unless it is too long or too slow."""
    too_long = Refused(413, f"the body is longer than {MAX_BODY_BYTES:,} bytes", "send one query at a time")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        raise too_long
    body = b""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the body did not come whole", "send the request again")
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    raise too_long
                if not message.get("more_body"):
                    return body
    except TimeoutError:
        raise Refused(408, "the body did not come", "send the request again") from None


def _again(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body first."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


async def _refuse(scope: Scope, send: Send, refused: Refused) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": refused.message})
        return
    body = json.dumps({"message": refused.message, "hint": refused.hint}).encode()
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        # What was not read of the request must not be taken for the next one.
        (b"connection", b"close"),
    ]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    start: dict[str, Any] = {"type": "http.response.start", "status": refused.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
