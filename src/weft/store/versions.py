"""Versions of a stream's queries: ``registry/<version>.json``, written before the first step made with it.

A step that is made again after a crash finds the version that it was made with. Versions hold queries as
data, and the layout of the state that was written under them, as long as some of it is left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

import pyarrow as pa

from weft.errors import CheckpointError, QueryError
from weft.expr.types import UTC, is_utc
from weft.io.filesystem import join, resolve
from weft.model.as_data import in_utc, join_from_dict, join_to_dict, query_from_dict, query_to_dict
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.windows.layout import WindowLayout
from weft.operators.windows.program import Origin, Program
from weft.store.manifest import seal, unseal

REGISTRY = "registry"
Q = TypeVar("Q", Query, JoinQuery)


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that could not be answered any more, and why; it has left, and the others have gone on."""

    message: str
    query: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Version:
    """The queries that steps from ``seq`` on are made with, and how each came; ``base`` are those that the
    run was started with. ``types`` are the columns that are read. ``lateness`` is that of the steps, and
    ``base_lateness`` the one that the run was started with. Where streams are joined, ``joins`` says how, as
    plain data, and the queries are those over the joins' results. ``zone`` is that of local times; where it
    was not written down yet, they were those of the columns' own. ``failed`` are the queries that had to
    leave, as data, and why."""

    version: int
    seq: int
    time: str
    types: Mapping[str, str]
    queries: tuple[Query, ...]
    origins: Mapping[str, Origin]
    base: tuple[Query, ...]
    layout: WindowLayout
    lateness: int | None = 0
    base_lateness: int | None = 0
    joins: Mapping[str, Any] | None = None
    zone: str | None = None
    failed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        program: Program,
        seq: int,
        base: tuple[Query, ...],
        lateness: int | None = 0,
        base_lateness: int | None = 0,
        joins: Mapping[str, Any] | None = None,
        failed: Mapping[str, Failure] = MappingProxyType({}),
    ) -> Version:
        """The version that a program is."""
        types = {name: str(program.schema.field(name).type) for name in program.columns}
        origins = {e.query.name: e.origin for e in program.entries}
        return cls(
            program.version,
            seq,
            program.time,
            types,
            program.queries,
            origins,
            base,
            program.layout,
            lateness,
            base_lateness,
            joins,
            program.zone,
            {name: {"message": f.message, "query": _as_data(f.query)} for name, f in failed.items()},
        )

    def failures(self) -> dict[str, Failure]:
        """The queries that had to leave, by name."""
        read = query_from_dict if self.joins is None else join_from_dict
        return {name: Failure(data["message"], read(data["query"])) for name, data in self.failed.items()}

    def check_zone(self, zone: str, place: str) -> None:
        """Refuse a run in another zone: windows that are open would mix local times of both."""
        written = [self.zone] if self.zone is not None else sorted(self._column_zones())
        if (written or [UTC]) != [zone]:
            raise CheckpointError(
                f"checkpoint '{place}' was written with local times in {' and '.join(written or [UTC])}, and "
                f"this run has them in {zone}; set spark.sql.session.timeZone (zone in [stream] of a job) to "
                "the one it was written with, or use another checkpoint directory"
            )

    def _column_zones(self) -> set[str]:
        streams = [self.types] if self.joins is None else self.joins["types"].values()
        dtypes = (dtype for types in streams for dtype in types.values())
        matches = (re.fullmatch(r"timestamp\[\w+, tz=(.*)\]", dtype) for dtype in dtypes)
        return {UTC if is_utc(match[1]) else match[1] for match in matches if match}

    def as_given(self, queries: tuple[Q, ...]) -> tuple[Q, ...]:
        """Queries as the one who wrote this would have read them, to be compared with those of then.

        Before the zone was written down, a timestamp that names none was read as UTC at once.
        """
        return (
            queries if self.zone is not None or self._column_zones() - {UTC} else tuple(map(in_utc, queries))
        )

    def check(self, schema: pa.Schema, time: str, place: str, zone: str = UTC) -> None:
        """Refuse a stream of another time column, of columns of other types, or in another zone."""
        remedy = "use another checkpoint directory, or the same stream"
        if self.joins is not None:
            raise CheckpointError(f"checkpoint '{place}' belongs to joins of streams; {remedy}s")
        self.check_zone(zone, place)
        if time != self.time:
            raise CheckpointError(
                f"checkpoint '{place}' belongs to a stream whose time column is '{self.time}', not '{time}'; "
                + remedy
            )
        for name, written in self.types.items():
            given = str(schema.field(name).type) if name in schema.names else "missing"
            if given != written:
                raise CheckpointError(
                    f"checkpoint '{place}' belongs to a stream whose column '{name}' is {written}, not "
                    f"{given}; {remedy}"
                )

    def to_json(self) -> bytes:
        """The file's content, with a checksum of itself."""
        queries = [{**_plain(q), "origin": _origin_to_data(self.origins[q.name])} for q in self.queries]
        # Written often where queries are many: in one line, which is far quicker.
        return seal(
            {
                "version": self.version,
                "seq": self.seq,
                "time": self.time,
                "types": dict(self.types),
                "queries": queries,
                "base": list(map(_plain, self.base)),
                "layout": self.layout.to_dict(),
                "lateness": self.lateness,
                "base_lateness": self.base_lateness,
                "joins": self.joins,
                "zone": self.zone,
                "failed": dict(self.failed),
            },
            indent=None,
        )

    @classmethod
    def from_json(cls, data: bytes) -> Version:
        """Read a version; CheckpointError where it is damaged."""
        body = unseal(data)
        try:
            return cls(
                version=body["version"],
                seq=body["seq"],
                time=body["time"],
                types=body["types"],
                queries=tuple(map(query_from_dict, body["queries"])),
                origins={q["name"]: _origin_from_data(q["origin"]) for q in body["queries"]},
                base=tuple(map(query_from_dict, body["base"])),
                layout=WindowLayout.from_dict(body["layout"]),
                lateness=body["lateness"],
                base_lateness=body["base_lateness"],
                joins=body["joins"],
                zone=body.get("zone"),
                failed=body.get("failed", {}),  # written since queries can fail alone
            )
        except (KeyError, TypeError, ValueError, QueryError) as error:
            raise CheckpointError(f"it is not a whole version of queries: {error}") from error


_plain = lru_cache(maxsize=1 << 13)(query_to_dict)


def _as_data(query: Query | JoinQuery) -> dict[str, Any]:
    return join_to_dict(query) if isinstance(query, JoinQuery) else query_to_dict(query)


def registry_file(place: str, version: int) -> str:
    """Return the path of a version."""
    return join(place, REGISTRY, f"{version:010}.json")


def read_version(place: str, version: int) -> Version:
    """A version of the stream whose checkpoint is at this place."""
    system, path = resolve(registry_file(place, version))
    remedy = "restore the file from a backup, or start again with an empty checkpoint directory"
    try:
        with system.open_input_file(path) as source:
            return Version.from_json(source.read())
    except OSError as error:
        raise CheckpointError(f"a file of this checkpoint is missing, '{path}'; {remedy}") from error
    except CheckpointError as error:
        raise CheckpointError(f"a file of this checkpoint is damaged, '{path}': {error}; {remedy}") from error


def _origin_to_data(origin: Origin) -> dict[str, Any]:
    # "joined" is the format's word.
    return {"since": origin.since, "joined": origin.latest_when_added, "bucket": origin.bucket}


def _origin_from_data(data: Mapping[str, Any]) -> Origin:
    return Origin(data["since"], data["joined"], data.get("bucket"))
