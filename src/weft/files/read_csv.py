"""CSV files: rows of the wrong width are skipped, values that cannot be read become null; both are counted.

A file is read in the fastest way that works: with the wanted types at once, with times taken as UTC, or,
from the first value that fits neither, as text that is then cast value by value where needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from weft.errors import JobError
from weft.files.chunk import Chunk
from weft.files.split import Split
from weft.files.types import cast_leniently, found_schema
from weft.filesystem import resolve

BLOCK = 8 << 20


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How the file is written."""

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class _Skipped:
    """Counts the rows of the wrong width."""

    rows: int = 0
    handler: Callable[[csv.InvalidRow], str] = field(init=False)

    def __post_init__(self) -> None:
        self.handler = self._skip

    def _skip(self, row: csv.InvalidRow) -> str:
        self.rows += 1
        return "skip"


def find_schema(path: str, options: CsvOptions) -> pa.Schema:
    """The columns of a file, their types found in its first block."""
    with _open(path, options, _Skipped(), csv.ConvertOptions(timestamp_parsers=[csv.ISO8601])) as reader:
        return found_schema(reader.schema)


def read(split: Split, schema: pa.Schema, options: CsvOptions) -> Iterator[Chunk]:
    """The rows of a file, in the wanted columns and types."""
    done = 0
    for mode in (_typed, _in_utc):
        try:
            for chunk in mode(split.path, schema, options, done):
                done += chunk.table.num_rows
                yield chunk
            return
        except (pa.ArrowInvalid, UnicodeDecodeError):
            # Some value does not fit. Rows that were given are not given again.
            continue
    yield from _as_text(split.path, schema, options, done)


def _typed(path: str, schema: pa.Schema, options: CsvOptions, done: int) -> Iterator[Chunk]:
    return _convert(path, schema, options, done)


def _in_utc(path: str, schema: pa.Schema, options: CsvOptions, done: int) -> Iterator[Chunk]:
    """Times written without a zone, where the schema has one."""
    if not any(pa.types.is_timestamp(f.type) and f.type.tz for f in schema):
        raise pa.ArrowInvalid("no time zone is wanted")
    plain = [f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in schema]
    for chunk in _convert(path, pa.schema(plain), options, done):
        columns = [
            pc.assume_timezone(c, "UTC").cast(f.type) if pa.types.is_timestamp(f.type) and f.type.tz else c
            for c, f in zip(chunk.table.columns, schema)
        ]
        yield Chunk(pa.table(columns, schema=schema), chunk.bad)


def _as_text(path: str, schema: pa.Schema, options: CsvOptions, done: int) -> Iterator[Chunk]:
    texts = pa.schema([(name, pa.binary()) for name in schema.names])
    for chunk in _convert(path, texts, options, done):
        bad, columns = chunk.bad, []
        for column, wanted in zip(chunk.table.columns, schema):
            text, unreadable = _decoded(column.combine_chunks())
            array, unfit = cast_leniently(text, wanted.type)
            columns.append(array)
            bad += unreadable + unfit
        yield Chunk(pa.table(columns, schema=schema), bad)


def _convert(path: str, schema: pa.Schema, options: CsvOptions, done: int) -> Iterator[Chunk]:
    """The file's rows after the first ``done``; the bad rows among those had been counted."""
    skipped = _Skipped()
    convert = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        timestamp_parsers=[csv.ISO8601],
    )
    try:
        reader = _open(path, options, skipped, convert)
    except KeyError as error:
        raise JobError(f"it has no such column: {error}") from error
    counted = 0
    with reader:
        for batch in reader:
            if done >= batch.num_rows:
                done, counted = done - batch.num_rows, skipped.rows
                continue
            yield Chunk(pa.Table.from_batches([batch.slice(done)]), skipped.rows - counted)
            done, counted = 0, skipped.rows


def _open(
    path: str, options: CsvOptions, skipped: _Skipped, convert: csv.ConvertOptions
) -> csv.CSVStreamingReader:
    system, path = resolve(path)
    return csv.open_csv(
        system.open_input_stream(path),
        read_options=csv.ReadOptions(
            block_size=BLOCK,
            use_threads=False,
            column_names=None if options.header else list(options.names),
        ),
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter,
            quote_char=options.quote or False,
            invalid_row_handler=skipped.handler,
        ),
        convert_options=convert,
    )


def _decoded(binary: pa.Array) -> tuple[pa.Array, int]:
    """Bytes as text; what is not UTF-8 becomes null, and is counted."""
    try:
        return binary.cast(pa.string()), 0
    except pa.ArrowInvalid:
        texts = [None if b is None else _text(b) for b in binary.to_pylist()]
        array = pa.array(texts, pa.string())
        return array, array.null_count - binary.null_count


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
