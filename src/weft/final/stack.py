"""A state on the stack of a kernel, as the row of a matrix that formulas on matrices can work on."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj


def _on_stack(typing_context, state):
    """Return a tuple of words as a matrix of one row, and the same memory as floats."""
    width = len(state)
    words, floats = types.Array(types.int64, 2, "C"), types.Array(types.float64, 2, "C")

    def generate(context, builder, signature, arguments):
        room = cgutils.alloca_once(builder, context.get_value_type(types.int64), size=width)
        for c in range(width):
            builder.store(builder.extract_value(arguments[0], c), cgutils.gep(builder, room, c))
        matrices = []
        for array_type in (words, floats):
            matrix = context.make_array(array_type)(context, builder)
            # Shape and strides are constants, so the optimiser can put the whole row back into registers.
            arrayobj.populate_array(
                matrix,
                data=builder.bitcast(room, matrix.data.type),
                shape=[context.get_constant(types.intp, n) for n in (1, width)],
                strides=[context.get_constant(types.intp, n) for n in (8 * width, 8)],
                itemsize=context.get_constant(types.intp, 8),
                meminfo=None,
            )
            matrices.append(matrix._getvalue())
        return context.make_tuple(builder, signature.return_type, matrices)

    return types.Tuple((words, floats))(state), generate


on_stack: Any = intrinsic(_on_stack)
