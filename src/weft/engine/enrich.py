"""Enrichment: the columns of static tables put beside the rows, once per batch for all queries.

Krishnamurthy, Wu, Franklin, SIGMOD 2006, section 6, query 4. Each row's keys are looked up by hash; a column
of the table then is a dictionary of which the rows hold places, so that what a query computes of the table
alone is computed once per row of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa

from weft.engine.bind import Join, plain_type
from weft.engine.keys import KeyIndex
from weft.errors import JobError
from weft.expr import UTC, Evaluator, sql_type
from weft.expr.kernels.calendar import in_zone
from weft.query import Column, Expr


class LookUp:
    """One version of a table, indexed by the keys of one join.

    Its keys must be unique, so that a row of the stream is never multiplied. A null in a key equals nothing.

    >>> key = (Column("s"), "symbol", pa.string())
    >>> join = Join("close[s = symbol]", "close", (key,), (("cp", "cp", pa.float64()),))
    >>> close = LookUp(join, pa.table({"symbol": ["A", None, "B"], "cp": [1.5, 2.5, 3.5]}))
    >>> rows, bad = Enrichment([close]).extend(pa.record_batch({"s": ["B", "C", None, "A"]}))
    >>> rows["cp"].to_pylist(), bad
    ([3.5, None, None, 1.5], 0)
    """

    def __init__(self, join: Join, table: pa.Table) -> None:
        self.join = join
        wanted = {column: type for _, column, type in join.columns}
        columns = {name: _column(join, table, name, type) for name, type in wanted.items()}
        keys = [_key_column(join, table, column, type) for _, column, type in join.keys]
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
            raise _twice(join, table.slice(rows[int(repeated[0])].as_py(), 1))
        rows = rows.take(pa.array(first))
        self._columns = [(name, columns[column].take(rows)) for name, column, _ in join.columns]

    def extend(self, batch: pa.RecordBatch, strict: bool, zone: str) -> tuple[pa.RecordBatch, int]:
        """The batch with the table's columns, and how many keys could not be computed."""
        evaluator = Evaluator(batch, strict=strict, zone=zone)
        keys = [_key(evaluator, expr, type) for expr, _, type in self.join.keys]
        found = self._index.find(keys)
        places = pa.array(found, pa.int32(), mask=found < 0)
        for name, values in self._columns:
            batch = batch.append_column(name, pa.DictionaryArray.from_arrays(places, values, safe=False))
        return batch, evaluator.bad


class Enrichment:
    """The tables that a program's queries join, in an order in which each finds what it is looked up by."""

    def __init__(self, look_ups: Sequence[LookUp] = ()) -> None:
        self.look_ups = tuple(look_ups)

    def extend(
        self, batch: pa.RecordBatch, strict: bool = False, zone: str = UTC
    ) -> tuple[pa.RecordBatch, int]:
        """The batch with the columns of all tables, and how many keys could not be computed."""
        bad = 0
        for look_up in self.look_ups:
            batch, failed = look_up.extend(batch, strict, zone)
            bad += failed
        return batch, bad


NO_TABLES = Enrichment()
NUMBERS = {"bigint", "double"}


def _key(evaluator: Evaluator, expr: Expr, type: pa.DataType) -> pa.Array:
    """What rows are looked up by; of a dictionary only the distinct values are converted."""
    if isinstance(expr, Column):
        column = evaluator.batch.column(expr.name)
        if isinstance(column, pa.DictionaryArray):
            distinct = Evaluator(pa.record_batch({expr.name: column.dictionary}))
            values = _comparable(distinct.evaluate(expr), type)
            return pa.DictionaryArray.from_arrays(column.indices, values, safe=False)
    return _comparable(evaluator.evaluate(expr), type)


def _comparable(values: pa.Array, type: pa.DataType) -> pa.Array:
    """Values in the type in which they are compared; times as instants in its zone, whatever theirs."""
    if pa.types.is_timestamp(type):
        return (values if pa.types.is_null(values.type) else in_zone(values, type.tz)).cast(pa.int64())
    return values.cast(type, safe=False)


def _key_column(join: Join, table: pa.Table, name: str, type: pa.DataType) -> pa.Array:
    """A key of the table in the type in which it is compared."""
    column = _found(join, table, name)
    if pa.types.is_null(column.type):
        return _comparable(pa.nulls(len(column), type), type)
    kinds = (sql_type(column.type), sql_type(type))
    if kinds[0] != kinds[1] and kinds != ("bigint", "double"):
        column = _column(join, table, name, type)
    return _comparable(Evaluator(pa.record_batch({name: column})).evaluate(Column(name)), type)


def _column(join: Join, table: pa.Table, name: str, type: pa.DataType) -> pa.Array:
    """A column of the table in the type that it had when the queries were checked."""
    column = _found(join, table, name)
    given = plain_type(column.type)
    if given != column.type:
        column = column.cast(given)
    if given == type:
        return column
    if {sql_type(given), sql_type(type)} <= NUMBERS or sql_type(given) == sql_type(type):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return column.cast(type)
    raise JobError(
        f"table {join.table!r}: the column {name!r} is {given} now, and was {type} when the queries began; "
        "give it the same type"
    )


def _found(join: Join, table: pa.Table, name: str) -> pa.Array:
    if table.column_names.count(name) != 1:
        raise JobError(
            f"table {join.table!r} has no column {name!r}, which queries need; "
            f"its columns are {', '.join(table.column_names)}"
        )
    return table.column(name).unify_dictionaries().combine_chunks()


def _twice(join: Join, row: pa.Table) -> JobError:
    named = ", ".join(f"{column} = {row.column(column)[0].as_py()!r}" for _, column, _ in join.keys)
    return JobError(
        f"table {join.table!r} has more than one row with {named}; a row of the stream meets one row of a "
        "table at most: remove the others, or join by more columns"
    )
