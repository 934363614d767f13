"""Compiled code whose integers never wrap: an overflow is an error, as everywhere in weft.

Numba's integers have 64 bits and wrap silently, Python's have as many as they need. In functions compiled
here the operators that can overflow are replaced, before types are known, by ones that look.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import UnsupportedError
from numba.core.ir_utils import build_definitions, mk_unique_var
from numba.core.untyped_passes import IRProcessing
from numba.extending import overload

MAX_SAFE_FLOAT = 2.0**63 * (1 - 2.0**-52)
"""Products and powers that reach this as floats may not fit."""

OVERFLOW_MESSAGE = "an integer does not fit 64 bits"


def compile_checked(function: Callable[..., Any], arguments: int = 1) -> Any:
    """Compile a function of so many arguments so that it raises OverflowError where an integer would wrap.

    >>> double = compile_checked(lambda x: x + x)
    >>> double(2), double(1.5)
    (4, 3.0)
    >>> double(1 << 62)
    Traceback (most recent call last):
    OverflowError: an integer does not fit 64 bits
    """
    function = getattr(function, "py_func", function)
    if isinstance(function, FunctionType):
        compiled: Any = njit(pipeline_class=_Compiler)(function)
        if not function.__defaults__:
            return compiled
    else:
        # Numba compiles calls of ``max`` or ``operator.add``, but not these themselves.
        compiled = CHECKED.get(function, function)
    given = ", ".join(f"x{n}" for n in range(arguments))
    return njit(eval(f"lambda {given}: called({given})", {"called": compiled}))


def add(a, b):
    """a + b."""
    return a + b


def subtract(a, b):
    """a - b."""
    return a - b


def multiply(a, b):
    """a * b."""
    return a * b


def power(a, b):
    """a ** b."""
    return a**b


@overload(add)
def _add(a, b):
    def whole(a, b):
        total = np.int64(a) + np.int64(b)
        if ((np.int64(a) ^ total) & (np.int64(b) ^ total)) < 0:
            raise OverflowError(OVERFLOW_MESSAGE)
        return total

    return whole if _whole(a, b) else lambda a, b: a + b


@overload(subtract)
def _subtract(a, b):
    def whole(a, b):
        rest = np.int64(a) - np.int64(b)
        if ((np.int64(a) ^ np.int64(b)) & (np.int64(a) ^ rest)) < 0:
            raise OverflowError(OVERFLOW_MESSAGE)
        return rest

    return whole if _whole(a, b) else lambda a, b: a - b


@overload(multiply)
def _multiply(a, b):
    def whole(a, b):
        if abs(np.float64(a) * np.float64(b)) >= MAX_SAFE_FLOAT:
            raise OverflowError(OVERFLOW_MESSAGE)
        return np.int64(a) * np.int64(b)

    return whole if _whole(a, b) else lambda a, b: a * b


@overload(power)
def _power(a, b):
    def whole(a, b):
        # A negative exponent gives a float in Python, which no integer can hold.
        if b < 0 or abs(np.float64(a) ** np.float64(b)) >= MAX_SAFE_FLOAT:
            raise OverflowError(OVERFLOW_MESSAGE)
        return np.int64(a) ** np.int64(b)

    return whole if _whole(a, b) else lambda a, b: a**b


def _whole(a, b):
    return all(isinstance(t, types.Integer | types.Boolean) for t in (a, b))


CHECKED: dict[Any, Callable[..., Any]] = {
    operator.add: add,
    operator.sub: subtract,
    operator.mul: multiply,
    operator.pow: power,
}


@register_pass(mutates_CFG=False, analysis_only=False)
class _CheckIntegers(FunctionPass):
    _name = "check_integers"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        for block in state.func_ir.blocks.values():
            block.body = [new for old in block.body for new in _replaced(block.scope, old)]
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


def _replaced(scope, statement):
    """Return a statement, or two: the checked operator, and its call."""
    if not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Expr):
        return [statement]
    expression = statement.value
    if expression.op not in ("binop", "inplace_binop"):
        return [statement]
    called = expression.fn if expression.op == "binop" else expression.immutable_fn
    if called is operator.lshift:
        raise UnsupportedError("<< is not checked for overflow", statement.loc)
    if called not in CHECKED:
        return [statement]
    function = ir.Var(scope, mk_unique_var("$checked"), statement.loc)
    statement.value = ir.Expr.call(function, (expression.lhs, expression.rhs), (), statement.loc)
    checked = ir.Global(CHECKED[called].__name__, CHECKED[called], statement.loc)
    return [ir.Assign(checked, function, statement.loc), statement]


class _Compiler(CompilerBase):
    def define_pipelines(self):
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_CheckIntegers, IRProcessing)
        passes.finalize()
        return [passes]
