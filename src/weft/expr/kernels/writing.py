"""Numbers, booleans, timestamps and dates to text, as Spark's casts write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.arrays import Result
from weft.expr.kernels.calendar import local

if TYPE_CHECKING:
    from weft.expr.node import Node


def from_integer(node: Node, arg: pa.Array) -> Result:
    """Digits, or true and false."""
    return pc.cast(arg, pa.string())


def from_double(node: Node, arg: pa.Array) -> Result:
    """Java's Double.toString on the shortest digits: plain from 1e-3 to 1e7, else d.dddEn."""
    text = pc.cast(arg, pa.string())
    size = pc.abs(arg)
    plain = pc.or_(pc.equal(arg, 0.0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    pointed = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    if pc.all(plain, min_count=0).as_py():
        return pointed
    rare = pc.fill_null(pc.invert(plain), False)
    return pc.replace_with_mask(pointed, rare, _scientific(text.filter(rare)))


def _scientific(text: pa.Array) -> pa.Array:
    """Arrow's ``10000000``, ``0.0001``, ``1e+21``, ``1.5e-7``, ``nan`` as Java's ``1.0E7``..."""
    fields = pc.extract_regex(
        text, r"^(?P<minus>-?)(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?(?:e\+?(?P<exponent>-?[0-9]+))?$"
    )
    whole, fraction, exponent = (_field(fields, name) for name in ("whole", "fraction", "exponent"))
    small = pc.equal(whole, "0")
    kept = pc.utf8_ltrim(fraction, "0")
    digits = pc.if_else(small, kept, pc.binary_join_element_wise(whole, fraction, ""))
    zeros = pc.subtract(pc.utf8_length(fraction), pc.utf8_length(kept))
    shift = pc.if_else(small, pc.subtract(-1, zeros), pc.subtract(pc.utf8_length(whole), 1))
    shift = pc.add(shift, pc.cast(pc.if_else(pc.equal(exponent, ""), "0", exponent), pa.int32()))
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, 1), "0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    first = pc.utf8_slice_codeunits(digits, 0, 1)
    number = pc.binary_join_element_wise(
        _field(fields, "minus"), first, ".", rest, "E", pc.cast(shift, pa.string()), ""
    )
    for arrow, java in (("nan", "NaN"), ("-nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        number = pc.if_else(pc.equal(text, arrow), java, number)
    return number


def _field(fields: pa.StructArray, name: str) -> pa.Array:
    return pc.fill_null(pc.struct_field(fields, name), "")


def from_timestamp(node: Node, arg: pa.Array) -> Result:
    """Local time, with as many digits of the second as it has."""
    text = pc.strftime(local(arg), format="%Y-%m-%d %H:%M:%S")  # with six digits of the second
    return _signed_year(pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), "."))


def from_date(node: Node, arg: pa.Array) -> Result:
    """``yyyy-mm-dd``."""
    return _signed_year(pc.strftime(arg, format="%Y-%m-%d"))


def _signed_year(text: pa.Array) -> pa.Array:
    """Years of more than four digits carry a sign."""
    return pc.replace_substring_regex(text, r"^([0-9]{5,}-)", r"+\1")


def from_decimal(node: Node, arg: pa.Array) -> Result:
    """All digits of the scale."""
    text = pc.cast(arg, pa.string())
    scientific = pc.fill_null(pc.match_substring(text, "E"), False)
    if not scientific.true_count:
        return text
    # Arrow writes tiny decimals as 1E-7; these few are written out one by one.
    plain = [f"{value:f}" for value in arg.filter(scientific).to_pylist()]
    return pc.replace_with_mask(text, scientific, pa.array(plain, pa.string()))
