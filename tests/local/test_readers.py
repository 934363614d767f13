"""Readers of a run in this process: a run that goes on from any position gets every row once, in order."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.brokers import Broker
from support.plain_chunks import as_chunks, is_bounded
from support.seeds import seeded_random
from weft.errors import JobError
from weft.io.files import Chunk, Files, read_csv, read_json, read_parquet, source
from weft.io.files.chunk import regroup
from weft.io.files.split import ListedFile
from weft.io.kafka import Kafka
from weft.io.sources.generated import Generated
from weft.io.sources.ranges import Offsets, Range, Ranged
from weft.local.file_history import MAX_SEPARATE_LISTINGS, FileHistory
from weft.local.readers import InputReader, Read, reader_of
from weft.store.positions import log_names

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "n": pa.int64()})
FORMATS = ("parquet", "csv", "json")


@dataclass
class FolderLog:
    """Notes in a folder, each written once."""

    folder: Path

    def write(self, name: str, data: bytes) -> None:
        file = self.folder / name
        assert not file.exists() or file.read_bytes() == data
        file.write_bytes(data)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@dataclass(frozen=True)
class Numbers(Ranged):
    """Numbers in partitions of these lengths, some rows in a chunk; every seventh number is a gap."""

    lengths: dict[str, int]
    chunk_rows: int = 3
    max_rows_per_batch: int | None = None
    reads: list[list[str]] = field(default_factory=list)

    def stream_schema(self) -> pa.Schema:
        return SCHEMA

    def first(self) -> dict[str, int]:
        return dict.fromkeys(self.lengths, 0)

    def latest(self, start: Offsets) -> dict[str, int]:
        return dict(self.lengths)

    def check(self, ranges: Sequence[Range]) -> None:
        pass

    def read(self, ranges: Iterable[Range], schema: pa.Schema) -> Iterator[Chunk]:
        for span in ranges:
            self.reads.append(schema.names)
            numbers = [n for n in range(span.start, span.end) if n % 7 != 6]
            for start in range(0, len(numbers), self.chunk_rows):
                rows = numbers[start : start + self.chunk_rows]
                table = table_of([int(span.partition) * 1000 + n for n in rows]).select(schema.names)
                yield Chunk(table, origins=((span.partition, len(rows)),), place=rows[-1] + 1)


def table_of(numbers: Sequence[int]) -> pa.Table:
    return pa.table({"ts": pa.array(numbers, pa.int64()).cast(SCHEMA.field("ts").type), "n": numbers}, SCHEMA)


def columns() -> tuple[Sequence[str], Sequence[str]]:
    return SCHEMA.names, ()


def shown(chunk: Chunk) -> tuple[Any, ...]:
    """All that a chunk says but its place."""
    table = chunk.table.select(["n"]).to_pydict()["n"]
    return table, chunk.bad, chunk.skipped, chunk.origins, chunk.unread, chunk.mark


def stored(position: Any) -> Any:
    return json.loads(json.dumps(position, sort_keys=True))


def in_runs(reader: Callable[[], InputReader], kills: Sequence[int]) -> list[tuple[Any, ...]]:
    """The chunks of runs that are killed after so many chunks each, and of the last one, which is not."""
    chunks, position = [], None
    for kill in [*kills, None]:
        for read in islice(reader().reads(columns, position), kill):
            assert read is not None
            chunks.append(shown(read.chunk))
            position = stored(read.position)
    return chunks


def write(path: Path, numbers: Sequence[int], row_group_rows: int = 4, changed: int | None = None) -> None:
    """A file in the format that its name says."""
    table = table_of(numbers)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=row_group_rows)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    if changed is not None:
        os.utime(path, (changed, changed))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of about five rows; row groups and texts come in still smaller parts."""
    monkeypatch.setattr(source, "regroup", partial(regroup, rows=5))
    monkeypatch.setattr(read_parquet, "CHUNK_ROWS", 3)
    monkeypatch.setattr(read_csv, "BLOCK_BYTES", 64)
    monkeypatch.setattr(read_json, "BLOCK_BYTES", 100)
    monkeypatch.setattr(read_json, "LINES_PER_CHUNK", 2)


@pytest.fixture
def log(tmp_path_factory: pytest.TempPathFactory) -> FolderLog:
    return FolderLog(tmp_path_factory.mktemp("log"))


KILLS = st.lists(st.integers(0, 6), max_size=4)
SIZES = st.lists(st.integers(0, 12), max_size=5)


