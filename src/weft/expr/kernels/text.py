"""String functions; lengths and positions count code points."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Datum, Result, good_or_null, is_any, null_where
from weft.model.bounds import MAX_VALUE_BYTES

if TYPE_CHECKING:
    from weft.expr.node import Node


def length(node: Node, arg: pa.Array) -> Result:
    """The number of code points."""
    return pc.cast(pc.utf8_length(arg), pa.int64())


def reverse(node: Node, arg: pa.Array) -> Result:
    """The code points backwards."""
    return pc.utf8_reverse(arg)


def lower(node: Node, arg: pa.Array) -> Result:
    """Small letters, with Unicode's full mapping (İ becomes two code points, a final Σ is ς)."""
    return _change_case(arg, "lower")


def upper(node: Node, arg: pa.Array) -> Result:
    """Capital letters, with Unicode's full mapping (ß becomes SS)."""
    return _change_case(arg, "upper")


def _change_case(arg: pa.Array, case: str) -> pa.Array:
    if is_ascii(arg):
        return getattr(pc, f"ascii_{case}")(arg)
    result = getattr(pc, f"utf8_{case}")(arg)
    special = pc.fill_null(pc.match_substring_regex(arg, f"[{_special_letters(case)}]"), False)
    if not special.true_count:
        return result
    # Arrow maps one code point to one; the few strings that need more are rewritten one by one.
    replaced = [getattr(text, case)() for text in arg.filter(special).to_pylist()]
    return pc.replace_with_mask(result, special, pa.array(replaced, pa.string()))


@cache
def _special_letters(case: str) -> str:
    """The letters whose capital or small form is not one code point, or depends on what is around it."""
    letters = [c for c in map(chr, range(0x80, 0x20000)) if len(getattr(c, case)()) != 1]
    return re.escape("".join(letters)) + ("Σ" if case == "lower" else "")


def is_ascii(arg: pa.Array) -> bool:
    """Return whether the bytes of all strings are ASCII."""
    data = arg.buffers()[2]
    return data is None or not len(data) or bool(np.frombuffer(data, np.int8).min() >= 0)


def trim(side: str) -> Callable[[Node, pa.Array], Result]:
    """The kernel of trim (side ""), ltrim ("l") or rtrim ("r"): spaces only, no other white space."""
    function = getattr(pc, f"utf8_{side}trim")

    def kernel(node: Node, arg: pa.Array) -> Result:
        return function(arg, characters=" ")

    return kernel


def substring(node: Node, arg: pa.Array) -> Result:
    """From 1 on; 0 is 1, and a negative start counts from the end."""
    start, size = node.param if len(node.param) == 2 else (*node.param, None)
    if size is not None and size <= 0:
        return pc.utf8_slice_codeunits(arg, 0, 0)
    first = start - 1 if start > 0 else start
    last = None if size is None else first + size
    if last is not None and first < 0 <= last:
        last = None  # ends at or after the end of the string
    return _slice(arg, first, last)


def left(node: Node, arg: pa.Array) -> Result:
    """The first code points."""
    return _slice(arg, 0, max(node.param[0], 0))


def right(node: Node, arg: pa.Array) -> Result:
    """The last code points."""
    count = node.param[0]
    return _slice(arg, -count, None) if count > 0 else _slice(arg, 0, 0)


def _slice(arg: pa.Array, first: int, last: int | None) -> pa.Array:
    longest = 2**31 - 1
    first = max(-longest, min(longest, first))
    return pc.utf8_slice_codeunits(arg, first, longest if last is None else max(-longest, min(longest, last)))


def concat(node: Node, *args: Datum) -> Result:
    """One string after the other; NULL where one is NULL, bad where the whole would be too long."""
    sizes = pc.cast(pc.binary_length(args[0]), pa.int64())
    for arg in args[1:]:
        sizes = pc.add(sizes, pc.cast(pc.binary_length(arg), pa.int64()))
    bad = _too_long(sizes)
    if not is_any(bad):
        return pc.binary_join_element_wise(*args, "")
    kept = [null_where(a, bad) if isinstance(a, pa.Array) else a for a in args]
    return good_or_null(pc.binary_join_element_wise(*kept, ""), bad)


def starts_with(node: Node, arg: pa.Array) -> Result:
    """Return whether the string starts with the constant."""
    return pc.starts_with(arg, node.param[0])


def ends_with(node: Node, arg: pa.Array) -> Result:
    """Return whether the string ends with the constant."""
    return pc.ends_with(arg, node.param[0])


def contains(node: Node, arg: pa.Array) -> Result:
    """Return whether the constant occurs in the string."""
    return pc.match_substring(arg, node.param[0])


def replace(node: Node, arg: pa.Array) -> Result:
    """Every occurrence of one constant by another; an empty one occurs nowhere. Bad where too long."""
    search, replacement = node.param
    if not search:
        return arg
    growth = len(replacement.encode()) - len(search.encode())
    if growth <= 0:
        return pc.replace_substring(arg, search, replacement)
    occurrences = pc.cast(pc.count_substring(arg, search), pa.int64())
    bad = _too_long(pc.add(pc.binary_length(arg), pc.multiply(occurrences, growth)))
    kept = null_where(arg, bad) if is_any(bad) else arg
    return good_or_null(pc.replace_substring(kept, search, replacement), bad)


def _too_long(sizes: pa.Array) -> pa.BooleanArray:
    """The rows whose text would have more bytes than a value may; known before any of it is made."""
    return pc.fill_null(pc.greater(sizes, MAX_VALUE_BYTES), False)
