"""A web address as a sink, for alerts: each step's results of a query as JSON in one request or a few."""

from __future__ import annotations

import logging
import random
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import pyarrow as pa
from rich.console import Console

from weft.errors import JobError
from weft.io.json_values import rows as plain_rows
from weft.io.json_values import to_json
from weft.io.kinds import SinkKind
from weft.io.settings import Duration, Options, Secret
from weft.io.sinks.base import NO_CHECKPOINT

log = logging.getLogger(__name__)

RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)
"""Answers after which it is worth trying again."""
MAX_PAUSE_SECONDS = 30.0
TEN_SECONDS = Duration(10_000_000)


class WebhookSink:
    """A web address that takes results by POST, at most ``rows`` in a request.

    A query with HAVING sends what its condition lets by. A request is tried ``tries`` times, with pauses
    that double, while the other side is away or busy; then or when it is refused, the run stops, and the
    next run sends the step again. So a request can come twice: its ``Idempotency-Key`` is the same then,
    and tells it from all others.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 10.0,
        tries: int = 5,
        rows: int = 500,
        pause: float = 0.5,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise JobError(f"a webhook's url must begin with http:// or https://, not '{url}'")
        if tries < 1 or rows < 1 or timeout <= 0:
            raise JobError("a webhook needs tries and rows of at least 1, and a timeout above 0")
        self.url, self.headers = url, dict(headers or {})
        self.timeout, self.tries, self.rows, self.pause = timeout, tries, rows, pause
        self._stream = NO_CHECKPOINT
        self._shown = f"{parts.scheme}://{parts.hostname}{parts.path}"
        self._opener = urllib.request.build_opener(_NoRedirect)

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Remember the stream, which is part of the keys."""
        self._stream = stream

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Send the step's results."""
        for name, table in results.items():
            for part, at in enumerate(range(0, table.num_rows, self.rows)):
                body = {
                    "query": name,
                    "stream": self._stream,
                    "step": seq,
                    "part": part,
                    "results": plain_rows(table.slice(at, self.rows)),
                }
                self._send(to_json(body).encode(), f"{self._stream}-{seq}-{quote(name)}-{part}")

    def rewind(self, after: int) -> None:
        """Warn: a request cannot be taken back."""
        log.warning(
            "the webhook %s keeps what it was sent after step %d of stream %s: requests cannot be taken back",
            self._shown,
            after,
            self._stream,
        )

    def close(self) -> None:
        """Nothing to do: every request is done."""

    def _send(self, body: bytes, key: str) -> None:
        own = {"Content-Type": "application/json", "Idempotency-Key": key, "User-Agent": "weft"}
        for number in range(self.tries):
            request = urllib.request.Request(self.url, body, {**own, **self.headers}, method="POST")
            try:
                with self._opener.open(request, timeout=self.timeout):
                    return
            except urllib.error.HTTPError as error:
                error.close()
                why, wait = f"it answered {error.code} {error.reason}", _asked_to_wait(error)
                if error.code not in RETRY_STATUSES:
                    raise JobError(f"the webhook {self._shown} refused results: {why}") from error
            except (OSError, HTTPException) as error:
                why, wait = str(getattr(error, "reason", error)) or type(error).__name__, 0.0
            if number + 1 < self.tries:
                grown = self.pause * 2.0**number * random.uniform(0.5, 1.0)
                time.sleep(min(max(grown, wait), MAX_PAUSE_SECONDS))
        raise JobError(f"the webhook {self._shown} did not take results in {self.tries} tries: {why}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET, and be lost."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _asked_to_wait(error: urllib.error.HTTPError) -> float:
    given = error.headers.get("Retry-After", "")
    return float(given) if given.isdigit() else 0.0


@dataclass(frozen=True, slots=True)
class ToWebhook(SinkKind):
    """Requests that POST results as JSON, for alerts."""

    kind: ClassVar[str] = "webhook"

    url: Secret
    """the address, with `http://` or `https://`"""
    headers: Options = field(default_factory=lambda: Options({}))
    """headers of every request: `{ Authorization = "Bearer ${ALERT_TOKEN}" }`"""
    timeout: Duration = TEN_SECONDS
    """how long an answer may take"""
    tries: int = 5
    """how often a request is tried while the other side is away or busy"""
    rows: int = 500
    """at most so many results in a request"""

    def make(self, console: Console) -> WebhookSink:
        """Make the sink."""
        return WebhookSink(
            self.url, headers=self.headers, timeout=self.timeout / 1e6, tries=self.tries, rows=self.rows
        )
