"""Parquet files: splits along row groups, and only the wanted columns read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import JobError
from weft.io.files.chunk import CHUNK_ROWS, Chunk, least_of, marks_before
from weft.io.files.split import FileSplit, ListedFile
from weft.io.filesystem import resolve
from weft.model.instants import END_OF_TIME


def open_file(path: str, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file, its footer read."""
    system, path = resolve(path)
    return pq.ParquetFile(
        system.open_input_file(path),
        read_dictionary=list(dictionaries),
        coerce_int96_timestamp_unit="us",
        pre_buffer=system.type_name != "local",
    )


def find_schema(path: str) -> pa.Schema:
    """The columns of a file."""
    with open_file(path) as file:
        return file.schema_arrow.remove_metadata()


def find_splits(listed: ListedFile, time: str | None = None) -> list[FileSplit]:
    """One split per row group, with the least value of the column ``time``, if one is named."""
    with open_file(listed.path) as file:
        meta = file.metadata
        groups = [(i, meta.row_group(i)) for i in range(meta.num_row_groups)]
        places = [n for n in range(meta.num_columns) if meta.schema.column(n).path == time]
        scale = _microseconds(meta.schema.column(places[0])) if len(places) == 1 else None
        return [
            FileSplit(
                listed.path,
                group.total_byte_size,
                (i,),
                () if time is None else (None if scale is None else _least(group.column(places[0]), scale),),
                (group.num_rows,),
            )
            for i, group in groups
            if group.num_rows
        ]


def _microseconds(column: pq.ColumnSchema) -> Fraction | None:
    """Return the microseconds in one unit of a column of times; None where its statistics are of no use."""
    if column.physical_type != "INT64" or column.logical_type.type != "TIMESTAMP":
        return None
    units = {"milliseconds": Fraction(1000), "microseconds": Fraction(1), "nanoseconds": Fraction(1, 1000)}
    return units.get(json.loads(column.logical_type.to_json())["timeUnit"])


def _least(chunk: pq.ColumnChunkMetaData, scale: Fraction) -> int | None:
    """Return the least time of a row group by its statistics; END_OF_TIME: all are null, None: not known."""
    statistics = chunk.statistics
    if statistics is None:
        return None
    if statistics.has_min_max:
        return floor(statistics.min_raw * scale)
    return END_OF_TIME if statistics.has_null_count and statistics.null_count == chunk.num_values else None


def read(split: FileSplit, schema: pa.Schema, dictionaries: Sequence[str]) -> Iterator[Chunk]:
    """The rows of a split, in the wanted columns and types; ``dictionaries`` stay dictionary-encoded."""
    with open_file(split.path, dictionaries) as file:
        missing = [name for name in schema.names if name not in file.schema_arrow.names]
        if missing:
            raise JobError(f"it has no column '{missing[0]}'")
        groups = range(file.num_row_groups) if split.row_groups is None else split.row_groups
        least = split.least or (None,) * len(groups)
        for group, own, after in zip(groups, least, marks_before(least)):
            rows = file.metadata.row_group(group).num_rows
            # A whole row group at once where it is not much too large: a batch never crosses row groups.
            parts = max(1, round(rows / CHUNK_ROWS))
            left = rows
            for batch in file.iter_batches(
                -(-rows // parts), row_groups=[group], columns=schema.names, use_threads=False
            ):
                left -= batch.num_rows
                table = _typed(pa.Table.from_batches([batch]).select(schema.names), schema)
                yield Chunk(table, mark=least_of((own, after)) if left else after)


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the wanted types, dictionaries kept as they are."""
    for place, field in enumerate(schema):
        dtype = table.schema.field(place).type
        if pa.types.is_dictionary(dtype) and dtype.value_type == field.type:
            continue
        if dtype != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(field.type))
    return table
