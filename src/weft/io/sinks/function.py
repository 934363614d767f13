"""A function of Python as a sink."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pyarrow as pa
from rich.console import Console

from weft.errors import JobError
from weft.io.kinds import SinkKind


class FunctionSink:
    """A function, called with each step's results as Arrow tables and the step's number.

    It may be called again for a step, with the same tables and number, also after calls for later steps.

    >>> seen = []
    >>> FunctionSink(lambda results, seq: seen.append((seq, list(results)))).deliver({"q": None}, 3)
    >>> seen
    [(3, ['q'])]
    """

    def __init__(self, function: Callable[[dict[str, pa.Table], int], Any]) -> None:
        self.function = function

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        """Nothing to do."""

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        """Call the function."""
        self.function(dict(results), seq)

    def close(self) -> None:
        """Nothing to do."""


@dataclass(frozen=True, slots=True)
class ToFunction(SinkKind):
    """A function of Python."""

    kind: ClassVar[str] = "python"

    function: str
    """`"module:function"`, called with `{query name: pyarrow.Table}` and the step's number; numbers grow, and
    a step that is delivered again has the same number"""

    def load(self) -> Callable[..., Any]:
        """Import the function.

        >>> ToFunction("math:sqrt").load()(9.0)
        3.0
        """
        module, _, name = self.function.partition(":")
        try:
            loaded = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise JobError(
                f"[sink] function = '{self.function}' cannot be loaded ({error}); "
                "write 'module:function' for a function that Python can import from here"
            ) from error
        if not callable(loaded):
            raise JobError(f"[sink] function = '{self.function}' is not a function")
        return cast(Callable[..., Any], loaded)

    def make(self, console: Console) -> FunctionSink:
        """Make the sink; JobError for a function that cannot be loaded."""
        return FunctionSink(self.load())
