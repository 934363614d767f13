"""``Files``: a folder, a glob or a list of Parquet, CSV or JSON files, as a source that reads itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from weft.errors import JobError
from weft.io.files import read_csv, read_json, read_parquet
from weft.io.files.chunk import Chunk, least_of, marks_before, regroup
from weft.io.files.listing import list_files
from weft.io.files.read_csv import CsvOptions
from weft.io.files.split import FileSplit, ListedFile, balance, join_row_groups
from weft.io.files.types import read_schema
from weft.io.filesystem import uri

FORMATS = ("parquet", "csv", "json")
READ_ERRORS = (OSError, pa.ArrowException, JobError, UnicodeDecodeError)
Columns: TypeAlias = Callable[[], tuple[Sequence[str], Sequence[str]]]
"""The columns to read from now on, and those of them that are best read as dictionaries."""
MIN_TASK_BYTES = 4 << 20
"""Bytes below which a task of its own is not worth its start."""


class FilePlace(NamedTuple):
    """A place in a list of files: the number of a file, and how many of its rows come before."""

    file: int
    rows: int = 0


FIRST_PLACE = FilePlace(0)


@dataclass(frozen=True)
class Files:
    """Files read with pyarrow, in the very task that aggregates them.

    ``path`` is a folder (with all below it), a glob, a file, or a list of those; names that begin with ``_``
    or ``.`` are left out, as Spark does. Files are taken in the order of their last change, then of names,
    each name once: a stream does not read a file again that was changed after it was taken.
    ``schema`` maps columns to types, and is found in the first file where it is not given. ``on_bad_file``
    says whether a file that cannot be read stops the run (``fail``) or is left out and reported (``skip``).
    ``delimiter``, ``header`` and ``quote`` are for CSV.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("ts,price\\n2024-01-01T00:00:00Z,1.5\\nbroken\\n")
    >>> files = Files(folder, format="csv")
    >>> [(chunk.table.column("price").to_pylist(), chunk.bad) for chunk in files]
    [([1.5], 1)]
    """

    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    format: str = "parquet"
    schema: pa.Schema | Mapping[str, str | pa.DataType] | None = None
    max_files_per_batch: int | None = None
    on_bad_file: str = "fail"
    delimiter: str = ","
    header: bool = True
    quote: str = '"'
    places: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise JobError(f"format must be one of {', '.join(FORMATS)}, not {self.format!r}")
        if self.on_bad_file not in ("fail", "skip"):
            raise JobError(f"on_bad_file must be 'fail' or 'skip', not {self.on_bad_file!r}")
        if self.max_files_per_batch is not None and self.max_files_per_batch < 1:
            raise JobError(f"max_files_per_batch must be at least 1, not {self.max_files_per_batch}")
        if not self.header and self.schema is None:
            raise JobError("CSV files without a header need a schema; give schema={'column': 'type', ...}")
        several = [self.path] if isinstance(self.path, str | os.PathLike) else self.path
        object.__setattr__(self, "places", tuple(uri(p) for p in several))

    def __iter__(self) -> Iterator[Chunk]:
        """All rows that there are now, and what could not be read of the files."""
        return self.chunks(self.stream_schema().names)

    def chunks(
        self, columns: Sequence[str], keys: Sequence[str] = (), time: str | None = None
    ) -> Iterator[Chunk]:
        """Return the rows in these columns; text columns in ``keys`` may come as dictionaries.

        With the column of event times, ``time``, chunks say what is unread, as far as files have statistics.
        """
        self._schema_with(columns)
        return self.read_listing(self.find(), lambda: (columns, keys), time)

    def arrivals(self) -> Iterator[Chunk | None]:
        """Yield the rows of files as they come, and None whenever all that have come were read.

        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> arrivals = Files(folder, "json", schema={"n": "bigint"}).arrivals()
        >>> next(arrivals)
        >>> (folder / "a.json").write_text('{"n": 1}')
        8
        >>> next(arrivals).table.column("n").to_pylist()
        [1]
        """
        names, taken = self.stream_schema().names, set[str]()
        while True:
            present = (f for f in list_files(self.places) if f.size > 0 and f.path not in taken)
            new = list(islice(present, self.max_files_per_batch))
            taken |= {f.path for f in new}
            yield from self.read_listing(new, lambda: (names, ()))
            if not new:
                yield None

    def read_listing(
        self,
        files: Sequence[ListedFile],
        columns: Columns,
        time: str | None = None,
        start: FilePlace = FIRST_PLACE,
    ) -> Iterator[Chunk]:
        """Yield the rows of files, in their order, from a place on; each chunk has the place after it.

        Columns may change on the way. With ``time``, chunks say what is unread of these files.
        """
        parts, skipped = self._splits(files[start.file :], time)
        splits = join_row_groups(parts)
        numbers = {file.path: number for number, file in enumerate(files)}
        starts = [FilePlace(numbers[split.path]) for split in splits] + [FilePlace(len(files))]
        if start.rows and splits and starts[0].file == start.file:
            starts[0] = start
        if skipped:
            empty = self._schema_with(columns()[0]).empty_table()
            yield Chunk(empty, skipped=tuple(skipped), place=starts[0])
        marks = marks_before([least_of(split.least or (None,)) for split in splits])
        yield from regroup(
            replace(chunk, mark=least_of((chunk.mark, mark)))
            for split, mark, own, following in zip(splits, marks, starts, starts[1:])
            for chunk in _with_places(self._read_on(split, columns, own.rows), split, own, following)
        )

    def _read_on(self, split: FileSplit, columns: Columns, done: int) -> Iterator[Chunk]:
        """Yield the rows of a file after the first ``done``, opened again where columns have changed."""
        while True:
            selection = columns()
            rest, skip = split.after(done)
            schema = self._schema_with(selection[0])
            for chunk in _without_first(self._read_split(rest, schema, selection[1]), skip):
                yield chunk
                done += chunk.table.num_rows
                if columns() != selection:
                    break
            else:
                return

    def _schema_with(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of these columns; JobError where one is there several times."""
        available = self.stream_schema()
        for name in columns:
            if available.names.count(name) > 1:
                raise JobError(f"'{self}' has several columns '{name}'; name them apart")
        return pa.schema([available.field(name) for name in columns])

    def find(self) -> list[ListedFile]:
        """Return the files that are there now, oldest first, then by name; JobError where there are none."""
        files = list_files(self.places)
        if not files:
            raise JobError(f"there are no files in '{self}'; check the path")
        return [f for f in files if f.size > 0]

    def __str__(self) -> str:
        return ", ".join(self.places)

    @cached_property
    def _schema(self) -> pa.Schema:
        if self.schema is not None:
            return read_schema(self.schema)
        for file in self.find():
            try:
                schema = self._schema_of(file.path)
            except READ_ERRORS as error:
                self._fail(file.path, error)
                continue
            if schema.names:
                return schema
        raise JobError(f"no file in '{self}' has columns; give schema={{'column': 'type', ...}}")

    def stream_schema(self) -> pa.Schema:
        """The columns, as given or as found in the first file."""
        return self._schema

    def splits(self, files: Iterable[ListedFile], tasks: int) -> tuple[list[list[FileSplit]], list[str]]:
        """Return the share of each task, and the files left out because they cannot be read."""
        splits, skipped = self._splits(files)
        return [join_row_groups(share) for share in balance(splits, tasks, MIN_TASK_BYTES)], skipped

    def _splits(
        self, files: Iterable[ListedFile], time: str | None = None
    ) -> tuple[list[FileSplit], list[str]]:
        """Return the splits in order, with the least values of the column ``time`` where these are known, and
        the files left out."""
        if self.format != "parquet":
            return [FileSplit(f.path, f.size) for f in files], []
        splits: list[FileSplit] = []
        skipped: list[str] = []
        with ThreadPoolExecutor(16) as pool:
            for file, result in pool.map(partial(self._try_splits, time=time), files):
                if isinstance(result, Exception):
                    self._fail(file.path, result)
                    skipped.append(file.path)
                else:
                    splits += result
        return splits, skipped

    def read(
        self, share: Iterable[FileSplit], schema: pa.Schema, keys: Sequence[str] = ()
    ) -> Iterator[Chunk]:
        """The rows of a task's share, in large chunks; text columns in ``keys`` may come as dictionaries."""
        return regroup(chunk for split in share for chunk in self._read_split(split, schema, keys))

    def _read_split(self, split: FileSplit, schema: pa.Schema, keys: Sequence[str]) -> Iterator[Chunk]:
        rows = bad = 0
        try:
            for chunk in self._chunks_of(split, schema, keys):
                rows, bad = rows + chunk.table.num_rows, bad + chunk.bad
                yield chunk
        except READ_ERRORS as error:
            self._fail(split.path, error)
            yield Chunk(schema.empty_table(), skipped=(split.path,))
            return
        if bad and not rows:
            # Bad rows stop no stream; but a file without any other is one that was left out.
            yield Chunk(schema.empty_table(), skipped=(split.path,))

    def _chunks_of(self, split: FileSplit, schema: pa.Schema, keys: Sequence[str]) -> Iterator[Chunk]:
        if self.format == "parquet":
            text = [k for k in keys if k in schema.names and pa.types.is_string(schema.field(k).type)]
            return read_parquet.read(split, schema, text)
        if self.format == "csv":
            return read_csv.read(split, schema, self._csv())
        return read_json.read(split, schema)

    def _try_splits(
        self, file: ListedFile, time: str | None
    ) -> tuple[ListedFile, list[FileSplit] | Exception]:
        try:
            return file, read_parquet.find_splits(file, time)
        except READ_ERRORS as error:
            return file, error

    def _schema_of(self, path: str) -> pa.Schema:
        if self.format == "parquet":
            return read_parquet.find_schema(path)
        return (
            read_csv.find_schema(path, self._csv()) if self.format == "csv" else read_json.find_schema(path)
        )

    def _csv(self) -> CsvOptions:
        names = () if self.header else tuple(self.stream_schema().names)
        return CsvOptions(self.delimiter, self.header, self.quote, names)

    def _fail(self, path: str, error: Exception) -> None:
        if self.on_bad_file == "fail":
            raise JobError(
                f"file '{path}' cannot be read as {self.format}: {error}; "
                "repair or remove it, or leave such files out with on_bad_file='skip'"
            ) from error


def _with_places(
    chunks: Iterable[Chunk], split: FileSplit, start: FilePlace, following: FilePlace
) -> Iterator[Chunk]:
    """Yield the chunks of a file, each with the place after it; after its last one that is ``following``.

    A Parquet file knows how many rows it has. Chunks of text, which are small, are held until the next one.
    """
    rows, total, last = start.rows, sum(split.rows), None
    for chunk in chunks:
        rows += chunk.table.num_rows
        if last is not None:
            yield last
        last = replace(chunk, place=start._replace(rows=rows))
        if rows < total and not chunk.skipped:
            yield last
            last = None
    if last is not None:
        yield replace(last, place=following)


def _without_first(chunks: Iterator[Chunk], rows: int) -> Iterator[Chunk]:
    """Yield chunks without so many rows at their beginning."""
    while rows and (chunk := next(chunks, None)) is not None:
        rows -= chunk.table.num_rows
        if rows < 0 or chunk.skipped:
            yield replace(chunk, table=chunk.table.slice(chunk.table.num_rows + rows))
            rows = 0
    yield from chunks
