"""Lookups: the columns of lookup tables put beside the rows, once per batch for all queries.

Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 6, query 4. Each row's keys are looked up by hash; a column
of the table then is a dictionary of which the rows hold places, so that what a query computes of the table
alone is computed once per row of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from weft.errors import JobError
from weft.expr.evaluate import Evaluator
from weft.expr.kernels.calendar import in_zone
from weft.expr.types import UTC, sql_type
from weft.model.expression import Column, Expr
from weft.operators.keys import KeyIndex
from weft.operators.lookups.bind import BoundLookup, plain_type


class LookupIndex:
    """One version of a table, indexed by the keys of one lookup.

    Its keys must be unique, so that a row of the stream is never multiplied. A null in a key equals nothing.

    >>> key = (Column("s"), "symbol", pa.string())
    >>> lookup = BoundLookup("close[s = symbol]", "close", (key,), (("cp", "cp", pa.float64()),))
    >>> close = LookupIndex(lookup, pa.table({"symbol": ["A", None, "B"], "cp": [1.5, 2.5, 3.5]}))
    >>> rows, bad = Lookups([close]).extend(pa.record_batch({"s": ["B", "C", None, "A"]}))
    >>> rows["cp"].to_pylist(), bad
    ([3.5, None, None, 1.5], 0)
    """

    def __init__(self, lookup: BoundLookup, table: pa.Table) -> None:
        self.lookup = lookup
        dtypes = {column: dtype for _, column, dtype in lookup.columns}
        columns = {name: _column(lookup, table, name, dtype) for name, dtype in dtypes.items()}
        keys = [_key_column(lookup, table, column, dtype) for _, column, dtype in lookup.keys]
        usable = np.ones(table.num_rows, dtype=np.bool_)
        for key in keys:
            usable &= key.is_valid().to_numpy(zero_copy_only=False)
        rows = pa.array(np.flatnonzero(usable))
        self._index = KeyIndex([key.type for key in keys])
        numbers = self._index.encode([key.take(rows) for key in keys])
        # The first row of each key, by the key's number.
        order, first = np.arange(len(numbers)), np.empty(len(self._index), dtype=np.int64)
        first[numbers[::-1]] = order[::-1]
        repeated = np.flatnonzero(first[numbers] != order)
        if repeated.size:
            raise _twice(lookup, table.slice(rows[int(repeated[0])].as_py(), 1))
        rows = rows.take(pa.array(first))
        self._columns = [(name, columns[column].take(rows)) for name, column, _ in lookup.columns]

    def extend(self, batch: pa.RecordBatch, strict: bool, zone: str) -> tuple[pa.RecordBatch, int]:
        """The batch with the table's columns, and how many keys could not be computed."""
        evaluator = Evaluator(batch, strict=strict, zone=zone)
        keys = [_key(evaluator, expr, dtype) for expr, _, dtype in self.lookup.keys]
        numbers = self._index.find(keys)
        places = pa.array(numbers, pa.int32(), mask=numbers < 0)
        for name, values in self._columns:
            batch = batch.append_column(name, pa.DictionaryArray.from_arrays(places, values, safe=False))
        return batch, evaluator.bad


class Lookups:
    """The lookup tables of a program's queries, in an order in which each finds what it is looked up by."""

    def __init__(self, indexes: Sequence[LookupIndex] = ()) -> None:
        self.indexes = tuple(indexes)

    def extend(
        self, batch: pa.RecordBatch, strict: bool = False, zone: str = UTC
    ) -> tuple[pa.RecordBatch, int]:
        """The batch with the columns of all tables, and how many keys could not be computed."""
        bad = 0
        for index in self.indexes:
            batch, failed = index.extend(batch, strict, zone)
            bad += failed
        return batch, bad


NO_LOOKUPS = Lookups()
NUMERIC_TYPES = {"bigint", "double"}


def _key(evaluator: Evaluator, expr: Expr, dtype: pa.DataType) -> pa.Array:
    """Return what rows are looked up by; of a dictionary only the distinct values are converted."""
    if isinstance(expr, Column):
        column = evaluator.batch.column(expr.name)
        if isinstance(column, pa.DictionaryArray):
            distinct = Evaluator(pa.record_batch({expr.name: column.dictionary}))
            values = _comparable(distinct.evaluate(expr), dtype)
            return pa.DictionaryArray.from_arrays(column.indices, values, safe=False)
    return _comparable(evaluator.evaluate(expr), dtype)


def _comparable(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Values in the type in which they are compared; times as instants in its zone, whatever theirs."""
    if pa.types.is_timestamp(dtype):
        return (values if pa.types.is_null(values.type) else in_zone(values, dtype.tz)).cast(pa.int64())
    return values.cast(dtype, safe=False)


def _key_column(lookup: BoundLookup, table: pa.Table, name: str, dtype: pa.DataType) -> pa.Array:
    """A key of the table in the type in which it is compared."""
    column = _arrow_column(lookup, table, name)
    if pa.types.is_null(column.type):
        return _comparable(pa.nulls(len(column), dtype), dtype)
    kinds = (sql_type(column.type), sql_type(dtype))
    if kinds[0] != kinds[1] and kinds != ("bigint", "double"):
        column = _column(lookup, table, name, dtype)
    return _comparable(Evaluator(pa.record_batch({name: column})).evaluate(Column(name)), dtype)


def _column(lookup: BoundLookup, table: pa.Table, name: str, dtype: pa.DataType) -> pa.Array:
    """A column of the table in the type that it had when the queries were checked."""
    column = _arrow_column(lookup, table, name)
    given = plain_type(column.type)
    if given != column.type:
        column = column.cast(given)
    if given == dtype:
        return column
    if {sql_type(given), sql_type(dtype)} <= NUMERIC_TYPES or sql_type(given) == sql_type(dtype):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column.cast(dtype)
    raise JobError(
        f"table {lookup.table!r}: the column {name!r} is {given} now, and was {dtype} when the queries "
        "began; give it the same type"
    )


def _arrow_column(lookup: BoundLookup, table: pa.Table, name: str) -> pa.Array:
    if table.column_names.count(name) != 1:
        raise JobError(
            f"table {lookup.table!r} has no column {name!r}, which queries need; "
            f"its columns are {', '.join(table.column_names)}"
        )
    return table.column(name).unify_dictionaries().combine_chunks()


def _twice(lookup: BoundLookup, row: pa.Table) -> JobError:
    key_text = ", ".join(f"{column} = {row.column(column)[0].as_py()!r}" for _, column, _ in lookup.keys)
    return JobError(
        f"table {lookup.table!r} has more than one row with {key_text}; a row of the stream meets one "
        "row of a table at most: remove the others, or join by more columns"
    )
