"""Parquet files: splits along row groups, and only the wanted columns read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import JobError
from weft.files.chunk import ROWS, Chunk
from weft.files.split import Found, Split
from weft.filesystem import resolve


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


def find_splits(found: Found) -> list[Split]:
    """One split per row group."""
    with open_file(found.path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        return [Split(found.path, g.total_byte_size, (i,)) for i, g in enumerate(groups) if g.num_rows]


def read(split: Split, schema: pa.Schema, dictionaries: Sequence[str]) -> Iterator[Chunk]:
    """The rows of a split, in the wanted columns and types; ``dictionaries`` stay dictionary-encoded."""
    with open_file(split.path, dictionaries) as file:
        missing = [name for name in schema.names if name not in file.schema_arrow.names]
        if missing:
            raise JobError(f"it has no column '{missing[0]}'")
        groups = range(file.num_row_groups) if split.row_groups is None else split.row_groups
        for group in groups:
            rows = file.metadata.row_group(group).num_rows
            # A whole row group at once where it is not much too large: a batch never crosses row groups.
            parts = max(1, round(rows / ROWS))
            for batch in file.iter_batches(
                -(-rows // parts), row_groups=[group], columns=schema.names, use_threads=False
            ):
                yield Chunk(_typed(pa.Table.from_batches([batch]).select(schema.names), schema))


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the wanted types, dictionaries kept as they are."""
    for place, field in enumerate(schema):
        type = table.schema.field(place).type
        if pa.types.is_dictionary(type) and type.value_type == field.type:
            continue
        if type != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(field.type))
    return table
