"""States of user-defined aggregates in files: plain data, and never code."""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft import aggregates
from weft.aggregates.encoding import NotPlain, decode, encode
from weft.aggregates.objects import ObjectPart
from weft.aggregates.plain import Plain
from weft.errors import AggregateError, CheckpointError

AT = datetime.datetime(2024, 10, 27, 2, 30, 0, 5)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    known = dict(aggregates.USER_FUNCTIONS)
    yield
    aggregates.USER_FUNCTIONS.clear()
    aggregates.USER_FUNCTIONS.update(known)


@pytest.mark.parametrize(
    "state",
    [
        None,
        True,
        0,
        -(2**63),
        2**63,
        [-(10**6000)],
        1.5,
        -0.0,
        math.inf,
        -math.inf,
        "é\0'😀",
        b"\0\xff",
        bytearray(b"ab"),
        1 + 2j,
        range(1, 9, 2),
        AT,
        AT.replace(tzinfo=datetime.UTC),
        AT.replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
        AT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))),
        AT.date(),
        AT.time(),
        AT.timetz().replace(tzinfo=datetime.UTC),
        datetime.timedelta(-1, 2, 3),
        Decimal("-1.10"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        Fraction(-1, 3),
        [Fraction(10**5000, 7)],
        [],
        [1, [2, (3, None)]],
        (),
        {},
        {"a": 1, 2: "b", (3, None): [4]},
        set(),
        {1, "a", None},
        frozenset({(1,)}),
        Counter("aab"),
        OrderedDict(b=1, a=2),
        deque([1, 2], maxlen=3),
        deque(),
        defaultdict(list, {"a": [1]}),
        defaultdict(None, {1: 2}),
        {"tuple": [1]},
        {"dict": 1},
        np.int64(3),
        np.float32(1.5),
        np.bool_(True),
        np.datetime64("2024-01-01"),
    ],
)
def test_plain_data_comes_back_as_it_was(state: Any) -> None:
    again = decode(encode(state))
    assert type(again) is type(state)
    # A text tells -0.0 from 0.0, and a signalling NaN cannot be compared.
    assert repr(again) == repr(state) if isinstance(state, float | Decimal) else again == state
    if isinstance(state, datetime.datetime):
        assert again.fold == state.fold


@pytest.mark.parametrize(
    "dtype", ["int64", "float32", "bool", "complex128", "<U3", "S2", "datetime64[us]", ">i4"]
)
def test_arrays_come_back_as_they_were(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    again = decode(encode(array.T))
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array.T)
    again[0] = again[1]  # and can be written to


def test_a_nan_is_a_nan() -> None:
    assert math.isnan(decode(encode(math.nan)))


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.timedeltas()
    | st.decimals(allow_nan=False),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner)
    ),
    max_leaves=10,
)


@given(PLAIN)
def test_any_plain_data_comes_back(state: Any) -> None:
    assert decode(encode(state)) == state


def test_a_set_is_written_in_one_order() -> None:
    assert encode({"b", "a", "c"}) == encode({"c", "a", "b"}) == b'\x01{"set":["a","b","c"]}'


class Point(NamedTuple):
    x: float
    y: float


@dataclasses.dataclass
class Mean:
    total: float
    count: int


@pytest.mark.parametrize(
    "state",
    [
        Point(1.0, 2.0),
        Mean(1.0, 2),
        lambda: 1,
        object(),
        int,
        np.array([object()]),
        [Mean(1.0, 2)],
        defaultdict(lambda: 1),
        np.zeros(1, dtype=[("a", int)]),
    ],
)
def test_what_is_no_plain_data_is_refused(state: Any) -> None:
    with pytest.raises(NotPlain, match="is not plain data"):
        encode(state)


def test_a_state_that_cannot_be_written_is_refused_when_it_is_defined() -> None:
    with pytest.raises(
        AggregateError, match=r"Mean is not plain data; keep numbers.*to_state and from_state"
    ):
        mean()
    assert "my_mean" not in aggregates.USER_FUNCTIONS


def test_hooks_write_states_of_one_s_own() -> None:
    made = mean(to_state=dataclasses.astuple, from_state=lambda data: Mean(*data))
    state = Mean(2.5, 3)
    plain = Plain(made.definition)
    assert plain.write(state) == b'\x01{"tuple":[2.5,3]}'
    assert plain.read(plain.write(state)) == state
    ts = [datetime.datetime(2024, 1, 1, 0, 0, second) for second in range(3)]
    found = weft.run(
        weft.sql("SELECT my_mean(x) AS m FROM t [RANGE '1 min']"),
        pa.table({"ts": ts, "x": [1.0, 2.0, 6.0]}),
        time="ts",
    )
    assert found["q1"]["m"].to_pylist() == [3.0]


@pytest.mark.parametrize("hooks", [{"to_state": str}, {"from_state": str}])
def test_one_hook_alone_is_refused(hooks: dict[str, Any]) -> None:
    with pytest.raises(AggregateError, match="to_state and from_state belong together"):
        mean(**hooks)


def mean(**hooks: Any) -> Any:
    return weft.define_aggregate(
        "my_mean",
        lift=lambda x: Mean(x, 1),
        combine=lambda a, b: Mean(a.total + b.total, a.count + b.count),
        lower=lambda s: s.total / s.count,
        identity=Mean(0.0, 0),
        result="double",
        **hooks,
    )


class Attack:
    """A pickle that runs code when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def listed() -> ObjectPart:
    made = weft.define_aggregate(
        "listed", lift=lambda x: [x], combine=lambda a, b: a + b, lower=len, identity=[], result="bigint"
    )
    return ObjectPart("listed", (), (), Plain(made.definition))


def test_a_forged_pickle_is_refused_and_nothing_runs(tmp_path: Any) -> None:
    target = tmp_path / "made by the attack"
    for protocol in range(6):
        data = pickle.dumps(Attack(str(target)), protocol)
        with pytest.raises(CheckpointError, match="a state of listed cannot be read"):
            listed().states([pa.array([data], pa.binary())])
    assert not target.exists()


def test_a_state_of_an_older_version_is_said_to_be_one() -> None:
    with pytest.raises(CheckpointError, match=r"pickle.*older version.*empty checkpoint"):
        listed().states([pa.array([pickle.dumps([1, 2])], pa.binary())])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"\x01",
        b"\x01{",
        b'\x01{"os.system":"ls"}',
        b'\x01{"tuple":[1],"set":[2]}',
        b'\x01{"int":"x"}',
        b'\x01{"ndarray":["O",[1],"AAAAAAAAAAA="]}',
        b'\x01{"ndarray":["<i8",[9],"AAAAAAAAAAA="]}',
        b'\x01{"defaultdict":["eval",[]]}',
        b'\x01{"set":[[1]]}',
        b'\x01{"Fraction":["0x1","0x0"]}',
        b'\x01{"datetime":["2024-01-01","../../etc/passwd",0]}',
        b'\x01{"Decimal":[]}',
        b"\x01" + b"[" * 100_000,
        b'\x01{"bytes":"?"}',
        b'\x01{"date":5}',
        b"\x01\xff",
    ],
    ids=lambda data: str(data[:30]),
)
def test_damaged_states_are_said_to_be_damaged(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="a state of listed cannot be read"):
        listed().states([pa.array([data], pa.binary())])