@given(st.lists(st.lists(st.integers(0, 50), max_size=4), min_size=1, max_size=6), KILLS)
def test_tables(numbers: list[list[int]], kills: list[int]) -> None:
    tables = [table_of(each) for each in numbers]
    reader = partial(reader_of, tables, "ts")
    assert in_runs(reader, kills) == list(map(shown, as_chunks(tables, "ts")))
    assert reader().bounded and reader().schema == SCHEMA
    assert reader().position_for_next_run(len(tables)) == 0


@given(st.lists(st.lists(st.integers(0, 50), max_size=4), min_size=1, max_size=6), KILLS)
def test_iterators(numbers: list[list[int]], kills: list[int]) -> None:
    tables = [table_of(each) for each in numbers]
    assert in_runs(lambda: reader_of(iter(tables), "ts"), kills) == list(
        map(shown, as_chunks(iter(tables), "ts"))
    )
    live = reader_of(iter([None, tables[0], None, *tables[1:]]), "ts", live=True)
    assert [None if read is None else read.position for read in live.reads(columns, None)] == [
        1,
        None,
        *range(2, len(tables) + 1),
    ]


@pytest.mark.parametrize("made", [iter, list])
def test_batches_that_are_missing_when_a_run_goes_on(made: Callable[[list[pa.Table]], Any]) -> None:
    with pytest.raises(JobError, match="had taken 3 batches, and this one is given 2; give it the same"):
        list(reader_of(made([table_of([1])] * 2), "ts").reads(columns, 3))
    with pytest.raises(JobError, match="no batch"):
        reader_of(made([]), "ts")


@pytest.mark.parametrize(
    ("batches", "bounded"),
    [(table_of([1]), True), ([table_of([1])], True), (iter([table_of([1])]), False), (Generated(), True)],
)
def test_bounded_inputs(batches: Any, bounded: bool) -> None:
    assert is_bounded(batches) == reader_of(batches, "ts").bounded == bounded


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.none() | st.integers(1, 40), KILLS)
def test_numbered_rows(lengths: list[int], most: int | None, kills: list[int]) -> None:
    numbers = Numbers({str(n): length for n, length in enumerate(lengths)}, max_rows_per_batch=most)
    chunks = in_runs(lambda: reader_of(numbers, "ts"), kills)
    assert chunks == list(map(shown, as_chunks(numbers, "ts")))


@given(st.none() | st.integers(4_000, 20_000), KILLS)
@settings(max_examples=20)
def test_generated_rows(most: int | None, kills: list[int]) -> None:
    generated = Generated("clicks", 20_000, max_rows_per_batch=most)

    def tables(reads: Iterable[Read | None]) -> Iterator[pa.Table]:
        for read in reads:
            assert read is not None
            positions.append(stored(read.position))
            yield read.chunk.table

    def whole_columns() -> tuple[Sequence[str], Sequence[str]]:
        return generated.stream_schema().names, ()

    positions: list[Any] = [None]
    parts = []
    for kill in [*kills, None]:
        parts += islice(tables(reader_of(generated, "ts").reads(whole_columns, positions[-1])), kill)
    assert parts == [chunk.table for chunk in generated]


def test_a_live_source_goes_on() -> None:
    lengths = {"0": 5, "1": 0}
    reader = reader_of(numbers := Numbers(lengths, 10), "ts", live=True)
    names = ["n"]
    reads = reader.reads(lambda: (names, ()), None)
    first = next(reads)
    assert first is not None and shown(first.chunk)[0] == [0, 1, 2, 3, 4]
    assert first.position == {"offsets": {"0": 5, "1": 0}, "until": {}}
    assert (next(reads), next(reads)) == (None, None)
    lengths |= {"0": 7, "1": 2, "2": 1}
    names.append("ts")
    rest = list(islice(reads, 3))
    assert [shown(read.chunk)[0] for read in rest if read is not None] == [[5], [1000, 1001], [2000]]
    # The last number of partition 0 is a gap: known to be over once another partition was begun.
    assert rest[1] is not None and rest[1].position == {"offsets": {"0": 7, "1": 2}, "until": {"2": 1}}
    assert next(reads) is None and numbers.reads == [["n"], ["n", "ts"], ["n", "ts"], ["n", "ts"]]
    assert reader.position_for_next_run(rest[1].position) == rest[1].position and not reader.bounded


