"""A client of the server's API, with the standard library alone."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from weft.errors import JobError, QueryError, WeftError

DEFAULT_SERVER = "http://127.0.0.1:8787"


class ServerError(WeftError):
    """A server that cannot be reached, or fails."""


class _NoRedirects(HTTPRedirectHandler):
    """The token must not travel to wherever an answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Client:
    """The API of one server.

    >>> Client("ftp://example.org")
    Traceback (most recent call last):
        ...
    weft.errors.JobError: 'ftp://example.org' is not a server; give --server http://HOST:PORT
    """

    def __init__(self, server: str = DEFAULT_SERVER, token: str | None = None) -> None:
        if urlsplit(server).scheme not in ("http", "https") or not urlsplit(server).netloc:
            raise JobError(f"'{server}' is not a server; give --server http://HOST:PORT")
        self.server, self.token = server.rstrip("/"), token
        self._opener = build_opener(_NoRedirects, ProxyHandler({}))

    def queries(self) -> list[dict[str, Any]]:
        """Return all queries."""
        return self._call("GET", "queries")

    def add(self, sql: str, name: str | None = None, wait: float = 0.0) -> dict[str, Any]:
        """Add a query."""
        return self._call("POST", "queries", {"sql": sql, "name": name}, wait=wait)

    def replace(self, name: str, sql: str, wait: float = 0.0) -> dict[str, Any]:
        """Replace a query by another."""
        return self._call("PUT", f"queries/{quote(name, safe='')}", {"sql": sql}, wait=wait)

    def drop(self, name: str, wait: float = 0.0) -> dict[str, Any]:
        """Drop a query."""
        return self._call("DELETE", f"queries/{quote(name, safe='')}", wait=wait)

    def results(self, name: str, limit: int = 20, where: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return a query's latest results."""
        return self._call("GET", f"queries/{quote(name, safe='')}/results", limit=limit, where=where)

    def _call(self, method: str, path: str, body: Any = None, **parameters: Any) -> Any:
        url = f"{self.server}/api/v1/{path}?{urlencode(parameters, doseq=True)}"
        request = Request(url, method=method, headers={"Accept": "application/json"})
        if self.token:
            request.add_header("Authorization", f"Bearer {self.token}")
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        try:
            with self._opener.open(request, timeout=parameters.get("wait", 0.0) + 30) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise _problem(error) from None
        except URLError as error:
            raise ServerError(
                f"no server at {self.server}: {error.reason}; start one with weft serve"
            ) from None
        except (OSError, ValueError) as error:
            raise ServerError(f"{self.server} gives no answer that can be read: {error}") from None


def _problem(error: HTTPError) -> WeftError:
    """Return the error that the server reported, as it was there."""
    try:
        body = json.load(error)
        message, hint = str(body["message"]), body.get("hint")
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return ServerError(f"the server failed: {error.code} {error.reason}")
    if error.code >= 500:
        return ServerError(message)
    line, column = body.get("line"), body.get("column")
    position = (line, column) if isinstance(line, int) and isinstance(column, int) else None
    return QueryError(message, query=body.get("query"), position=position, hint=hint)
