"""Evaluation: checked expressions over one batch, with Arrow kernels; each sub-expression once.

>>> from weft.model.expression import Call, Column, Literal
>>> batch = pa.record_batch({"x": [1.0, 0.0, 4.0]})
>>> rows = Evaluator(batch)
>>> rows.evaluate(Call("/", (Literal(1, "bigint"), Column("x")))).to_pylist(), rows.bad
([1.0, None, 0.25], 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import QueryError
from weft.expr.arrays import as_mask, from_mask, take, values_of
from weft.expr.check import Compiler, compiler_for
from weft.expr.columns import canonical
from weft.expr.functions import FUNCTIONS
from weft.expr.kernels.logic import Bad, Value, bad_of, merge_bad, reached, spread
from weft.expr.node import Node, text_of
from weft.expr.types import UTC, sql_type
from weft.model.bounds import MAX_BATCH_TEXT_BYTES
from weft.model.expression import Expr


class Evaluator:
    """Values of expressions over one batch.

    A value that Spark's ANSI mode would refuse (x/0, overflow of bigint, a bad cast) is NULL and
    counted in ``bad``; under ``strict`` it is a QueryError. A value that no row needed, in a branch
    not taken or behind an AND that was already FALSE, is neither. ``zone`` is that of local times.

    The texts that are made for a batch are bounded (``MAX_BATCH_TEXT_BYTES``): an expression that needs more
    is evaluated for a part of the rows after the other, and where its own values are more than that, those
    behind are bad.
    """

    def __init__(
        self,
        batch: pa.RecordBatch | pa.Table,
        strict: bool = False,
        compiler: Compiler | None = None,
        values: Mapping[Node, Value] | None = None,
        zone: str = UTC,
    ) -> None:
        self.batch, self.strict = batch, strict
        self.compiler = compiler or compiler_for(batch.schema, zone)
        self._given = dict(values or {})
        self._values = dict(self._given)
        self._masks: dict[Node, npt.NDArray[np.bool_]] = {}
        self._dictionaries: dict[str, tuple[Evaluator, npt.NDArray[Any]] | None] = {}
        self._bad: Bad = {}
        self._text = 0

    def evaluate(self, expr: Expr, where: npt.NDArray[np.bool_] | None = None) -> pa.Array:
        """The values of an expression: bool, int64, float64, string, timestamp[us] or date32.

        ``where`` marks the rows whose values are used; what is bad in the others does not count.
        """
        node = self.compiler.compile(expr)
        self._count(self.value(node).bad, where)
        return self.values(node)

    def mask(self, expr: Expr) -> npt.NDArray[np.bool_]:
        """The rows for which a condition is TRUE; FALSE and NULL are both left out."""
        node = self.compiler.compile(expr)
        mask = self._masks.get(node)
        if mask is None:
            self._count(self.value(node).bad)
            mask = self._masks[node] = self.truth(node)
        return mask

    def truth(self, node: Node) -> npt.NDArray[np.bool_]:
        """The rows for which a checked condition is TRUE; what is bad in it is not counted."""
        array = self.values(node)
        return np.zeros(len(array), np.bool_) if node.type == "null" else as_mask(array)

    def values(self, node: Node) -> pa.Array:
        """The values of a checked expression; what is bad in them is not counted."""
        return spread(self.value(node).data, self.batch.num_rows)

    def count_bad(self, conditions: Sequence[Expr], bad: Bad) -> None:
        """Count what ``mask`` of these conditions would count, all of it in the rows of ``bad``."""
        if self.strict:  # the first that fails says so, with its row
            for condition in conditions:
                self.mask(condition)
            return
        at = np.flatnonzero(np.logical_or.reduce([as_mask(mask) for mask in bad.values()]))
        rows = Evaluator(self.batch.take(pa.array(at)), compiler=self.compiler)
        for condition in conditions:
            rows.mask(condition)
        for node, mask in rows._bad.items():
            whole = np.zeros(self.batch.num_rows, np.bool_)
            whole[at] = as_mask(mask)
            merge_bad(self._bad, {node: from_mask(whole)})

    @property
    def bad(self) -> int:
        """The number of values that are NULL because they were bad: rows times operations that failed."""
        return sum(mask.true_count for mask in self._bad.values())

    def _count(self, failures: Bad, where: npt.NDArray[np.bool_] | None = None) -> None:
        if failures:
            bad: Bad = {}
            merge_bad(bad, failures if where is None else reached(failures, from_mask(where)))
            if self.strict and bad:
                raise self._error(bad)
            merge_bad(self._bad, bad)

    def _error(self, bad: Bad) -> QueryError:
        node, mask = next(iter(bad.items()))
        row = int(np.flatnonzero(as_mask(mask))[0])
        failure = FUNCTIONS[node.function].failure if node.function in FUNCTIONS else "out of range"
        return QueryError(
            f"{failure} in {text_of(node.source)}, row {row} of the batch",
            hint="without strict such values are NULL and counted",
        )

    def value(self, node: Node) -> Value:
        """The values of a checked expression, and what was bad in it."""
        value = self._values.get(node)
        if value is None:
            value_count, text = len(self._values), self._text
            try:
                value = self._value(node)
            except _TooMuchText:
                while len(self._values) > value_count:  # what was made on the way to it
                    self._values.popitem()
                self._text = text
                value = self._values[node] = self._in_pieces(node)
        if isinstance(value.data, pa.StringScalar):
            value = self._repeated(node, value)
        return value

    def _value(self, node: Node) -> Value:
        value = self._values.get(node)
        if value is None:
            value = self._values[node] = self._compute(node)
        return value

    def _reserve(self, size: int) -> None:
        if self._text + size > MAX_BATCH_TEXT_BYTES:
            raise _TooMuchText

    def _repeated(self, node: Node, constant: Value) -> Value:
        """A constant text, as it is where all rows have room for it."""
        rows, data = self.batch.num_rows, constant.data
        if _size(data, rows) <= MAX_BATCH_TEXT_BYTES:
            return constant
        fitting = MAX_BATCH_TEXT_BYTES // len(data.as_buffer())
        some = pa.concat_arrays([pa.repeat(data, fitting), pa.nulls(rows - fitting, data.type)])
        return Value(some, {node: pc.is_null(some)})

    def _in_pieces(self, node: Node) -> Value:
        """The values of an expression from those of either half of the rows."""
        rows = self.batch.num_rows
        if rows <= 1:
            return Value(pa.nulls(rows, node.arrow), {node: pa.repeat(pa.scalar(True), rows)})
        pieces, bad, left = list[pa.Array](), dict[Node, list[pa.BooleanArray]](), MAX_BATCH_TEXT_BYTES
        for start, count in ((0, rows // 2), (rows // 2, rows - rows // 2)):
            values = {n: Value(_slice(v.data, start, count)) for n, v in self._given.items()}
            half = Evaluator(self.batch.slice(start, count), compiler=self.compiler, values=values)
            value = half.value(node)
            data = spread(value.data, count)
            failed = dict(value.bad)
            if node.type == "string":
                sizes = np.cumsum(_sizes(data))
                fitting = int(np.searchsorted(sizes, left, side="right"))
                if fitting < count:
                    beyond = from_mask(np.arange(count) >= fitting)
                    merge_bad(failed, {node: pc.and_(beyond, pc.is_valid(data))})
                    data = pa.concat_arrays([data[:fitting], pa.nulls(count - fitting, data.type)])
                left -= int(sizes[fitting - 1]) if fitting else 0
            for each, mask in failed.items():
                missing = start - sum(map(len, bad.get(each, ())))
                bad.setdefault(each, []).extend((pa.repeat(pa.scalar(False), missing), mask))
            pieces.append(data)
        masks = {
            each: pa.concat_arrays([*some, pa.repeat(pa.scalar(False), rows - sum(map(len, some)))])
            for each, some in bad.items()
        }
        return Value(pa.concat_arrays(pieces), masks)

    def _compute(self, node: Node) -> Value:
        if node.function == "literal":
            return Value(node.param)
        if node.function == "column":
            array, bad = canonical(self._column(node.param), node.type, node.tz)
            return Value(array) if bad is None else Value(array, {node: bad})
        if len(node.columns) == 1:
            (name,) = node.columns
            dictionary = self.dictionary(name)
            if dictionary is not None:
                return self._over_dictionary(node, *dictionary)
        values = [self._value(a) for a in node.args]
        if node.type == "string":
            self._reserve(_growth(node) * sum(_size(v.data, self.batch.num_rows) for v in values))
        function = FUNCTIONS[node.function]
        if function.lazy is None:
            value = self._apply(node, values)
        else:
            value = function.lazy(values, self.batch.num_rows)
        self._text += _size(value.data, self.batch.num_rows)
        return value

    def _apply(self, node: Node, values: list[Value]) -> Value:
        data = [v.data for v in values]
        if all(isinstance(d, pa.Scalar) for d in data):  # a constant that is bad
            self._reserve(_size(data[0], self.batch.num_rows))
            data[0] = spread(data[0], self.batch.num_rows)
        result = FUNCTIONS[node.function].kernel(node, *data)  # type: ignore[misc]
        bad = bad_of(values)
        if isinstance(result, tuple):
            result, failed = result
            merge_bad(bad, {node: failed})
        return Value(result, bad)

    def _column(self, name: str) -> pa.Array:
        column = self.batch.column(name)
        if isinstance(column, pa.ChunkedArray):
            return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return column

    def dictionary(self, name: str, encode: bool = False) -> tuple[Evaluator, npt.NDArray[Any]] | None:
        """An evaluator over a dictionary's values and the rows' places in it, where that is less work.

        One value more than the dictionary has stands for NULL, since f(NULL) need not be NULL. With
        ``encode`` a string column that has no dictionary is given one.
        """
        if self._dictionaries.get(name) is None and (encode or name not in self._dictionaries):
            self._dictionaries[name] = None
            column = self._column(name)
            if encode and sql_type(column.type) == "string" and not isinstance(column, pa.DictionaryArray):
                column = canonical(column, "string", None)[0].dictionary_encode()
            if isinstance(column, pa.DictionaryArray) and len(column.dictionary) < len(column):
                values = column.dictionary
                distinct = pa.concat_arrays([values, pa.nulls(1, values.type)])
                places = values_of(column.indices).astype(np.intp)
                if column.indices.null_count:
                    places = np.where(as_mask(pc.is_valid(column.indices)), places, len(values))
                rows = Evaluator(pa.record_batch({name: distinct}), compiler=self.compiler)
                self._dictionaries[name] = rows, places
        return self._dictionaries[name]

    def _over_dictionary(self, node: Node, rows: Evaluator, places: npt.NDArray[Any]) -> Value:
        value = rows.value(node)
        bad: Bad = {}
        merge_bad(bad, {n: take(mask, places) for n, mask in value.bad.items()})
        data = spread(value.data, rows.batch.num_rows)
        if node.type == "string":
            size = int(_sizes(data)[places].sum())
            self._reserve(size)
            self._text += size
        return Value(take(data, places), bad)


class _TooMuchText(Exception):
    """The texts of a batch would take more than they may."""


def _sizes(data: pa.Array) -> npt.NDArray[np.int64]:
    """The bytes of each text."""
    return pc.fill_null(pc.binary_length(data), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _size(data: pa.Array | pa.Scalar, rows: int) -> int:
    """The bytes of texts, those of a constant in each row; 0 for values that are no text."""
    if isinstance(data, pa.StringScalar):
        return rows * len(data.as_buffer()) if data.is_valid else 0
    return pc.sum(pc.binary_length(data)).as_py() or 0 if pa.types.is_string(data.type) else 0


def _growth(node: Node) -> int:
    """At most how many times as long as its arguments the text of an operation is."""
    if node.function == "replace":
        search, replacement = (len(text.encode()) for text in node.param)
        return -(-replacement // search) if search else 1
    return 3 if node.function in ("lower", "upper") else 1


def _slice(data: pa.Array | pa.Scalar, start: int, count: int) -> pa.Array | pa.Scalar:
    return data.slice(start, count) if isinstance(data, pa.Array) else data
