"""The slice store: what is committed, what is refused, and how it stays small."""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.errors import CheckpointError
from weft.operators.windows.answer import final
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.prepare import partial
from weft.operators.windows.program import Program
from weft.operators.windows.state import Piece, State
from weft.sql import sql
from weft.store import layers as layering
from weft.store.layers import add_layer, catch_up, read_layer, rebuild
from weft.store.manifest import Layer, Manifest
from weft.store.slice_store import SliceStore
from weft.store.versions import Version

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
MINUTE = 60_000_000
QUERIES = """
-- name: short
SELECT k, sum(x) AS s FROM t [RANGE '2 min' SLIDE '1 min'] GROUP BY k;
-- name: long
SELECT max(x) AS m FROM t [RANGE '30 min' SLIDE '10 min']
"""


def batch(minute: int, rows: int = 20) -> pa.Table:
    """Rows of one minute, with a null among the keys."""
    ts = [START + datetime.timedelta(minutes=minute, seconds=i) for i in range(rows)]
    return pa.table({"ts": ts, "k": ["a", None, "b", "c"] * (rows // 4), "x": range(minute, minute + rows)})


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_plan(weft.plan(weft.sql(QUERIES)), batch(0).schema, "ts")


def manifest(
    program: Program, seq: int, layers: tuple[Layer, ...] = (), batch_id: int | None = None
) -> Manifest:
    return Manifest(
        seq=seq,
        token=f"t{seq}",
        kind="batch",
        batch_id=seq - 1 if batch_id is None else batch_id,
        version=program.version,
        buckets=1,
        watermark=None,
        seen={"rows": 0, "late": 0, "untimed": 0, "bad": 0, "max_time": None},
        layers=(layers,),
    )


def pieces_of(minute: int, program: Program) -> list[Piece]:
    return partial(batch(minute), program, None, 1).pieces


def watermark_of(minute: int) -> int:
    return int(START.timestamp() * 1e6) + minute * MINUTE


@pytest.mark.slow
def test_a_long_run_keeps_few_files_and_every_state_can_be_rebuilt(tmp_path: Path, program: Program) -> None:
    place = str(tmp_path)
    store = SliceStore(place)
    state, layers, most = State(program), (), 0
    for seq in range(1, 151):
        pieces, watermark = pieces_of(seq, program), watermark_of(seq)
        before = rebuild(place, layers, 0, None if seq == 1 else watermark_of(seq - 1), program)
        _, from_files = final(before, pieces, watermark, program)
        state, from_memory = final(state, pieces, watermark, program)
        assert from_files == from_memory
        layers = add_layer(place, layers, pieces, state, (seq, f"t{seq}-0"), watermark, program)
        store.publish(manifest(program, seq, layers))
        most = max(most, len(os.listdir(tmp_path / "slices")))
    assert most <= 3 * 2 * layering.MAX_LAYERS
    assert len(os.listdir(tmp_path / "manifests")) == 10
    assert sum(layer.rows for layer in layers) <= 3 * state.rows
    assert all(a.last < b.first for a, b in pairwise(layers))


def test_layers_that_no_window_needs_are_dropped(tmp_path: Path, program: Program) -> None:
    pieces = pieces_of(0, program)
    layers = add_layer(str(tmp_path), (), pieces, State(program), (1, "a"), None, program)
    assert layers[0].needed_until == watermark_of(30)
    assert add_layer(str(tmp_path), layers, [], State(program), (2, "b"), watermark_of(29), program) == layers
    assert add_layer(str(tmp_path), layers, [], State(program), (2, "b"), watermark_of(30), program) == ()


def test_what_is_answered_at_once_is_never_written(tmp_path: Path, program: Program) -> None:
    pieces = pieces_of(0, program)
    assert add_layer(str(tmp_path), (), pieces, State(program), (1, "a"), watermark_of(30), program) == ()
    (layer,) = add_layer(str(tmp_path), (), pieces, State(program), (1, "a"), watermark_of(5), program)
    assert {file.grouping for file in layer.files} == {1}, "only the long window is still open"


def test_catching_up_is_as_rebuilding(tmp_path: Path, program: Program) -> None:
    place, layers = str(tmp_path), ()
    old = State(program)
    for seq in range(1, 5):
        layers = add_layer(
            place, layers, pieces_of(seq, program), State(program), (seq, f"t{seq}"), None, program
        )
        if seq == 2:
            catch_up(place, old, layers, watermark_of(2))
    catch_up(place, old, [layer for layer in layers if layer.last > 2], watermark_of(3))
    fresh = rebuild(place, layers, 0, watermark_of(3), program)
    caught_up, rebuilt = (final(state, [], watermark_of(60), program)[1] for state in (old, fresh))
    assert caught_up.keys() == rebuilt.keys()
    for name, table in caught_up.items():
        order = [(column, "ascending") for column in table.column_names]
        assert table.sort_by(order) == rebuilt[name].sort_by(order)


def test_a_checkpoint_opens_where_it_was(tmp_path: Path, program: Program) -> None:
    store = SliceStore(str(tmp_path))
    assert (store.last, store.is_done(0)) == (None, False)
    for seq in (1, 2):
        store.publish(manifest(program, seq))
    again = SliceStore(str(tmp_path))
    assert again.last == manifest(program, 2)
    assert again.stream == store.stream
    assert [again.is_done(batch_id) for batch_id in (0, 1, 2)] == [True, True, False]


@pytest.mark.parametrize(
    "stray",
    [
        "manifests/12abc.json",
        "manifests/12.json",
        "manifests/0000000009 (copy).json",
        "manifests/\u0663\u0663.json",
        "registry/7 old.json",
        "slices/12abc.parquet",
        "slices/9.parquet",
    ],
)
def test_files_that_are_not_the_stores_own_are_left_alone(
    tmp_path: Path, program: Program, stray: str
) -> None:
    SliceStore(str(tmp_path)).publish(manifest(program, 1))
    (tmp_path / stray).write_text("not ours")
    again = SliceStore(str(tmp_path))
    assert again.last == manifest(program, 1)
    again.publish(manifest(program, 2))
    assert again.next_version() == 1
    assert (tmp_path / stray).read_text() == "not ours"


def test_a_gap_is_refused(tmp_path: Path, program: Program) -> None:
    store = SliceStore(str(tmp_path))
    store.publish(manifest(program, 1))
    with pytest.raises(CheckpointError, match=r"Spark is at batch 3, but .* no manifest of batch 2"):
        store.is_done(3)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format": 1, "crc": 1}', b"[]"])
def test_a_damaged_manifest_is_stepped_over_once(tmp_path: Path, program: Program, damage: bytes) -> None:
    store = SliceStore(str(tmp_path))
    for seq in (1, 2, 3):
        store.publish(manifest(program, seq))
    newest = tmp_path / "manifests" / "0000000003.json"
    newest.write_bytes(damage)
    again = SliceStore(str(tmp_path))
    assert again.last == manifest(program, 2)
    assert not again.is_done(2), "Spark has not finished batch 2 either, and gives it again"
    with pytest.raises(CheckpointError, match="Spark is at batch 3"):
        again.is_done(3)
    again.publish(manifest(program, 3))
    assert SliceStore(str(tmp_path)).last == manifest(program, 3)
    newest.write_bytes(damage)
    (tmp_path / "manifests" / "0000000002.json").write_bytes(damage)
    with pytest.raises(CheckpointError, match=r"newest manifests .* are damaged; restore"):
        SliceStore(str(tmp_path))


def test_a_changed_number_in_a_manifest_is_noticed(tmp_path: Path, program: Program) -> None:
    SliceStore(str(tmp_path)).publish(manifest(program, 1))
    path = tmp_path / "manifests" / "0000000001.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "batch_id": 7}))
    with pytest.raises(CheckpointError, match="damaged"):
        SliceStore(str(tmp_path))


def test_a_manifest_of_another_version_is_not_stepped_over(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SliceStore(str(tmp_path))
    store.publish(manifest(program, 1))
    monkeypatch.setattr("weft.store.manifest.FORMAT", 99)
    store.publish(manifest(program, 2))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="another version of weft"):
        SliceStore(str(tmp_path))


def test_files_of_attempts_that_failed_are_swept_away(tmp_path: Path, program: Program) -> None:
    store = SliceStore(str(tmp_path))
    layers = add_layer(str(tmp_path), (), pieces_of(0, program), State(program), (1, "good"), None, program)
    add_layer(str(tmp_path), (), pieces_of(0, program), State(program), (1, "failed"), None, program)
    add_layer(str(tmp_path), (), pieces_of(0, program), State(program), (2, "running"), None, program)
    store.publish(manifest(program, 1, layers))
    SliceStore(str(tmp_path))
    kept = {name.split("-")[-1] for name in os.listdir(tmp_path / "slices")}
    assert kept == {"good.parquet", "running.parquet"}


def test_two_runs_at_once_are_noticed(tmp_path: Path, program: Program) -> None:
    one, other = SliceStore(str(tmp_path)), SliceStore(str(tmp_path))
    one.publish(manifest(program, 1))
    with pytest.raises(CheckpointError, match="another run has committed step 1"):
        other.publish(manifest(program, 1))


def test_the_version_of_the_next_step_is_found(tmp_path: Path, program: Program) -> None:
    store = SliceStore(str(tmp_path))
    assert (store.version(), store.next_version()) == (None, 1)
    for number, seq in ((1, 1), (2, 2), (3, 3)):
        store.write_version(Version.of(replace(program, version=number), seq, program.queries))
    assert store.version() == Version.of(program, 1, program.queries), (
        "as after a crash before the first commit"
    )
    store.publish(manifest(program, 1))
    again = SliceStore(str(tmp_path))
    assert again.version().version == 2
    assert again.next_version() == 4, "a number is never given twice"
    with pytest.raises(CheckpointError, match="another run has changed the queries"):
        again.write_version(Version.of(program, 1, ()))


def test_versions_that_no_layer_needs_are_swept_away(tmp_path: Path, program: Program) -> None:
    store = SliceStore(str(tmp_path))
    for number in (1, 2, 3, 4):
        store.write_version(Version.of(replace(program, version=number), number, ()))
    layers = add_layer(str(tmp_path), (), pieces_of(0, program), State(program), (1, "a"), None, program)
    store.publish(manifest(program, 1, layers))
    store.publish(replace(manifest(program, 2, layers), version=3))
    SliceStore(str(tmp_path))
    left = sorted(int(p.stem) for p in (tmp_path / "registry").iterdir())
    assert left == [1, 3, 4], "that of the layer, of the last step, and of the next"


def test_a_damaged_version_is_said(tmp_path: Path, program: Program) -> None:
    store = SliceStore(str(tmp_path))
    store.write_version(Version.of(program, 1, ()))
    path = tmp_path / "registry" / "0000000001.json"
    path.write_text(path.read_text().replace('"short"', '"shirt"'))
    with pytest.raises(CheckpointError, match=r"damaged, .*its checksum does not match; restore"):
        store.version()
    path.unlink()
    store.publish(manifest(program, 1))
    with pytest.raises(CheckpointError, match=r"queries of checkpoint .* are missing"):
        store.version()


def test_another_stream_is_refused(program: Program) -> None:
    version = Version.of(program, 1, program.queries)
    version.check(program.schema, "ts", "here")
    with pytest.raises(CheckpointError, match="time column is 'ts', not 'when'"):
        version.check(program.schema, "when", "here")
    other = pa.schema([f if f.name != "x" else pa.field("x", pa.string()) for f in program.schema])
    with pytest.raises(CheckpointError, match="column 'x' is int64, not string"):
        version.check(other, "ts", "here")
    with pytest.raises(CheckpointError, match="column 'x' is int64, not missing"):
        version.check(program.schema.remove(2), "ts", "here")


def test_a_run_in_another_zone_is_refused(program: Program) -> None:
    version = Version.from_json(Version.of(replace(program, zone="Europe/Berlin"), 1, ()).to_json())
    version.check(program.schema, "ts", "here", "Europe/Berlin")
    with pytest.raises(
        CheckpointError, match=r"'here' was written with local times in Europe/Berlin, .* in Asia/Tokyo; set"
    ):
        version.check(program.schema, "ts", "here", "Asia/Tokyo")


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
    program: Program, zones: tuple[str | None, str | None], written: str
) -> None:
    types = {name: str(pa.timestamp("us", zone)) for name, zone in zip(("ts", "at"), zones)}
    version = replace(Version.of(program, 1, ()), zone=None, types={**types, "x": "int64"})
    for zone in ("UTC", "Europe/Berlin", "Asia/Tokyo"):
        if zone == written:
            version.check_zone(zone, "here")
        else:
            with pytest.raises(CheckpointError, match=f"local times in {written}, and this run has"):
                version.check_zone(zone, "here")


def test_queries_of_a_version_of_before_have_not_changed(program: Program) -> None:
    """Timestamps that name no zone were read as UTC then."""
    (now,) = sql("SELECT count(*) AS n FROM t [RANGE '1 s'] WHERE ts > TIMESTAMP '2024-01-01'")
    (then,) = sql("SELECT count(*) AS n FROM t [RANGE '1 s'] WHERE ts > TIMESTAMP '2024-01-01 00:00:00Z'")
    assert now != then
    version = Version.of(program, 1, (then,))
    assert version.as_given((now,)) == (now,)
    assert replace(version, zone=None).as_given((now,)) == (then,)


def test_a_place_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("here")
    with pytest.raises(CheckpointError, match=r"cannot use .*file' as checkpoint"):
        SliceStore(str(file))
    with pytest.raises(CheckpointError, match="choose a directory"):
        SliceStore("/proc/weft")


def test_slice_files_are_checked(tmp_path: Path, program: Program) -> None:
    (layer,) = add_layer(str(tmp_path), (), pieces_of(0, program), State(program), (1, "a"), None, program)
    path = tmp_path / "slices" / layer.files[0].name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"damaged, '{path}'"):
        read_layer(str(tmp_path), layer, 0, program)
    path.unlink()
    with pytest.raises(CheckpointError, match=f"missing, '{path}'"):
        read_layer(str(tmp_path), layer, 0, program)
