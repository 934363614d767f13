"""Versions of queries: as they were written, those of the formats before, and what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from support.golden_streams import KINDS, read
from support.places import GOLDEN
from weft.errors import CheckpointError
from weft.model.join import JoinQuery
from weft.store.version_file import Failure, QueryVersion, StageVersion, WrittenColumns, read_layout

SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "k": pa.string(), "x": pa.int64()})
WINDOW = "-- name: w\nSELECT k, sum(x) AS s FROM a [RANGE '2 min'] GROUP BY k"
JOIN = "-- name: j\nSELECT a.x FROM a [RANGE '9 s'], b [RANGE '5 s'] WHERE a.k = b.k"
VERSIONS = sorted((GOLDEN / "checkpoints").glob("format-[34]-*/checkpoint/registry/*.json"))


def version(*streams: str, zone: str | None = "UTC") -> QueryVersion:
    queries = tuple(weft.sql(f"{WINDOW};\n{JOIN}"))
    return QueryVersion(
        3,
        7,
        {stream: WrittenColumns.of("ts", SCHEMA) for stream in streams},
        queries,
        queries[:1],
        {
            "windows:a": StageVersion({"predicates": []}, {"origins": {}}),
            "joins": StageVersion({"chains": []}),
        },
        dict.fromkeys(streams, 5),
        dict.fromkeys(streams),
        zone,
        {"j2": Failure("it failed", queries[1])},
    )


def check(given: QueryVersion, *streams: str, time: str = "ts", schema: pa.Schema = SCHEMA) -> None:
    given.check(dict.fromkeys(streams, schema), dict.fromkeys(streams, time), "here")


def test_a_version_is_read_as_it_was_written() -> None:
    written = version("a", "b")
    again = QueryVersion.from_json(written.to_json())
    assert again == written
    assert isinstance(again.queries[1], JoinQuery) and isinstance(again.failed["j2"].query, JoinQuery)


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: f"{path.parts[-4]}-{path.stem}")
def test_versions_of_the_formats_before_are_read(path: Path) -> None:
    kind = path.parts[-4].split("-", 2)[2]
    read(KINDS["windows-in-time"].queries)  # defines aggregates of a user
    old, now = json.loads(path.read_text()), QueryVersion.from_json(path.read_bytes())
    assert (now.version, now.seq, now.zone) == (old["version"], old["seq"], old.get("zone"))
    assert now == QueryVersion.from_json(now.to_json())
    if old["joins"] is None:
        assert now.streams == {"": WrittenColumns(old["time"], old["types"])}
        assert now.lateness == {"": old["lateness"]}
        assert now.stages["windows:"].layout == old["layout"]
        origins = {query["name"]: query["origin"] for query in old["queries"]}
        assert now.stages["windows:"].data == {"origins": origins}
        assert [query.name for query in now.queries] == list(origins)
    else:
        assert set(now.streams) == set(KINDS[kind].streams)
        assert now.lateness == dict.fromkeys(KINDS[kind].streams, old["lateness"])
        assert now.stages["joins"].layout == {"chains": old["joins"]["layout"]}
        assert now.stages["joins"].data == {name: old["joins"][name] for name in ("lines", "ends")}
        # Where no join is aggregated, there is no such stage.
        assert ("results" in now.stages) == bool(old["queries"])
        assert "results" not in now.stages or now.stages["results"].layout == old["layout"]
        assert all(isinstance(query, JoinQuery) for query in now.queries)
        assert [query.name for query in now.queries] == [q["name"] for q in old["joins"]["queries"]]
    if old["version"] == 1 and old["format"] == 4:
        assert [query.name for query in now.base] == [query.name for query in read(KINDS[kind].queries)]


def test_another_stream_is_refused() -> None:
    check(version(""), "")
    with pytest.raises(
        CheckpointError, match="'here' belongs to a stream whose time column is 'ts', not 'w'"
    ):
        check(version(""), "", time="w")
    other = pa.schema([f if f.name != "x" else pa.field("x", pa.string()) for f in SCHEMA])
    with pytest.raises(CheckpointError, match="column 'x' is int64, not string"):
        check(version(""), "", schema=other)
    with pytest.raises(CheckpointError, match="column 'x' is int64, not missing; use another checkpoint"):
        check(version(""), "", schema=SCHEMA.remove(2))


def test_other_streams_are_refused() -> None:
    check(version("a", "b"), "b", "a")
    with pytest.raises(CheckpointError, match="belongs to the streams a, b, not to the streams a, b, c; use"):
        check(version("a", "b"), "a", "b", "c")
    with pytest.raises(
        CheckpointError, match=r"the streams a, b, not to one stream without a name; .*streams"
    ):
        check(version("a", "b"), "")
    with pytest.raises(CheckpointError, match="one stream without a name, not to the streams a, b"):
        check(version(""), "a", "b")
    with pytest.raises(CheckpointError, match="the stream 'a', whose time column is 'ts', not 'when'"):
        check(version("a", "b"), "a", "b", time="when")


def test_a_stream_that_nobody_reads_may_be_any() -> None:
    unread = replace(version("a"), streams={"a": WrittenColumns(None, {})})
    check(unread, "a", time="when")


def test_a_run_in_another_zone_is_refused() -> None:
    berlin = version("a", zone="Europe/Berlin")
    berlin.check_zone("Europe/Berlin", "here")
    with pytest.raises(
        CheckpointError, match=r"'here' was written with local times in Europe/Berlin, .* in Asia/Tokyo; set"
    ):
        berlin.check_zone("Asia/Tokyo", "here")


@pytest.mark.parametrize(
    ("zones", "written"),
    [
        ((None, None), "UTC"),
        (("Etc/UTC", None), "UTC"),
        (("Europe/Berlin", "Europe/Berlin"), "Europe/Berlin"),
        (("Europe/Berlin", "Asia/Tokyo"), "Asia/Tokyo and Europe/Berlin"),
    ],
)
def test_a_version_of_before_was_in_the_zones_of_its_columns(
    zones: tuple[str | None, str | None], written: str
) -> None:
    streams = {
        name: WrittenColumns("ts", {"ts": str(pa.timestamp("us", zone)), "x": "int64"})
        for name, zone in zip("ab", zones)
    }
    old = replace(version(), zone=None, streams=streams)
    for zone in ("UTC", "Europe/Berlin", "Asia/Tokyo"):
        if zone == written:
            old.check_zone(zone, "here")
        else:
            with pytest.raises(CheckpointError, match=f"local times in {written}, and this run has"):
                old.check_zone(zone, "here")


def test_queries_of_a_version_of_before_have_not_changed() -> None:
    """Timestamps that name no zone were read as UTC then."""
    text = "SELECT count(*) AS n FROM t [RANGE '1 s'] WHERE ts > TIMESTAMP '2024-01-01{}'"
    (now,), (then,) = weft.sql(text.format("")), weft.sql(text.format(" 00:00:00Z"))
    assert now != then
    assert version().as_given((now,)) == (now,)
    assert version(zone=None).as_given((now,)) == (then,)


@pytest.mark.parametrize("broken", [{}, {"queries": [{"kind": "window"}]}, {"stages": {"joins": {}}}])
def test_a_version_that_is_not_whole_is_refused(broken: dict[str, object]) -> None:
    from weft.store.sealed import seal

    body = {**json.loads(version("a").to_json()), **broken} if broken else {}
    body = {name: value for name, value in body.items() if name not in ("crc", "format")}
    with pytest.raises(CheckpointError, match="not a whole version of queries"):
        QueryVersion.from_json(seal(body))


def test_layouts_are_read_from_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "0000000003.json").write_bytes(version("a").to_json())
    assert read_layout(str(tmp_path), 3, "joins") == {"chains": []}
    with pytest.raises(CheckpointError, match=r"missing, .*registry/0000000004.json'; restore"):
        read_layout(str(tmp_path), 4, "joins")
