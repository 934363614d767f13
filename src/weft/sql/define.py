"""Aggregates of one's own: defined in Python, called in SQL and in the builder like any other."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from weft import aggregates
from weft.aggregates.definition import RESULTS, Definition
from weft.aggregates.formulas import obstacle
from weft.aggregates.laws import check_laws
from weft.aggregates.plain import Plain
from weft.aggregates.user import function_of
from weft.errors import AggregateError, JobError, QueryError, WeftError
from weft.expr.functions import ALIASES, FUNCTIONS
from weft.model.query import Query
from weft.sql.snippet import snippet
from weft.sql.whitelist import HINTS, SYNTAX


@dataclass(frozen=True)
class UserAggregate:
    """An aggregate that has been defined, and how it runs."""

    definition: Definition

    def runs(self, *types: str) -> str:
        """``compiled``, or ``plain Python`` and why, for arguments of these SQL types (all double if none).

        >>> top = define_aggregate("top_two", lift=lambda x: [x], combine=lambda a, b: sorted(a + b)[-2:],
        ...                        lower=lambda s: sum(s), identity=[], result="double")
        >>> top.runs("double")
        'plain Python: its identity is not a number or a flat tuple of numbers'
        """
        why = obstacle(self.definition, types or ("double",) * self.definition.arguments)
        return "compiled" if why is None else f"plain Python: {why}"


def define_aggregate(  # noqa: PLR0913 - the public keywords, each a part of the algebra
    name: str,
    *,
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    identity: Any,
    result: str,
    inverse: Callable[[Any, Any], Any] | None = None,
    commutative: bool = True,
    arguments: int = 1,
    samples: Sequence[Any] = (),
    compiled: bool = True,
    to_state: Callable[[Any], Any] | None = None,
    from_state: Callable[[Any], Any] | None = None,
) -> UserAggregate:
    """Define an aggregate, or define it anew; queries read from then on can call it by its name.

    ``lift`` makes a state of a row's arguments, ``combine`` one state of two (the older first) without
    changing either, ``lower`` an answer of type ``result`` (or None) of a state. ``inverse(total, oldest)``,
    where there is one, must undo combine exactly. With ``samples`` (values that lift takes, or tuples of
    them) the laws of aggregates are tried at once. ``compiled=False`` keeps it in plain Python. A state is
    plain data: numbers, text, times, tuples, lists, sets, dicts, NumPy arrays; for any other, ``to_state``
    makes plain data of it and ``from_state`` makes it again.

    >>> import math, weft
    >>> gmean = weft.define_aggregate(
    ...     "gmean",
    ...     lift=lambda x: (math.log(x), 1),
    ...     combine=lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ...     lower=lambda s: math.exp(s[0] / s[1]),
    ...     identity=(0.0, 0),
    ...     result="double",
    ...     samples=[1.0, 2.5, 10.0],
    ... )
    >>> gmean.runs("double")
    'compiled'
    >>> weft.sql("SELECT gmean(price) AS g FROM trades [RANGE '1 min']")[0].aggregates[0].function
    'gmean'
    """
    _check_name(name)
    needed = {"lift": lift, "combine": combine, "lower": lower}
    for role, function in (
        *needed.items(),
        ("inverse", inverse),
        ("to_state", to_state),
        ("from_state", from_state),
    ):
        if not callable(function) and (role in needed or function is not None):
            raise AggregateError(f"{name}: {role} must be a function, not {function!r}")
    if result not in RESULTS:
        raise AggregateError(f"{name}: result must be one of {', '.join(RESULTS)}, not {result!r}")
    if isinstance(arguments, bool) or not isinstance(arguments, int) or arguments < 1:
        raise AggregateError(f"{name}: arguments must be a number from 1 on, not {arguments!r}")
    if inverse is not None and not commutative:
        raise AggregateError(f"{name}: an aggregate that is not commutative takes no inverse; leave it out")
    if (to_state is None) != (from_state is None):
        raise AggregateError(f"{name}: to_state and from_state belong together; give both or none")
    definition = Definition(
        name.lower(),
        lift,
        combine,
        lower,
        identity,
        result,
        inverse,
        commutative,
        arguments,
        compiled,
        uuid.uuid4().hex,
        to_state,
        from_state,
    )
    if not commutative and to_state is not None:
        raise AggregateError(f"{name}: what is not commutative keeps its rows; leave to_state and from_state")
    if commutative and identity is not None:
        # What can never be written down is refused now, and not when the first step is to be kept.
        plain = Plain(definition)
        plain.read(plain.write(identity))
    check_laws(definition, samples)
    aggregates.USER_FUNCTIONS[definition.name] = function_of(definition)
    return UserAggregate(definition)


def load_aggregates(files: Iterable[Path | str]) -> None:
    """Run Python files that define aggregates."""
    for file in map(Path, files):
        # Not among the modules that can be imported: its functions then travel to tasks by value.
        spec = importlib.util.spec_from_file_location(f"weft_aggregates_{file.stem}", file)
        if spec is None or spec.loader is None or not file.is_file():
            raise JobError(f"aggregates: '{file}' is not a Python file")
        try:
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        except Exception as error:
            reason = str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
            raise JobError(f"aggregates: '{file}' cannot be run: {reason}") from error


def defined_in(queries: Iterable[Query]) -> list[str]:
    """The user-defined aggregates that queries call, each with how it runs over numbers."""
    called = dict.fromkeys(a.function for q in queries for a in q.aggregates)
    parts = (aggregates.USER_FUNCTIONS[name].parts for name in called if name in aggregates.USER_FUNCTIONS)
    return [_describe(UserAggregate(split.definition)) for split in parts]  # type: ignore[attr-defined]


def _describe(aggregate: UserAggregate) -> str:
    count = aggregate.definition.arguments
    ways = {dtype: aggregate.runs(*[dtype] * count) for dtype in ("bigint", "double")}
    same = len(set(ways.values())) == 1
    how = ways["double"] if same else "; ".join(f"over {dtype} {way}" for dtype, way in ways.items())
    return f"{aggregate.definition.name}: user-defined, {how}"


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise AggregateError(f"{name!r} cannot be the name of an aggregate; use letters, digits and _")
    lowered = name.lower()
    builtin = aggregates.named(lowered) is not None and lowered not in aggregates.USER_FUNCTIONS
    if builtin or lowered in FUNCTIONS or lowered in ALIASES or lowered in SYNTAX or lowered in HINTS:
        raise AggregateError(f"{name!r} is the name of a built-in function; choose another")
    try:
        node = snippet(f"{name}(x)", "aggregate", name).node
    except QueryError:
        node = None
    if not isinstance(node, exp.Anonymous) or node.name.lower() != lowered:
        raise AggregateError(f"{name!r} means something else in SQL; choose another name")
