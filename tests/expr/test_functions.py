"""Each function against what Python says it is."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.expr_cases import FLOATS, INTS, MAX, MIN, STRINGS, batch_of, call, rows
from support.seeds import seeded_random
from weft.expr.evaluate import Evaluator
from weft.expr.functions import FUNCTIONS
from weft.expr.kernels.rounding import round_doubles
from weft.model.expression import Column, Expr
from weft.testing.brute_force.expressions import STRICT, evaluate_row

NAN, INF = math.nan, math.inf
X, Y, S, T = map(Column, "xyst")


def values(expr: Expr, **columns: Any) -> list[Any]:
    batch = pa.record_batch({n: c if isinstance(c, pa.Array) else pa.array(c) for n, c in columns.items()})
    return Evaluator(batch).evaluate(expr).to_pylist()


def alike(left: list[Any], right: list[Any], rel: float = 0.0) -> bool:
    def equal(a: Any, b: Any) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=rel)
        return type(a) is type(b) and a == b

    return len(left) == len(right) and all(map(equal, left, right))


@pytest.mark.parametrize(
    "name", ["sqrt", "exp", "ln", "log10", "log2", "sign", "floor", "ceil", "abs", "negate"]
)
@pytest.mark.parametrize("column", ["doubles", "integers"])
def test_functions_of_a_number(name: str, column: str) -> None:
    data = [*(FLOATS if column == "doubles" else INTS), None]
    expected = [evaluate_row(call(name, X), {"x": v}) for v in data]
    assert alike(values(call(name, X), x=data), expected, rel=1e-15)


def test_power_is_that_of_java() -> None:
    pairs = [(a, b) for a in (*FLOATS, -0.0, -8.0, 4.0) for b in (*FLOATS, 0.5, -1.0, 3.0, -3.0)]
    expected = [STRICT["power"](a, b) for a, b in pairs]
    found = values(call("power", X, Y), x=[a for a, _ in pairs], y=[b for _, b in pairs])
    assert alike(found, expected, rel=1e-14)


def test_comparisons_of_doubles() -> None:
    """NaN = NaN, NaN above everything, -0.0 = 0.0; between columns and against constants on either side."""
    order = [-INF, -1.0, 0.0, 2.5, INF, NAN]
    pairs = [(a, b) for a in order for b in order]
    ranks = [(order.index(a), order.index(b)) for a, b in pairs]
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    for name, test in (
        *(("=", int.__eq__), ("<>", int.__ne__), ("<", int.__lt__)),
        *(("<=", int.__le__), (">", int.__gt__), (">=", int.__ge__)),
    ):
        expected = [test(*r) for r in ranks]
        assert values(call(name, X, Y), x=left, y=right) == expected
        for n, constant in enumerate(order):
            assert values(call(name, X, constant), x=order) == [test(i, n) for i in range(len(order))]
            assert values(call(name, constant, X), x=order) == [test(n, i) for i in range(len(order))]
    assert values(call("=", X, 0.0), x=[-0.0]) == [True]
    assert values(call("in", X, 0.0, NAN), x=[-0.0, NAN, -np.float64("nan"), 1.0]) == [
        *(True, True, True, False)
    ]


def test_integers_meet_doubles_as_doubles() -> None:
    assert values(call("=", X, 2.0**53), x=[2**53, 2**53 + 1, 2**53 + 2]) == [True, True, False]
    assert values(call(">", X, 0.5), x=[0, 1]) == [False, True]


def test_greatest_and_least_skip_nulls() -> None:
    data = {"x": [1.0, NAN, None, None, NAN], "y": [2.0, 1.0, NAN, None, None]}
    assert alike(values(call("greatest", X, Y), **data, s=[0] * 5), [2.0, NAN, NAN, None, NAN])
    assert alike(
        values(call("least", X, Y, 5), x=data["x"], y=pa.array(data["y"])), [1.0, 1.0, 5.0, 5.0, 5.0]
    )
    assert values(call("greatest", S, "b", None), s=["a", None, "c"]) == ["b", "b", "c"]
    assert values(call("least", X, False), x=[True, None]) == [False, False]


@pytest.mark.parametrize("digits", [-3, -1, 0, 1, 2, 5, 15, 22, 300])
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.floats(allow_subnormal=False) | st.decimals(-(10**6), 10**6, places=3).map(float), max_size=20
    )
)
@example(list(FLOATS))
@example([0.285, 1.005, 2.675, 1.115, 8.5, 0.5, 1.5, 4.35, 1e15 + 0.5, 1e14 + 0.5, 123456789012.345])
def test_round_is_half_up_on_the_printed_decimal(digits: int, data: list[float]) -> None:
    expected = [evaluate_row(call("round", X, digits), {"x": v}) for v in data]
    assert alike(round_doubles(np.array(data, np.float64), digits).tolist(), expected)


def test_round_of_integers() -> None:
    for digits in (-20, -19, -18, -3, -1, 0, 4):
        expected = [evaluate_row(call("round", X, digits), {"x": v}) for v in INTS]
        assert values(call("round", X, digits), x=list(INTS)) == expected


def test_remainder_has_the_sign_of_the_dividend() -> None:
    assert values(call("%", X, 3), x=[7, -7]) == [1, -1]
    assert values(call("%", X, -3), x=[7, -7]) == [1, -1]
    assert values(call("%", X, Y), x=[MIN, MAX, 5], y=[-1, -1, MIN]) == [0, 0, 5]
    assert alike(values(call("%", X, 2.5), x=[7.0, -7.0, INF, NAN]), [2.0, -2.0, NAN, NAN])
    assert alike(values(call("%", X, INF), x=[7.0]), [7.0])


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (call("length", S), [5, 0, 3, 2, None]),
        (call("upper", S), ["HÉLLO", "", "STR", "😀SS".upper(), None]),
        (call("lower", S), ["héllo", "", "str", "😀ß", None]),
        (call("reverse", S), ["olléH", "", "rtS", "ß😀", None]),
        (call("substring", S, 2), ["éllo", "", "tr", "ß", None]),
        (call("substring", S, -3, 2), ["ll", "", "St", "😀", None]),
        (call("substring", S, 0, 2), ["Hé", "", "St", "😀ß", None]),
        (call("left", S, 2), ["Hé", "", "St", "😀ß", None]),
        (call("right", S, 2), ["lo", "", "tr", "😀ß", None]),
        (call("concat", S, "-", S), ["Héllo-Héllo", "-", "Str-Str", "😀ß-😀ß", None]),
        (call("concat", S, None), [None] * 5),
        (call("replace", S, "l", "LL"), ["HéLLLLo", "", "Str", "😀ß", None]),
        (call("replace", S, "t"), ["Héllo", "", "Sr", "😀ß", None]),
        (call("starts_with", S, "H"), [True, False, False, False, None]),
        (call("ends_with", S, "ß"), [False, False, False, True, None]),
        (call("contains", S, ""), [True, True, True, True, None]),
        (call("<", S, "T"), [True, True, True, False, None]),
    ],
    ids=str,
)
def test_strings(expr: Expr, expected: list[Any]) -> None:
    data = ["Héllo", "", "Str", "😀ß", None]
    assert values(expr, s=data) == expected
    assert values(expr, s=pa.array(data).dictionary_encode()) == expected
    assert values(expr, s=pa.array(data * 3).dictionary_encode()) == expected * 3
    assert values(expr, s=pa.array(data, pa.large_string())) == expected
    assert values(expr, s=pa.array(data, pa.string_view())) == expected


def test_trim_takes_spaces_only() -> None:
    data = ["  a b  ", "\ta ", ""]
    assert values(call("trim", S), s=data) == ["a b", "\ta", ""]
    assert values(call("ltrim", S), s=data) == ["a b  ", "\ta ", ""]
    assert values(call("rtrim", S), s=data) == ["  a b", "\ta", ""]


def test_letters_that_become_several() -> None:
    data = ["straße", "ŉ ﬁ ΐ", "İstanbul", "ΑΣ ΣΑ", "plain"]
    assert values(call("upper", S), s=data) == [t.upper() for t in data]
    assert values(call("lower", S), s=data) == [t.lower() for t in data]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text("ab%_\\.\n(é"), max_size=8), st.text("ab%_!.\n(é", max_size=6))
def test_like(data: list[str], pattern: str) -> None:
    trailing = len(pattern) - len(pattern.rstrip("!"))
    pattern = pattern.replace("!", "!!") if trailing or "!" in pattern else pattern
    expected = [evaluate_row(call("like", S, pattern, "!"), {"s": text}) for text in data]
    assert values(call("like", S, pattern, "!"), s=pa.array(data, pa.string())) == expected


def test_like_takes_escaped_wildcards_literally() -> None:
    data = ["50%", "505", "a_b", "axb", "a\nb", "back\\slash"]
    assert values(call("like", S, "50\\%"), s=data) == [True, False, False, False, False, False]
    assert values(call("like", S, "a#_b", "#"), s=data) == [False, False, True, False, False, False]
    assert values(call("like", S, "a_b"), s=data) == [False, False, True, True, True, False]
    assert values(call("like", S, "%\\\\%"), s=data) == [False] * 5 + [True]


def test_dictionaries_are_evaluated_once_per_value() -> None:
    keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0, 1], pa.int8()), ["12", "x"])
    evaluator = Evaluator(pa.record_batch({"s": keys, "x": [1, 2, 3, 4, 5]}))
    assert evaluator.evaluate(call("cast", S, "bigint")).to_pylist() == [12, None, None, 12, None]
    assert evaluator.bad == 2, "bad values are counted by the row all the same"
    assert evaluator.evaluate(call("coalesce", S, "none")).to_pylist() == ["12", "x", "none", "12", "x"]
    assert evaluator.evaluate(call("is_null", S)).to_pylist() == [False, False, True, False, False]
    assert evaluator.mask(call("=", S, "x")).tolist() == [False, True, False, False, True]
    assert evaluator.evaluate(S).type == pa.string()
    both = call("and", call("in", S, "12", "y"), call(">", X, 1))
    assert evaluator.mask(both).tolist() == [False, False, False, True, False]


def test_columns_of_every_width() -> None:
    for arrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        assert values(call("+", X, 1), x=pa.array([1, 100, None], arrow)) == [2, 101, None]
    for arrow in (pa.float16(), pa.float32()):
        assert values(call("*", X, 2), x=pa.array([1.5, None], arrow)) == [3.0, None]
    evaluator = Evaluator(pa.record_batch({"x": pa.array([1, 2**63, None], pa.uint64())}))
    assert evaluator.evaluate(call("-", X, 1)).to_pylist() == [0, None, None]
    assert evaluator.bad == 1


def test_decimals_cast() -> None:
    data = [
        decimal.Decimal("-1.50"),
        decimal.Decimal("0.00"),
        None,
        decimal.Decimal("123456789012345678901.25"),
    ]
    evaluator = Evaluator(pa.record_batch({"x": pa.array(data, pa.decimal128(30, 2))}))
    assert evaluator.evaluate(call("cast", X, "double")).to_pylist() == [
        -1.5,
        0.0,
        None,
        1.2345678901234568e20,
    ]
    assert evaluator.evaluate(call("cast", X, "string")).to_pylist() == [
        *("-1.50", "0.00", None, "123456789012345678901.25")
    ]
    assert evaluator.bad == 0
    assert evaluator.evaluate(call("cast", X, "bigint")).to_pylist() == [-1, 0, None, None]
    assert evaluator.bad == 1
    assert evaluator.evaluate(call("is_null", X)).to_pylist() == [False, False, True, False]
    tiny = pa.array([decimal.Decimal("0.0000001")], pa.decimal128(20, 7))
    assert values(call("cast", X, "string"), x=tiny) == ["0.0000001"]


def test_results_have_the_promised_types() -> None:
    kinds = {"boolean": pa.bool_(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
    kinds |= {"timestamp": pa.timestamp("us", "UTC"), "date": pa.date32()}
    batch = batch_of(rows(seeded_random(1), 5))
    for name, column in (
        ("i", "bigint"),
        ("j", "bigint"),
        ("y", "double"),
        ("k", "string"),
        ("t", "timestamp"),
    ):
        assert Evaluator(batch).evaluate(Column(name)).type == kinds[column]
    assert Evaluator(batch).evaluate(call("cast", Column("s"), "date")).type == kinds["date"]


def test_every_function_is_tried_by_the_oracle() -> None:
    lazy = {"and", "or", "case", "if", "coalesce", "in", "greatest", "least", "nullif"}
    assert set(FUNCTIONS) == set(STRICT) | lazy | {"is_null", "isnan", "<=>"}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["bigint", "double", "boolean"]),
    st.lists(st.text("0123456789+-.eEdfinaIN tTy \t", max_size=9)),
)
@example("double", list(STRINGS))
@example("bigint", [*STRINGS, "00", "-0", "+0", "9" * 19, "-9223372036854775808", "0" * 30 + "1", "--1", ""])
def test_text_to_numbers(kind: str, data: list[str]) -> None:
    expr = call("cast", S, kind)
    expected = [evaluate_row(expr, {"s": text}) for text in data]
    assert alike(values(expr, s=pa.array(data, pa.string())), expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats()))
def test_doubles_to_text_and_back(data: list[float]) -> None:
    text = values(call("cast", X, "string"), x=pa.array(data, pa.float64()))
    assert text == [evaluate_row(call("cast", X, "string"), {"x": v}) for v in data]
    assert alike(values(call("cast", S, "double"), s=pa.array(text, pa.string())), data)


def test_memory_is_not_shared_with_the_batch_by_mistake() -> None:
    """Kernels that write into NumPy arrays write into their own."""
    data = np.array([1.5, -2.5, np.nan, 1e300])
    batch = pa.record_batch({"x": pa.array(data), "t": pa.array([dt.datetime(2024, 1, 1)] * 4)})
    before = batch.to_pylist()
    evaluator = Evaluator(batch)
    for expr in (
        call("round", X, 1),
        call("floor", X),
        call("negate", X),
        call("hour", T),
        call("greatest", X, 0),
    ):
        evaluator.evaluate(expr)
    assert str(batch.to_pylist()) == str(before)