@pytest.mark.parametrize("suffix", FORMATS)
@given(sizes=SIZES.filter(any), kills=KILLS, rows=st.integers(1, 9))
@settings(max_examples=12)
@pytest.mark.usefixtures("small_chunks")
def test_files(suffix: str, sizes: list[int], kills: list[int], rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as notes:
        at, first = Path(folder), 0
        for number, size in enumerate(sizes):
            write(at / f"{number}.{suffix}", range(first, first + size), rows, changed=number + 1)
            first += size
        files = Files(at, suffix, SCHEMA)
        chunks = in_runs(lambda: reader_of(files, "ts", log=FolderLog(Path(notes))), kills)
        assert (
            chunks == list(map(shown, as_chunks(files, "ts"))) == in_runs(lambda: reader_of(files, "ts"), ())
        )
        assert [n for numbers, *_ in chunks for n in numbers] == list(range(first))


@pytest.mark.parametrize("live", [False, True])
@given(runs=st.lists(st.tuples(SIZES, st.integers(0, 9)), min_size=1, max_size=5), most=st.integers(1, 3))
@settings(max_examples=12)
@pytest.mark.usefixtures("small_chunks")
def test_files_that_come_between(live: bool, runs: list[tuple[list[int], int]], most: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as notes:
        at, first, name, position = Path(folder), 0, 0, None
        numbers: list[int] = []
        for sizes, kill in [*runs, ([1], 10_000)]:
            for size in sizes:
                # A name before the others, as one that comes later may have.
                write(at / f"{9999 - name}.parquet", range(first, first + size), changed=name + 1)
                first, name = first + size, name + 1
            files = Files(at, "parquet", SCHEMA, max_files_per_batch=most)
            if not name and not live:
                continue
            for read in islice(
                reader_of(files, "ts", live=live, log=FolderLog(Path(notes))).reads(columns, position), kill
            ):
                if read is None:
                    break
                numbers += read.chunk.table["n"].to_pylist()
                position = stored(read.position)
        assert numbers == list(range(first))


def test_marks_know_the_files_that_came_since(tmp_path: Path, log: FolderLog) -> None:
    write(tmp_path / "a.parquet", [5], changed=1)
    write(tmp_path / "b.parquet", [7], changed=2)
    files = Files(tmp_path, "parquet", SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "regroup", partial(regroup, rows=1))
        (first,) = islice(reader_of(files, "ts", log=log).reads(columns, None), 1)
        assert first is not None and first.chunk.mark == 7
        write(tmp_path / "c.parquet", [3], changed=3)
        reads = list(reader_of(files, "ts", log=log).reads(columns, first.position))
    assert [shown(read.chunk)[0] for read in reads if read is not None] == [[7], [3]]
    assert reads[0] is not None and reads[0].chunk.mark == 3


def test_many_files_keep_positions_small(tmp_path: Path, log: FolderLog) -> None:
    listed = [ListedFile(f"{tmp_path}/a-long-name-of-a-file-{n}.json", n + 1, n) for n in range(500)]
    history = FileHistory.of(log, None)
    positions = []
    for file in listed:
        assert history.is_read() and history.new_among([*listed[:3], file])[-1:] == [file]
        history.take([file])
        history.end_listing()
        positions.append(stored(history.position()))
    assert max(len(json.dumps(position)) for position in positions) < 500
    assert max(len(log_names(position)) for position in positions) <= MAX_SEPARATE_LISTINGS + 10
    written = sum(file.stat().st_size for file in log.folder.iterdir())
    assert written < 8 * sum(len(file.path) + 20 for file in listed)
    for number in (0, 99, 499):
        history = FileHistory.of(log, positions[number])
        assert history.is_read() and history.new_among(listed) == listed[number + 1 :]


def test_listings_of_any_sizes_stay_few(log: FolderLog) -> None:
    random = seeded_random("listings")
    history = FileHistory.of(log, None)
    for step in range(150):
        sizes = random.choice([1, 1, 30, 150 - step])
        history.take([ListedFile(f"{step}-{n}", 1, 1) for n in range(sizes)])
        history.end_listing()
        assert len(log_names(history.position())) <= MAX_SEPARATE_LISTINGS + 13


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("suffix", FORMATS)
def test_files_that_change(suffix: str, tmp_path: Path, log: FolderLog) -> None:
    write(tmp_path / f"a.{suffix}", range(6), changed=1)
    write(tmp_path / f"b.{suffix}", range(6, 20), changed=2)
    write(tmp_path / f"c.{suffix}", [20], changed=3)
    files = Files(tmp_path, suffix, SCHEMA)
    reads = list(reader_of(files, "ts", log=log).reads(columns, None))
    half = next(read.position for read in reads if read is not None and read.position["rows"])
    assert half["file"] == 1
    # Those that were read, and those that were not begun, may change.
    write(tmp_path / f"a.{suffix}", [77], changed=4)
    write(tmp_path / f"c.{suffix}", [21], changed=5)
    rest = list(reader_of(files, "ts", log=log).reads(columns, half))
    numbers = [n for read in rest if read is not None for n in read.chunk.table["n"].to_pylist()]
    assert numbers == [*range(6 + half["rows"], 20), 21]
    write(tmp_path / f"b.{suffix}", range(6, 21), changed=2)
    with pytest.raises(
        JobError, match=rf"b.{suffix}' has changed, and the stream has counted \d+ of its rows"
    ):
        next(reader_of(files, "ts", log=log).reads(columns, half))
    (tmp_path / f"b.{suffix}").unlink()
    with pytest.raises(JobError, match=rf"b.{suffix}' is gone"):
        next(reader_of(files, "ts", log=log).reads(columns, half))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_that_change_in_the_middle_of_a_file(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / f"a.{suffix}", range(40), row_group_rows=9)
    names = ["n"]
    numbers: list[int] = []
    with_time: list[bool] = []
    for read in reader_of(Files(tmp_path, suffix, SCHEMA), "ts").reads(lambda: ([*names], ()), None):
        assert read is not None and read.position is None
        numbers += read.chunk.table["n"].to_pylist()
        with_time.append("ts" in read.chunk.table.column_names)
        names[1:] = ["ts"] if len(numbers) >= 15 else []
    assert numbers == list(range(40)) and not with_time[0]
    # Text is read one part ahead.
    assert with_time == sorted(with_time) and sum(with_time) >= 3


@pytest.mark.usefixtures("small_chunks")
def test_bad_lines_and_files_are_counted_once(tmp_path: Path, log: FolderLog) -> None:
    lines = [json.dumps({"n": n, "ts": "2024-01-01T00:00:00"}) for n in range(30)]
    for place in (3, 11, 12, 28):
        lines[place] = "broken"
    (tmp_path / "a.json").write_text("\n".join(lines))
    (tmp_path / "b.json").write_text("[")
    os.utime(tmp_path / "a.json", (1, 1))
    files = Files(tmp_path, "json", SCHEMA, on_bad_file="skip")
    chunks = list(map(shown, as_chunks(files, "ts")))
    assert sum(bad for _, bad, *_ in chunks) == 4 and chunks[-1][2] == (str(tmp_path / "b.json"),)
    for kill in range(1, len(chunks) + 1):
        assert in_runs(lambda: reader_of(files, "ts", log=log), [kill, 1]) == chunks


def test_parquet_files_left_out_are_behind_the_stream(tmp_path: Path, log: FolderLog) -> None:
    write(tmp_path / "a.parquet", [1], changed=1)
    (tmp_path / "b.parquet").write_text("no")
    pq.write_table(table_of([]), tmp_path / "c.parquet")
    files = Files(tmp_path, "parquet", SCHEMA, on_bad_file="skip")
    reads = list(reader_of(files, "ts", log=log).reads(columns, None))
    assert [read.chunk.skipped for read in reads if read is not None] == [(str(tmp_path / "b.parquet"),), ()]
    assert reads[-1] is not None and reads[-1].position["file"] == 3
    assert not list(reader_of(files, "ts", log=log).reads(columns, reads[-1].position))


def test_no_files(tmp_path: Path, log: FolderLog) -> None:
    reader = reader_of(Files(tmp_path, "csv", SCHEMA), "ts", log=log)
    with pytest.raises(JobError, match="there are no files"):
        next(reader.reads(columns, None))
    write(tmp_path / "a.csv", [1])
    (read,) = reader.reads(columns, None)
    (tmp_path / "a.csv").unlink()
    assert read is not None and not list(reader.reads(columns, read.position))


@pytest.mark.slow
def test_a_topic() -> None:
    broker = Broker()
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    rows = [{"ts": (start + datetime.timedelta(seconds=n)).isoformat(), "n": n} for n in range(300)]
    broker.send("numbers", [*rows[:100], b"broken", *rows[100:]], partitions=3)
    topic = Kafka(broker.servers, "numbers", schema={"ts": "timestamp", "n": "bigint"}, max_rows_per_batch=70)
    whole = in_runs(lambda: reader_of(topic, "ts"), ())
    assert sorted(n for numbers, *_ in whole for n in numbers) == list(range(300))
    assert whole == list(map(shown, as_chunks(topic, "ts")))
    assert in_runs(lambda: reader_of(topic, "ts"), [1, 3, 2]) == whole
