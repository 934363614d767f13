"""A user's definition of an aggregate, and its errors where its functions go wrong."""

from __future__ import annotations

import datetime
import numbers
import reprlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.errors import AggregateError, AnswerOverflow

RESULTS = ("bigint", "double", "string", "boolean", "timestamp", "date")
"""The types that an answer can have."""

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


@dataclass(frozen=True)
class Definition:
    """A user's aggregate: its algebra, and the type of its answers.

    Two are equal if they are one definition, also after one has travelled to another process: ``token`` is
    new with every definition.
    """

    name: str
    lift: Callable[..., Any] = field(compare=False, repr=False)
    combine: Callable[[Any, Any], Any] = field(compare=False, repr=False)
    lower: Callable[[Any], Any] = field(compare=False, repr=False)
    identity: Any = field(compare=False, repr=False)
    result: str
    inverse: Callable[[Any, Any], Any] | None = field(compare=False, repr=False)
    commutative: bool
    arguments: int
    compiled: bool
    token: str = field(repr=False)
    to_state: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)
    from_state: Callable[[Any], Any] | None = field(default=None, compare=False, repr=False)

    def call(self, role: str, *values: Any) -> Any:
        """Call one of the user's functions by its role, as in ``lift``; an error names its arguments."""
        try:
            result = getattr(self, role)(*values)
        except Exception as error:
            raise self.failed(role, values, f"raised {type(error).__name__}: {error}") from error
        if result is None and role != "lower":
            raise self.failed(role, values, "gave None; it must return a state")
        return result

    def failed(self, role: str, values: tuple[Any, ...], what: str) -> AggregateError:
        """An error that names the aggregate, the function and the values."""
        shown = ", ".join(map(_short.repr, values))
        return AggregateError(" ".join(f"{self.name}: {role}({shown}) {what}".split()))

    def answer(self, state: Any) -> Any:
        """The answer of a state, checked: None, or a value of the result's type.

        Times are in microseconds and dates in days since 1970, which is how columns keep them.
        """
        value = self.call("lower", state)
        if value is None:
            return None
        if self.result == "bigint" and _is(value, numbers.Integral):
            if not -(2**63) <= value < 2**63:
                raise AnswerOverflow(f"{value} does not fit 64 bits; let lower give a double")
            return int(value)
        if self.result == "double" and _is(value, numbers.Real):
            return float(value)
        if self.result == "boolean" and isinstance(value, bool | np.bool_):
            return bool(value)
        if self.result == "string" and isinstance(value, str):
            return value
        if self.result == "timestamp" and isinstance(value, datetime.datetime):
            utc = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
            return (utc - EPOCH) // MICROSECOND
        if self.result == "date" and type(value) is datetime.date:
            return (value - EPOCH.date()).days
        what = f"gave {_short.repr(value)}, which is no {self.result}"
        raise self.failed("lower", (state,), what)


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
