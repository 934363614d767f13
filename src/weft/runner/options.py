"""Options of ``run``, ``share`` and ``stream``, each declared, documented and given its default once.

A way to run takes ``**options: Unpack[RunOptions]``: type checkers read the declarations, `with_options`
makes the signature and the docstring that ``help`` and the documentation show; `filled` checks the names that
were given and adds the defaults. A default is None where ``Default`` states no other.
"""

from __future__ import annotations

import ast
import datetime
import difflib
import importlib
import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, TypeVar, cast, get_type_hints

from weft.expr.types import UTC
from weft.io.lookups import TableSource

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Mapping[str, Any])


class Default(NamedTuple):
    """The default of an option that is not None."""

    value: Any


class PlanningOptions(TypedDict, total=False):
    """Options of every way to run."""

    strategy: Annotated[str, Default("share-all")]
    """The planner's strategy: which queries share slices. A `Plan` has its own."""

    technique: Annotated[str, Default("auto")]
    """The algorithm that answers windows from slices; ``auto`` chooses one for each query."""

    strict: Annotated[bool, Default(False)]
    """Let a value that cannot be computed stop the run instead of being null."""

    tables: Mapping[str, TableSource] | None
    """The lookup tables that window queries join, by name: tables, paths of files, or functions that give
    them; a table that has changed is read again before each batch."""


class LocalOptions(PlanningOptions, total=False):
    """Options of a `LocalRun`: queries in this process."""

    threads: int | None
    """Threads to work on: all cores, where not given."""

    chain: Annotated[str | float, Default("mem-opt")]
    """The slices of joins: ``mem-opt``, ``cpu-opt``, or the most rows they may keep."""

    max_ahead: str | datetime.timedelta | None
    """A row of an iterator that is further ahead of the clock (an hour, where not given) counts in its own
    windows and makes no other row late."""

    zone: Annotated[str, Default(UTC)]
    """The time zone of ``hour(ts)`` and of whatever else depends on one, whatever zones the columns have."""


class RunOptions(LocalOptions, total=False):
    """Options of ``weft.run``: queries in this process, to the end of their input."""

    checkpoint: str | os.PathLike[str] | None
    """The directory that state, positions and answers are kept in, for a run that goes on with them."""

    close_at_end: bool | None
    """Answer the windows still open at the end. Where not given: if there is no checkpoint; with one, they
    stay open for the run that goes on."""


class Option(NamedTuple):
    """One option of a way to run."""

    name: str
    annotation: Any
    default: Any
    text: str


def filled(declared: type[T] | Callable[..., T], given: T, function: str) -> T:
    """Return options with the defaults of those not given; TypeError for one that is not declared.

    >>> filled(PlanningOptions, {"strict": True}, "run")
    {'strategy': 'share-all', 'technique': 'auto', 'strict': True, 'tables': None}
    """
    defaults = {option.name: option.default for option in options_of(declared)}
    for name in given:
        if name not in defaults:
            close = difflib.get_close_matches(name, defaults, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")
    return cast(T, defaults | dict(given))


def with_options(declared: Callable[..., Any]) -> Callable[[F], F]:
    """Show the declared options in the signature and the docstring of a function that takes ``**options``.

    The function itself stays: nothing is called in between.
    """

    def describe(function: F) -> F:
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        parameters += [
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=option.default,
                annotation=option.annotation,
            )
            for option in options_of(declared)
        ]
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        if function.__doc__ is not None:
            function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\n{_section(options_of(declared))}"
        return function

    return describe


@cache
def options_of(declared: Callable[..., Any]) -> tuple[Option, ...]:
    """Return the options that a typed dictionary declares, those it inherits first."""
    written = _written(declared.__module__, declared.__name__)
    options = []
    for name, hint in get_type_hints(declared, include_extras=True).items():
        stated = [entry for entry in getattr(hint, "__metadata__", ()) if isinstance(entry, Default)]
        annotation, text = written.get(name, (hint, ""))
        options.append(Option(name, annotation, stated[0].value if stated else None, text))
    return tuple(options)


def _section(options: tuple[Option, ...]) -> str:
    """Return the section of a docstring that has a paragraph for each option."""
    lines = ["Keyword Args:"]
    for option in options:
        default = "" if option.default is None else f" Default: ``{option.default!r}``."
        text = f"{option.name}: {option.text}{default}"
        lines += textwrap.wrap(
            text, 106, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False
        )
    return "\n".join(lines)


def _written(module: str, name: str) -> dict[str, tuple[str, str]]:
    """Return type and text of each key of a typed dictionary as its source has them, with inherited ones."""
    keys: dict[str, tuple[str, str]] = {}
    declaration = _classes(module).get(name)
    if declaration is None:
        return keys
    for base in declaration.bases:
        parent = getattr(importlib.import_module(module), ast.unparse(base))
        keys |= _written(parent.__module__, parent.__name__)
    for statement, below in pairwise(declaration.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=key), annotation=annotation),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
                    annotation = cast(ast.Tuple, annotation.slice).elts[0]
                keys[key] = ast.unparse(annotation), " ".join(text.split())
    return keys


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module as written; empty where its source is not there."""
    path = importlib.import_module(module).__file__
    if path is None or not Path(path).is_file():
        return {}
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
