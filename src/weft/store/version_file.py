"""Versions of a stream's queries: ``registry/<version>.json``, written before the first step made with it.

A step that is made again after a crash finds the version that it was made with. Versions hold queries as
data, and the layout of the state that each stage wrote under them, as long as some of it is left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from weft.errors import CheckpointError, QueryError
from weft.expr.types import UTC, is_utc
from weft.io.filesystem import join, resolve
from weft.model.as_data import in_utc, join_from_dict, join_to_dict, query_from_dict, query_to_dict
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.contract import Note
from weft.store.old_manifest import WINDOWS
from weft.store.old_version import of_format_4
from weft.store.sealed import FORMAT, seal, unseal

REGISTRY = "registry"
AnyQuery: TypeAlias = Query | JoinQuery


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that could not be answered any more, and why; it has left, and the others have gone on."""

    message: str
    query: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The time column of a stream, None where none of it is read, and the types of the columns read."""

    time: str | None
    types: Mapping[str, str]

    @classmethod
    def of(cls, time: str, schema: pa.Schema) -> WrittenColumns:
        """Return the time and the columns of a schema."""
        return cls(time, {column.name: str(column.type) for column in schema})


@dataclass(frozen=True, slots=True)
class StageVersion:
    """One stage in a version: the layout of its state, and what its compiler needs to make it again."""

    layout: Note
    data: Note = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryVersion:
    """The queries that steps from ``seq`` on are made with, over these streams, in these stages.

    ``base`` are the queries that the run was started with. ``lateness`` is that of the steps by stream, and
    ``base_lateness`` the one that the run was started with. ``zone`` is that of local times; where it was not
    written down yet, they were those of the columns' own. ``failed`` are the queries that had to leave.
    ``epoch`` is that of the driver that wrote it, which the checkpoint fills in.
    """

    version: int
    seq: int
    streams: Mapping[str, WrittenColumns]
    queries: tuple[AnyQuery, ...]
    base: tuple[AnyQuery, ...]
    stages: Mapping[str, StageVersion]
    lateness: Mapping[str, int | None]
    base_lateness: Mapping[str, int | None]
    zone: str | None = UTC
    failed: Mapping[str, Failure] = field(default_factory=dict)
    epoch: int = 0

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
        dtypes = (dtype for stream in self.streams.values() for dtype in stream.types.values())
        matches = (re.fullmatch(r"timestamp\[\w+, tz=(.*)\]", dtype) for dtype in dtypes)
        return {UTC if is_utc(match[1]) else match[1] for match in matches if match}

    def as_given(self, queries: tuple[AnyQuery, ...]) -> tuple[AnyQuery, ...]:
        """Return queries as the one who wrote this would have read them, to be compared with those of then.

        Before the zone was written down, a timestamp that names none was read as UTC at once.
        """
        if self.zone is not None or self._column_zones() - {UTC}:
            return queries
        return tuple(map(in_utc, queries))  # type: ignore[arg-type]

    def check(
        self, schemas: Mapping[str, pa.Schema], times: Mapping[str, str], place: str, zone: str = UTC
    ) -> None:
        """Refuse other streams, streams of another time column, of columns of other types, in another zone.

        A stream that was given without a name has the name "".
        """
        remedy = f"use another checkpoint directory, or the same stream{'s' if len(self.streams) > 1 else ''}"
        if set(schemas) != set(self.streams):
            raise CheckpointError(
                f"checkpoint '{place}' belongs to {_listed(self.streams)}, not to {_listed(schemas)}; "
                f"{remedy}"
            )
        self.check_zone(zone, place)
        for stream, columns in self.streams.items():
            subject = f"checkpoint '{place}' belongs to a stream whose"
            if stream:
                subject = f"checkpoint '{place}' belongs to the stream '{stream}', whose"
            if columns.time is not None and times[stream] != columns.time:
                raise CheckpointError(
                    f"{subject} time column is '{columns.time}', not '{times[stream]}'; {remedy}"
                )
            schema = schemas[stream]
            for name, written in columns.types.items():
                given = str(schema.field(name).type) if name in schema.names else "missing"
                if given != written:
                    raise CheckpointError(f"{subject} column '{name}' is {written}, not {given}; {remedy}")

    def to_json(self) -> bytes:
        """Return the file's content, with a checksum of itself."""
        # Written often where queries are many: in one line, which is far quicker.
        return seal(
            {
                "version": self.version,
                "seq": self.seq,
                "streams": {name: asdict(columns) for name, columns in self.streams.items()},
                "queries": list(map(query_to_data, self.queries)),
                "base": list(map(query_to_data, self.base)),
                "stages": {
                    name: {"layout": stage.layout, "data": stage.data} for name, stage in self.stages.items()
                },
                "lateness": dict(self.lateness),
                "base_lateness": dict(self.base_lateness),
                "zone": self.zone,
                "failed": {
                    name: {"message": failure.message, "query": query_to_data(failure.query)}
                    for name, failure in self.failed.items()
                },
                "epoch": self.epoch,
            },
            indent=None,
        )

    @classmethod
    def from_json(cls, data: bytes) -> QueryVersion:
        """Read a version of this format or those before; CheckpointError where it is damaged."""
        number, body = unseal(data)
        try:
            body = body if number == FORMAT else of_format_4(body)
            return cls(
                version=body["version"],
                seq=body["seq"],
                streams={name: WrittenColumns(**columns) for name, columns in body["streams"].items()},
                queries=tuple(map(query_from_data, body["queries"])),
                base=tuple(map(query_from_data, body["base"])),
                stages={name: StageVersion(**stage) for name, stage in body["stages"].items()},
                lateness=body["lateness"],
                base_lateness=body["base_lateness"],
                zone=body["zone"],
                failed={
                    name: Failure(failure["message"], query_from_data(failure["query"]))
                    for name, failure in body["failed"].items()
                },
                epoch=body["epoch"],
            )
        except (KeyError, TypeError, ValueError, AttributeError, QueryError) as error:
            raise CheckpointError(f"it is not a whole version of queries: {error}") from error


