"""Settings from TOML tables, strictly: unknown keys refused with the closest known one, types checked.

A section is a frozen dataclass; its fields' annotations say what each key takes.
"""

from __future__ import annotations

import difflib
import os
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NewType, TypeVar

from weft.errors import JobError, QueryError
from weft.model.duration import parse_duration

Duration = NewType("Duration", int)
"""Microseconds, written in the file as text such as "10 s"."""

NO_TIME = Duration(0)

Durations = NewType("Durations", dict)  # type: ignore[type-arg]
"""Durations by the names of streams, written in the file as a table: ``{ a = "10 s", b = "0 s" }``."""

Options = NewType("Options", dict)  # type: ignore[type-arg]
"""A table of free-form settings, each value taken as text."""

Paths = NewType("Paths", tuple)  # type: ignore[type-arg]
"""Paths, written in the file as a list of text."""

NO_PATHS = Paths(())

Secret = NewType("Secret", str)
"""Text that may hold a password, best written as ``${NAME}`` for a variable of the environment."""

Section = TypeVar("Section")

TYPE_WORDS = {str: "text in quotes", int: "a whole number", bool: "true or false"}


def read_kind(table: Mapping[str, Any], kinds: Mapping[str, type], name: str, base: Path) -> Any:
    """Read the settings of a section as the dataclass of its ``kind``."""
    kind = table.get("kind")
    if kind is None:
        raise JobError(f"[{name}] needs kind = one of {', '.join(kinds)}")
    if kind not in kinds:
        raise JobError(
            f"[{name}] kind must be one of {', '.join(kinds)}, not {kind!r}{_close(str(kind), kinds)}"
        )
    rest = {key: value for key, value in table.items() if key != "kind"}
    return read_section(kinds[kind], rest, name, base, f" of kind '{kind}'")


def read_section(
    form: type[Section], table: Mapping[str, Any], name: str, base: Path, of_kind: str = ""
) -> Section:
    """Read a section as its dataclass; paths are taken relative to ``base``.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Stream:
    ...     time: str
    ...     lateness: Duration = Duration(0)
    >>> read_section(Stream, {"time": "ts", "lateness": "2 s"}, "stream", Path())
    Stream(time='ts', lateness=2000000)
    """
    annotations = typing.get_type_hints(form)
    hints = {key.name: annotations[key.name] for key in fields(form)}  # type: ignore[arg-type]
    refuse_unknown(table, hints, f"key '{{}}' in [{name}]{of_kind}")
    for field in fields(form):  # type: ignore[arg-type]
        if field.default is MISSING and field.default_factory is MISSING and field.name not in table:
            raise JobError(f"[{name}]{of_kind} needs {field.name} = ...")
    return form(**{key: _value(value, hints[key], f"[{name}] {key}", base) for key, value in table.items()})


def _value(value: Any, dtype: Any, where: str, base: Path) -> Any:
    """One setting in the type its section wants."""
    choices = [t for t in typing.get_args(dtype) if t is not type(None)] or [dtype]
    dtype = Durations if Durations in choices and isinstance(value, dict) else choices[0]
    if dtype is Duration:
        return _duration(value, where)
    if dtype is Durations:
        return {name: _duration(text, f"{where}.{name}") for name, text in value.items()}
    if dtype is Secret:
        return filled_in(_checked(value, str, TYPE_WORDS[str], where), where)
    if dtype is Options:
        return _options(value, where)
    if dtype is Path:
        return base / _checked(value, str, "a path in quotes", where)
    if dtype is Paths:
        paths = _checked(value, list, "a list of paths in quotes", where)
        return tuple(base / _checked(v, str, "a list of paths in quotes", where) for v in paths)
    if dtype is float:
        return float(_checked(value, (int, float), "a number", where))
    return _checked(value, dtype, TYPE_WORDS[dtype], where)


def _checked(value: Any, kinds: Any, words: str, where: str) -> Any:
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise JobError(f"{where} must be {words}, not {value!r}")
    return value


def _duration(value: Any, where: str) -> int:
    try:
        return parse_duration(_checked(value, str, 'a duration in quotes such as "10 s"', where), where)
    except QueryError as error:
        raise JobError(str(error)) from error


def _options(value: Any, where: str) -> dict[str, str]:
    """Settings as text; TOML reads an unquoted dotted key as nested tables, which are put together again."""
    flat: dict[str, str] = {}
    for key, setting in _checked(value, dict, "a table of settings", where).items():
        if isinstance(setting, dict):
            flat |= {f"{key}.{rest}": text for rest, text in _options(setting, f"{where}.{key}").items()}
        elif isinstance(setting, bool):
            flat[key] = str(setting).lower()
        else:
            place = f"{where}.{key}"
            flat[key] = filled_in(
                str(_checked(setting, (str, int, float), "text, a number or true/false", place)), place
            )
    return flat


def filled_in(text: str, where: str) -> str:
    """Put the environment's variables into a text, for ``${NAME}``.

    >>> os.environ["WEFT_EXAMPLE"] = "secret"
    >>> filled_in("Bearer ${WEFT_EXAMPLE}", "[sink] headers.Authorization")
    'Bearer secret'
    """

    def value(variable: re.Match[str]) -> str:
        if variable[1] not in os.environ:
            raise JobError(f"{where} names the environment's variable {variable[1]}, which is not set")
        return os.environ[variable[1]]

    return re.sub(r"\$\{([A-Za-z_]\w*)\}", value, text)


def refuse_unknown(given: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """Raise for the first key that is not among the ``keys``; ``where`` has a place for it.

    >>> refuse_unknown({"latenes": "1 s"}, ["time", "lateness"], "key '{}' in [stream]")
    Traceback (most recent call last):
        ...
    weft.errors.JobError: unknown key 'latenes' in [stream]; did you mean 'lateness'?
    """
    keys = list(keys)
    for key in given:
        if key not in keys:
            raise JobError(f"unknown {where.format(key)}{_close(key, keys) or '; known: ' + ', '.join(keys)}")


def _close(word: str, choices: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(choices), 1)
    return f"; did you mean '{close[0]}'?" if close else ""
