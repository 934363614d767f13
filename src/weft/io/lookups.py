"""The sources of lookup tables: a table, a path whose files may change, or a function that gives one."""

from __future__ import annotations

import logging
import os
import uuid
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from weft.errors import JobError, WeftError
from weft.io.arrow import as_table
from weft.io.files import Files, ListedFile

TableSource: TypeAlias = Any
"""A table of any library, a Spark DataFrame, ``Files`` or a path, or a function that gives one of these."""

SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as it is for some time; ``files`` are those it was read from, ``id`` names the version."""

    table: pa.Table
    files: tuple[ListedFile, ...] | None
    id: str


def load_version(name: str, source: TableSource, held: TableVersion | None) -> TableVersion:
    """Read the table behind a source; return the version that is held where it is still the same."""
    try:
        content = source() if callable(source) else source
        files = _files(content)
        listed = None if files is None else tuple(files.find())
        if held is not None and listed is not None and listed == held.files:
            return held
        table = as_table(content) if files is None else _read(name, files)
    except WeftError as error:
        raise JobError(f"table {name!r}: {error}") from error
    except Exception as error:
        raise JobError(f"table {name!r} cannot be read: {type(error).__name__}: {error}") from error
    if held is not None and table.equals(held.table):
        return replace(held, files=listed)
    return TableVersion(table, listed, uuid.uuid4().hex)


def _files(content: TableSource) -> Files | None:
    """Return the files behind a path, None for anything else; made anew, so that types are read anew."""
    if isinstance(content, Files):
        return replace(content)
    if not isinstance(content, str | os.PathLike):
        return None
    return Files(content, format=format_of(content))


def _read(name: str, files: Files) -> pa.Table:
    chunks = list(files)
    bad = sum(chunk.bad for chunk in chunks)
    if bad:
        log.warning("table %r: %d rows or values of '%s' cannot be read, and are left out", name, bad, files)
    for path in (path for chunk in chunks for path in chunk.skipped):
        log.warning("table %r: file '%s' cannot be read, and is left out", name, path)
    return pa.concat_tables(
        [files.stream_schema().empty_table(), *(c.table for c in chunks)]
    ).combine_chunks()


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the names of the files at a path end with; Parquet where they have no ending.

    >>> format_of("close.csv")
    'csv'
    """
    names = [os.fspath(path)]
    if os.path.splitext(names[0].lower())[1] not in SUFFIXES:
        names = [file.path for file in Files(path).find()]
    suffixes = (os.path.splitext(name.lower())[1] for name in names)
    formats = {SUFFIXES[suffix] for suffix in suffixes if suffix in SUFFIXES}
    if len(formats) > 1:
        raise JobError(f"'{path}' holds files of several formats; name one with format=...")
    return formats.pop() if formats else "parquet"