def query_to_data(query: AnyQuery) -> dict[str, Any]:
    """Return a query as data, with its kind."""
    if isinstance(query, JoinQuery):
        return {"kind": "join", **_plain_join(query)}
    return {"kind": "window", **_plain_query(query)}


def query_from_data(data: Mapping[str, Any]) -> AnyQuery:
    """Return the query behind ``query_to_data``; QueryError where the data is none."""
    plain = {name: value for name, value in data.items() if name != "kind"}
    return join_from_dict(plain) if data["kind"] == "join" else query_from_dict(plain)


_plain_query = lru_cache(maxsize=1 << 13)(query_to_dict)
_plain_join = lru_cache(maxsize=1 << 13)(join_to_dict)


def registry_file(place: str, version: int) -> str:
    """Return the path of a version."""
    return join(place, REGISTRY, f"{version:010}.json")


def read_version(place: str, version: int) -> QueryVersion:
    """Read a version of the stream whose checkpoint is at this place."""
    system, path = resolve(registry_file(place, version))
    remedy = "restore the file from a backup, or start again with an empty checkpoint directory"
    try:
        with system.open_input_file(path) as source:
            return QueryVersion.from_json(source.read())
    except FileNotFoundError as error:
        raise CheckpointError(f"a file of this checkpoint is missing, '{path}'; {remedy}") from error
    except OSError as error:
        raise CheckpointError(f"cannot read '{path}': {error}") from error
    except CheckpointError as error:
        raise CheckpointError(f"a file of this checkpoint is damaged, '{path}': {error}; {remedy}") from error


def read_layout(place: str, version: int, stage: str) -> Note:
    """Read the layout of the state that a stage wrote under a version."""
    return layout_of(read_version(place, version), stage, place)


def layout_of(version: QueryVersion, stage: str, place: str) -> Note:
    """Return the layout of a stage's state; CheckpointError where the version has no such stage."""
    name = stage_named(version.stages, stage)
    if name is None:
        raise CheckpointError(f"version {version.version} of checkpoint '{place}' has no state of '{stage}'")
    return version.stages[name].layout


def stage_named(stages: Mapping[str, Any], name: str) -> str | None:
    """Return the name that a stage has among others, None where it is not there.

    Where windows are over one stream, it makes no difference whether that had a name.

    >>> stage_named({"windows:": 1}, "windows:trades"), stage_named({"windows:a": 1}, "windows:b")
    ('windows:', None)
    """
    alike = [other for other in stages if WINDOWS in (name, other) and other.startswith(WINDOWS)]
    if name not in stages and name.startswith(WINDOWS) and len(alike) == 1:
        return alike[0]
    return name if name in stages else None


def _listed(streams: Mapping[str, Any]) -> str:
    if list(streams) == [""]:
        return "one stream without a name"
    return f"the stream{'s' if len(streams) > 1 else ''} {', '.join(sorted(streams))}"
