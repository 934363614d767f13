"""Files that are not what they seem: read right, or refused by name; never read as few rows, or none."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

from support.seeds import seeded_random
from weft.errors import JobError
from weft.io.files import Files
from weft.io.files.quotes import QuotedFile

SCHEMA = {"s": "string", "x": "bigint"}
ROWS = "".join(f"r{n},{n}\n" for n in range(10))
OBJECTS = '{"s": "a", "x": 1}\n{"s": "b", "x": 2}\n'


def read(folder: Path, file_format: str, **options: object) -> tuple[list[str | None], int, list[str]]:
    """The texts of all rows, how many rows and values were bad, and the names of files left out."""
    chunks = list(Files(folder, format=file_format, schema=SCHEMA, **options))  # type: ignore[arg-type]
    texts = [text for chunk in chunks for text in chunk.table.column("s").to_pylist()]
    return texts, sum(c.bad for c in chunks), [Path(name).name for c in chunks for name in c.skipped]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('s,x\n"r,1\n' + ROWS, "the quote in line 2 is never closed"),
        ("s,x\n" + ROWS + 'r,"1\nr,2\n', "the quote in line 12 is never closed"),
        ('s,x\n12" pipe,1\n"r,1\n' + ROWS, "the quote in line 3 is never closed"),
        ('\ufeff"s,x\n' + ROWS, "the quote in line 1 is never closed"),
        ('s,x\n"r,1\n' + ROWS + '"r,2\nr,3\n', "begins in line 2 is followed by text in line 13"),
    ],
)
def test_a_csv_quote_that_is_not_closed_is_said(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    (tmp_path / "good.csv").write_text("s,x\nr,1\n")
    with pytest.raises(
        JobError, match=rf"bad\.csv' cannot be read as csv: .*{message}; .*on_bad_file='skip'"
    ):
        read(tmp_path, "csv")
    assert read(tmp_path, "csv", on_bad_file="skip") == (["r"], 0, ["bad.csv"])


def test_quotes_that_belong_to_values_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.io.files.read_csv.BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text('s,x\n12" pipe,1\n"a ""b""",2\n"over\nlines",3\n"a"b,4\n' * 20)
    texts, bad, _ = read(tmp_path, "csv")
    assert texts == (['12" pipe', 'a "b"', "over\nlines", "ab", "s"] * 20)[:-1]
    assert bad == 19, "the lines of names between"


def test_a_quote_open_for_longer_than_a_block_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.io.files.read_csv.BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text('s,x\n"r,1\n' + ROWS * 100)
    with pytest.raises(JobError, match=r"a\.csv' cannot be read as csv: .*quote"):
        read(tmp_path, "csv")


def test_quotes_are_followed_as_pyarrow_does() -> None:
    random_text = seeded_random(16)
    for _ in range(2000):
        text = "".join(random_text.choices('a,"\n', k=random_text.randint(1, 24)))
        rows: list[str] = []
        file = QuotedFile(pa.BufferReader((text + "\nlast,of,all,rows\n").encode()), ",", '"')
        table = csv.read_csv(
            file,
            csv.ReadOptions(column_names=["one", "two"], use_threads=False),
            csv.ParseOptions(
                newlines_in_values=True,
                invalid_row_handler=lambda row, rows=rows: rows.append(row.text) or "skip",
            ),
        )
        assert table.num_columns == 2
        if file.problem is None:
            assert rows[-1] == "last,of,all,rows", text
        elif "never closed" in file.problem:
            assert "last,of,all,rows" not in rows, text


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused_by_name(tmp_path: Path, file_format: str, encoding: str) -> None:
    text = "s,x\n" + ROWS if file_format == "csv" else OBJECTS
    (tmp_path / "a").write_bytes(text.encode(encoding))
    with pytest.raises(JobError, match=r"a' cannot be read as .*: it is UTF-\d\d.*; convert it to UTF-8"):
        read(tmp_path, file_format)
    assert read(tmp_path, file_format, on_bad_file="skip") == ([], 0, ["a"])


@pytest.mark.parametrize("file_format", ["csv", "json"])
@pytest.mark.parametrize("named", ["a", "a.gz"])
@pytest.mark.parametrize("compressed", [gzip.compress, bz2.compress, bytes])
def test_compressed_text_is_read_whatever_its_name(
    tmp_path: Path, file_format: str, named: str, compressed: type[bytes]
) -> None:
    text = "s,x\na,1\nb,2\n" if file_format == "csv" else OBJECTS
    (tmp_path / named).write_bytes(compressed(b"\xef\xbb\xbf" + text.encode()))
    assert read(tmp_path, file_format) == (["a", "b"], 0, [])
    assert Files(tmp_path, format=file_format).stream_schema().names == ["s", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"s": "a", "x": 1}, {"s": "b", "x": 2}]', "one JSON array"),
        ('[{"s": "a", "x": 1},\n{"s": "b", "x": 2}]\n', "one JSON array"),
        ('\ufeff\n[\n{"s": "a", "x": 1},\n{"s": "b", "x": 2}\n]\n', "one JSON array"),
        ('{\n  "s": "a",\n  "x": 1\n}\n{\n  "s": "b",\n  "x": "no"\n}\n', "objects over several lines"),
    ],
)
def test_json_that_is_no_json_lines_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(JobError, match=rf"a\.json' cannot be read as json: .*{message}; write one object"):
        read(tmp_path, "json")
    assert read(tmp_path, "json", on_bad_file="skip") == ([], 0, ["a.json"])
    with pytest.raises(JobError, match=message):
        Files(tmp_path, format="json").stream_schema()


@pytest.mark.parametrize(
    ("file_format", "text"), [("csv", "s,x\nbroken\nbroken\n"), ("json", "broken\n[1]\n")]
)
def test_a_file_of_bad_rows_alone_is_told_of_and_stops_nothing(
    tmp_path: Path, file_format: str, text: str
) -> None:
    (tmp_path / "a").write_text(text)
    assert read(tmp_path, file_format) == ([], 2, ["a"])


def test_bad_rows_at_the_end_of_a_csv_file_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.io.files.read_csv.BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text("s,x\n" + ROWS + "broken\n" * 100)
    texts, bad, _ = read(tmp_path, "csv")
    assert (len(texts), bad) == (10, 100)


def test_a_column_that_is_there_twice_is_said_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("s,x,x\na,1,2\n")
    files = Files(tmp_path, format="csv")
    assert [chunk.table.to_pydict() for chunk in files.chunks(["s"])] == [{"s": ["a"]}]
    with pytest.raises(JobError, match="has several columns 'x'"):
        list(files)
