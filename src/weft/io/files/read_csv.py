"""CSV files: rows of the wrong width are skipped, values that cannot be read become null; both are counted.
Quoted values may span lines; a file with a quote that is never closed is refused.

A file is read in the fastest way that works: with the wanted types at once, with times taken as UTC, or,
from the first value that fits neither, as text that is then cast value by value where needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from weft.errors import JobError
from weft.io.files.chunk import Chunk
from weft.io.files.quotes import QuotedFile
from weft.io.files.split import FileSplit
from weft.io.files.text import open_text
from weft.io.files.types import cast_leniently, inferred_schema

BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The dialect of a CSV file."""

    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    names: tuple[str, ...] = ()


@dataclass(slots=True)
class _Skipped:
    """A counter of the rows of the wrong width."""

    rows: int = 0
    handler: Callable[[csv.InvalidRow], str] = field(init=False)

    def __post_init__(self) -> None:
        self.handler = self._skip

    def _skip(self, row: csv.InvalidRow) -> str:
        self.rows += 1
        return "skip"


def find_schema(path: str, options: CsvOptions) -> pa.Schema:
    """Return the columns of a file, their types inferred from its first block."""
    convert = csv.ConvertOptions(timestamp_parsers=[csv.ISO8601])
    with _open(path, options, _Skipped(), convert) as (reader, _):
        return inferred_schema(reader.schema)


def read(split: FileSplit, schema: pa.Schema, options: CsvOptions) -> Iterator[Chunk]:
    """Yield the rows of a file, in the columns and types of the schema."""
    done = 0
    for mode in (_typed, _in_utc):
        try:
            for chunk in mode(split.path, schema, options, done):
                done += 1
                yield chunk
            return
        except (pa.ArrowInvalid, UnicodeDecodeError):
            # Some value does not fit. Chunks that were given, one for each block, are not given again.
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
        for column, target in zip(chunk.table.columns, schema):
            text, unreadable = _decoded(column.combine_chunks())
            array, unfit = cast_leniently(text, target.type)
            columns.append(array)
            bad += unreadable + unfit
        yield Chunk(pa.table(columns, schema=schema), bad)


def _convert(path: str, schema: pa.Schema, options: CsvOptions, done: int) -> Iterator[Chunk]:
    """The file's rows after the first ``done`` blocks."""
    skipped = _Skipped()
    convert = csv.ConvertOptions(
        column_types=schema,
        include_columns=schema.names,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        timestamp_parsers=[csv.ISO8601],
    )
    counted = 0
    with _open(path, options, skipped, convert) as (reader, quotes):
        for number, batch in enumerate(reader):
            _check(quotes)
            if number >= done:
                yield Chunk(pa.Table.from_batches([batch]), skipped.rows - counted)
            counted = skipped.rows
        _check(quotes)
        if skipped.rows > counted:
            # No batch came after these.
            yield Chunk(schema.empty_table(), skipped.rows - counted)


def _check(quotes: QuotedFile | None) -> None:
    if quotes is not None and quotes.problem is not None:
        raise JobError(quotes.problem)


@contextmanager
def _open(
    path: str, options: CsvOptions, skipped: _Skipped, convert: csv.ConvertOptions
) -> Iterator[tuple[csv.CSVStreamingReader, QuotedFile | None]]:
    """A reader of a file, and the file's quotes as they are read."""
    source = open_text(path).stream
    quotes = QuotedFile(source, options.delimiter, options.quote) if options.quote else None
    try:
        with _reader(quotes or source, options, skipped, convert) as reader:
            yield reader, quotes
    except KeyError as error:
        raise JobError(f"it has no such column: {error}") from error
    except pa.ArrowInvalid as error:
        # pyarrow knows that rows are not as they should be, but not why.
        _check(quotes)
        if "straddl" in str(error):
            raise JobError(
                f"it has a row of more than {BLOCK_BYTES >> 20} MB; is a quote not closed?"
            ) from error
        raise


def _reader(
    source: pa.NativeFile | QuotedFile, options: CsvOptions, skipped: _Skipped, convert: csv.ConvertOptions
) -> csv.CSVStreamingReader:
    return csv.open_csv(
        source,
        read_options=csv.ReadOptions(
            block_size=BLOCK_BYTES,
            use_threads=False,
            column_names=None if options.header else list(options.names),
        ),
        parse_options=csv.ParseOptions(
            delimiter=options.delimiter,
            quote_char=options.quote or False,
            newlines_in_values=bool(options.quote),
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
