"""States of user-defined aggregates as bytes: plain data in JSON, never code.

Numbers, text, None and lists are written as JSON has them; everything else is an object with one key, the
name of its type. Reading makes values of these types only, whatever the bytes are.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from weft.errors import CheckpointError

FORMAT = b"\x01"
"""Before the JSON; pickles, which older versions wrote, begin with 0x80."""

PLAIN_TYPES = "numbers, text, bytes, dates, times, tuples, lists, sets, dicts or NumPy arrays"


class NotPlain(TypeError):
    """A value that is no plain data."""


def encode(state: Any) -> bytes:
    """A state as bytes; NotPlain where it holds anything but plain data.

    >>> encode((1, {"a": 2.5}))
    b'\\x01{"tuple":[1,{"dict":[["a",2.5]]}]}'
    """
    return FORMAT + json.dumps(_written(state), separators=(",", ":")).encode()


def decode(data: bytes) -> Any:
    """The state behind bytes; CheckpointError for bytes that are none.

    >>> decode(encode({"a": (1, {2}), None: float("inf")}))
    {'a': (1, {2}), None: inf}
    """
    if data[:1] == b"\x80":
        raise CheckpointError(
            "it is a pickle, which an older version of weft wrote and which could run code; "
            "start again with an empty checkpoint directory"
        )
    try:
        if data[:1] != FORMAT:
            raise ValueError("it has no known format")
        return _read(json.loads(data[1:]))
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, LookupError) as error:
        raise CheckpointError(
            f"it is damaged ({error}); restore the checkpoint from a backup, or start again with an empty one"
        ) from None


def _written(value: Any) -> Any:
    kind = type(value)
    if kind in (str, bool, type(None)) or (kind is int and -(2**63) <= value < 2**63):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return [_written(each) for each in value]
    if kind in _WRITERS:
        return {kind.__name__: _WRITERS[kind](value)}
    if isinstance(value, np.generic) and not value.dtype.hasobject and value.dtype.names is None:
        return {"scalar": [value.dtype.str, _base64(value.tobytes())]}
    raise NotPlain(f"{kind.__module__}.{kind.__qualname__} is not plain data")


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(each) for each in value]
    if isinstance(value, dict):
        ((name, content),) = value.items()
        return _READERS[name](content)
    return value


def _all(values: Any) -> list[Any]:
    return [_written(each) for each in values]


def _sorted(values: Any) -> list[Any]:
    # In one order, whatever the hashes of texts are in this process.
    return sorted(_all(values), key=json.dumps)


def _pairs(value: Any) -> list[Any]:
    return [[_written(k), _written(v)] for k, v in value.items()]


def _dict(pairs: Any) -> dict[Any, Any]:
    return {_read(k): _read(v) for k, v in pairs}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: Any) -> bytes:
    return base64.b64decode(text, validate=True)


def _datetime(value: datetime.datetime) -> list[Any]:
    zone = value.tzinfo
    if isinstance(zone, ZoneInfo):
        if zone.key is None:
            raise NotPlain("a time zone without a name is not plain data")
        return [value.replace(tzinfo=None).isoformat(), zone.key, value.fold]
    if zone is not None and type(zone) is not datetime.timezone:
        raise NotPlain(f"the time zone {type(zone).__qualname__} is not plain data")
    return [value.isoformat(), None, value.fold]


def _read_datetime(content: Any) -> datetime.datetime:
    text, zone, fold = content
    moment = datetime.datetime.fromisoformat(text).replace(fold=fold)
    return moment if zone is None else moment.replace(tzinfo=ZoneInfo(zone))


def _time(value: datetime.time) -> list[Any]:
    if value.tzinfo is not None and type(value.tzinfo) is not datetime.timezone:
        raise NotPlain("a time of day with a time zone of its own is not plain data")
    return [value.isoformat(), value.fold]


def _array(value: np.ndarray) -> list[Any]:
    if value.dtype.hasobject or value.dtype.names is not None:
        raise NotPlain(f"an array of {value.dtype} is not plain data")
    return [value.dtype.str, list(value.shape), _base64(value.tobytes())]


def _dtype(name: Any) -> np.dtype[Any]:
    dtype = np.dtype(str(name))
    if dtype.hasobject:
        raise ValueError("an array of objects")
    return dtype


def _read_array(content: Any) -> np.ndarray:
    dtype, shape, data = content
    return np.frombuffer(_bytes(data), _dtype(dtype)).reshape(shape).copy()


_FACTORIES: dict[str, Callable[[], Any]] = {
    kind.__name__: kind for kind in (int, float, str, bytes, bool, list, tuple, dict, set)
}


def _defaultdict(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", "")
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        raise NotPlain(f"a defaultdict of {factory!r} is not plain data")
    return [name, _pairs(value)]


def _read_defaultdict(content: Any) -> defaultdict[Any, Any]:
    name, pairs = content
    return defaultdict(None if name is None else _FACTORIES[name], _dict(pairs))


_WRITERS: dict[type, Callable[[Any], Any]] = {
    int: hex,
    tuple: _all,
    set: _sorted,
    frozenset: _sorted,
    dict: _pairs,
    OrderedDict: _pairs,
    Counter: _pairs,
    defaultdict: _defaultdict,
    deque: lambda value: [value.maxlen, _all(value)],
    bytes: _base64,
    bytearray: _base64,
    complex: lambda value: [repr(value.real), repr(value.imag)],
    range: lambda value: [value.start, value.stop, value.step],
    datetime.datetime: _datetime,
    datetime.date: lambda value: value.isoformat(),
    datetime.time: _time,
    datetime.timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    Decimal: str,
    Fraction: lambda value: [hex(value.numerator), hex(value.denominator)],
    np.ndarray: _array,
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda content: int(content, 16),
    "float": float,
    "tuple": lambda content: tuple(map(_read, content)),
    "set": lambda content: set(map(_read, content)),
    "frozenset": lambda content: frozenset(map(_read, content)),
    "dict": _dict,
    "OrderedDict": lambda content: OrderedDict(_dict(content)),
    "Counter": lambda content: Counter(_dict(content)),
    "defaultdict": _read_defaultdict,
    "deque": lambda content: deque(map(_read, content[1]), content[0]),
    "bytes": _bytes,
    "bytearray": lambda content: bytearray(_bytes(content)),
    "complex": lambda content: complex(*map(float, content)),
    "range": lambda content: range(*content),
    "datetime": _read_datetime,
    "date": datetime.date.fromisoformat,
    "time": lambda content: datetime.time.fromisoformat(content[0]).replace(fold=content[1]),
    "timedelta": lambda content: datetime.timedelta(*content),
    "Decimal": Decimal,
    "Fraction": lambda content: Fraction(*(int(number, 16) for number in content)),
    "ndarray": _read_array,
    "scalar": lambda content: np.frombuffer(_bytes(content[1]), _dtype(content[0]))[0],
}
