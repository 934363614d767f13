"""Queries that an error comes from: looked for, query by query, only once one has been raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from weft.aggregates import Part
from weft.errors import QueryError, WeftError
from weft.operators import contract
from weft.operators.windows.program import WindowProgram

Failed: TypeAlias = contract.Failed
"""As the contract has it."""

Where = tuple[int, int, int]
"""A grouping, the number of a part in it, and a predicate that cells satisfy."""


class PartsFailed(Exception):
    """States of some aggregates that could not be combined or kept."""

    def __init__(self, parts: Mapping[Where, Exception]) -> None:
        self.parts = parts
        super().__init__("; ".join(map(str, parts.values())))


def own_error(name: str, error: Exception, alias: str | None = None) -> WeftError:
    """An error of one query, which it names.

    >>> own_error("q", ZeroDivisionError("by zero"))
    QueryError('ZeroDivisionError: by zero')
    """
    if not isinstance(error, WeftError):
        return QueryError(f"{type(error).__name__}: {error}", query=name)
    if str(error).startswith(f"query '{name}'"):
        return error
    where = f"query '{name}'" if alias is None else f"query '{name}', {alias}"
    return type(error)(f"{where}: {error}")


def using(program: WindowProgram, parts: Mapping[Where, Exception]) -> Failed:
    """The queries that are answered from states that failed."""
    failed: Failed = {}
    for entry in program.entries:
        for answer in entry.answers:
            for number in answer.parts:
                error = parts.get((entry.grouping, number, entry.predicate))
                if error is not None:
                    name = entry.query.name
                    failed.setdefault(name, own_error(name, error, answer.alias))
    return failed


def needing(program: WindowProgram, parts: Mapping[tuple[Part, int], Exception]) -> Failed:
    """The queries that need a part of the rows that satisfy a predicate, where that failed."""
    failed: Failed = {}
    for entry in program.entries:
        grouping, name = program.groupings[entry.grouping], entry.query.name
        for answer in entry.answers:
            for number in answer.parts:
                error = parts.get((grouping.parts[number], entry.predicate))
                if error is not None:
                    failed.setdefault(name, own_error(name, error, answer.alias))
    return failed


def attempted(do: Callable[[], Any]) -> Exception | None:
    """Return what an attempt raises, if it does; running out of memory is nobody's own error."""
    try:
        do()
    except MemoryError:
        raise
    except Exception as error:
        return error
    return None


@contextmanager
def blaming(program: WindowProgram, failed: Failed | None) -> Iterator[None]:
    """In the block, parts that fail put the queries that use them into ``failed``; where None, are raised."""
    try:
        yield
    except PartsFailed as error:
        if failed is None:
            raise next(iter(using(program, error.parts).values()), error) from error
        failed |= using(program, error.parts)
