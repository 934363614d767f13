"""Reading files: good ones, odd ones, and ones that cannot be read."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.errors import JobError
from weft.io.files import Chunk, Files

UTC = datetime.UTC
NOON = datetime.datetime(2024, 1, 1, 12, tzinfo=UTC)


def read(files: Files, tasks: int = 1) -> tuple[pa.Table, int, list[str]]:
    """All rows, how many were bad, and the files left out."""
    shares, skipped = files.splits(files.find(), tasks)
    chunks = [c for share in shares for c in files.read(share, files.stream_schema())]
    empty = Chunk(files.stream_schema().empty_table())
    together = pa.concat_tables([c.table for c in (empty, *chunks)])
    return together, sum(c.bad for c in chunks), [*skipped, *(s for c in chunks for s in c.skipped)]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_rows_of_the_wrong_width_are_skipped_and_counted(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "ts,x\n2024-01-01T12:00:00Z,1\nbroken\n1,2,3\n2024-01-01T12:00:00Z,2\n")
    table, bad, _ = read(Files(tmp_path, format="csv"))
    assert table.to_pydict() == {"ts": [NOON, NOON], "x": [1, 2]}
    assert bad == 2


def test_csv_values_of_another_type_become_null_and_are_counted(tmp_path: Path) -> None:
    rows = [f"2024-01-01T12:00:00Z,{i}" for i in range(1000)]
    rows[500], rows[501], rows[502] = "2024-01-01T12:00:00Z,many", "yesterday,7", "broken"
    write(tmp_path / "a.csv", "\n".join(["ts,x", *rows]))
    table, bad, _ = read(Files(tmp_path, format="csv", schema={"ts": "timestamp", "x": "bigint"}))
    assert bad == 3
    assert table.num_rows == 999
    assert table.column("x").to_pylist()[500] is None
    assert table.column("ts").to_pylist()[501] is None
    assert table.column("x").to_pylist()[502:] == list(range(503, 1000))


def test_csv_rows_before_a_bad_value_are_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.io.files.read_csv.BLOCK_BYTES", 1000)
    rows = [str(i) if i != 900 else "x" for i in range(1000)]
    rows[10] = "too,wide"
    write(tmp_path / "a.csv", "\n".join(["x", *rows]))
    table, bad, _ = read(Files(tmp_path, format="csv", schema={"x": "bigint"}))
    assert bad == 2
    assert table.column("x").to_pylist() == [i if i != 900 else None for i in range(1000) if i != 10]


@pytest.mark.parametrize(
    "time", ["2024-01-01T12:00:00", "2024-01-01 12:00:00.000", "2024-01-01T13:00:00+01:00"]
)
def test_times_without_a_zone_are_utc_where_a_zone_is_wanted(tmp_path: Path, time: str) -> None:
    write(tmp_path / "a.csv", f"ts\n{time}\n")
    write(tmp_path / "a.json", json.dumps({"ts": time}))
    for file_format in ("csv", "json"):
        for dtype in ("timestamp", pa.timestamp("us", "Asia/Tokyo")):
            table, bad, _ = read(
                Files(tmp_path / f"a.{file_format}", format=file_format, schema={"ts": dtype})
            )
            assert (table.column("ts").to_pylist(), bad) == ([NOON], 0)


def test_csv_empty_cells_are_null_and_quoted_ones_empty_text(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", 's,x\n,1\n"",\n')
    table, bad, _ = read(Files(tmp_path, format="csv", schema={"s": "string", "x": "bigint"}))
    assert (table.to_pydict(), bad) == ({"s": [None, ""], "x": [1, None]}, 0)


def test_csv_text_that_is_not_utf8(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", b"s\ngood\n\xff\xfe\n")
    table, bad, _ = read(Files(tmp_path, format="csv", schema={"s": "string"}))
    assert (table.column("s").to_pylist(), bad) == (["good", None], 1)


def test_csv_without_header(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "1;a\n2;b\n")
    files = Files(tmp_path, format="csv", header=False, delimiter=";", schema={"x": "bigint", "s": "string"})
    assert read(files)[0].to_pydict() == {"x": [1, 2], "s": ["a", "b"]}


def test_json_bad_lines_and_values(tmp_path: Path) -> None:
    lines = [
        '{"ts": "2024-01-01T12:00:00.000Z", "x": 1, "other": [1]}',
        "{broken",
        "",
        '{"x": "many"}',
        "[1]",
    ]
    write(tmp_path / "a.json", "\n".join(lines))
    table, bad, _ = read(Files(tmp_path, format="json", schema={"ts": "timestamp", "x": "bigint"}))
    assert (table.to_pydict(), bad) == ({"ts": [NOON, None], "x": [1, None]}, 3)


def test_json_schema_is_found(tmp_path: Path) -> None:
    write(
        tmp_path / "a.json", "nonsense\n" + '{"ts": "2024-01-01T12:00:00.5Z", "x": 1, "s": "a", "n": null}\n'
    )
    schema = Files(tmp_path, format="json").stream_schema()
    assert schema == pa.schema(
        {"ts": pa.timestamp("us", "UTC"), "x": pa.int64(), "s": pa.string(), "n": pa.string()}
    )


def test_parquet_is_split_along_row_groups(tmp_path: Path) -> None:
    for number in range(2):
        table = pa.table({"x": range(number * 1000, number * 1000 + 1000), "unread": ["a" * 100] * 1000})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=100)
    files = Files(tmp_path, schema={"x": "bigint"})
    shares, _ = files.splits(files.find(), 3)
    assert len(shares) == 1, "too little for more than one task"
    found = read(files, 3)[0]
    assert found.column("x").to_pylist() == list(range(2000))


def test_parquet_types_are_brought_to_the_schema(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "s": ["a"]}), tmp_path / "a.parquet")
    files = Files(tmp_path, schema={"x": "bigint", "s": "string"})
    share = files.splits(files.find(), 1)[0][0]
    chunk = next(files.read(share, files.stream_schema(), keys=["s"]))
    assert chunk.table.schema.field("x").type == pa.int64()
    assert pa.types.is_dictionary(chunk.table.schema.field("s").type)


def test_parquet_cut_short_is_named_or_skipped(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(1000)}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    write(tmp_path / "b.parquet", whole[: len(whole) // 2])
    with pytest.raises(JobError, match=r"b\.parquet' cannot be read as parquet.*on_bad_file='skip'"):
        read(Files(tmp_path))
    table, _, skipped = read(Files(tmp_path, on_bad_file="skip"))
    assert table.num_rows == 1000
    assert skipped == [str(tmp_path / "b.parquet")]


def test_parquet_without_a_wanted_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [1]}), tmp_path / "a.parquet")
    with pytest.raises(JobError, match=r"a\.parquet'.*no column 'x'"):
        read(Files(tmp_path, schema={"x": "bigint"}))


def test_hidden_and_empty_files_are_left_out_and_globs_match(tmp_path: Path) -> None:
    for name in ("_SUCCESS", ".a.crc", "b.txt"):
        write(tmp_path / name, "nonsense")
    write(tmp_path / "empty.csv", "")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    write(tmp_path / "deep" / "er" / "a b%20.csv", "x\n1\n")
    for path in (tmp_path / "deep", tmp_path / "d*", f"file:{tmp_path}/deep/*/*.csv"):
        assert read(Files(path, format="csv"))[0].to_pydict() == {"x": [1]}


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there are no files in"):
        Files(tmp_path).stream_schema()
    with pytest.raises(JobError, match="does not exist"):
        Files(tmp_path / "nowhere").stream_schema()
    write(tmp_path / "empty.csv", "")
    with pytest.raises(JobError, match="has columns; give schema="):
        Files(tmp_path, format="csv").stream_schema()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "format must be one of parquet, csv, json"),
        ({"on_bad_file": "hide"}, "'fail' or 'skip'"),
        ({"header": False, "format": "csv"}, "need a schema"),
        ({"max_files_per_batch": 0}, "at least 1"),
    ],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(JobError, match=message):
        Files("x", **options)  # type: ignore[arg-type]


def test_unknown_type() -> None:
    with pytest.raises(JobError, match="unknown type 'bigin'; did you mean 'bigint'"):
        Files("x", schema={"x": "bigin"}).stream_schema()
