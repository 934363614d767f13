"""Checks of the words in a tree of Python files, each a function from sources to findings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from findings import Definition, Finding, Function, Source
from pronouns import pronouns
from word_lists import (
    BARE_QUANTITIES,
    CLAUSE_BEGINNINGS,
    NON_NOUNS,
    RETIRED_LITERALS,
    RETIRED_NAMES,
    RETIRED_PHRASES,
    THIRD_PERSON_VERBS,
)

MAX_RETURNED_VALUES = 2


def docstrings(sources: Iterable[Source]) -> Iterator[Finding]:
    """Find docstrings that begin with a clause (What, Whether) or in the third person (Returns)."""
    for source in sources:
        module = source.path.parent.name if source.path.stem == "__init__" else source.path.stem
        documented: list[tuple[str, ast.Module | Definition]] = [(module, source.tree)]
        documented += _definitions(source.tree)
        for qualname, node in documented:
            first = (ast.get_docstring(node) or "").split(maxsplit=1)[:1]
            word = first[0].strip(",.:;") if first else ""
            if word in CLAUSE_BEGINNINGS or word in THIRD_PERSON_VERBS:
                form = "an imperative or a noun" if isinstance(node, Function) else "a noun"
                message = f"docstring begins with {word!r}, not with {form}"
                yield Finding(source.path, node.body[0].lineno, "docstring", qualname, message)


def repeated_classes(sources: Iterable[Source]) -> Iterator[Finding]:
    """Find classes of ``src`` with the name of another one."""
    definitions: dict[str, list[tuple[Source, int]]] = defaultdict(list)
    for source in sources:
        for _, node in _definitions(source.tree):
            if source.folder == "src" and isinstance(node, ast.ClassDef):
                definitions[node.name].append((source, node.lineno))
    for name, homes in definitions.items():
        first, line = homes[0]
        for source, other_line in homes[1:]:
            message = f"class {name} is defined in {first.path}:{line}, too"
            yield Finding(source.path, other_line, "class", name, message)


def constants(sources: Iterable[Source]) -> Iterator[Finding]:
    """Find constants of modules whose names do not say what they bound.

    These are names without a noun (MOST, AT_ONCE) and, in ``src`` and ``lab``, numbers named by a unit alone
    (ROWS). Numbers for columns and states, given out by ``range``, bound nothing and are left out.
    """
    for source in sources:
        for target, value in _module_constants(source.tree):
            name = target.id.strip("_")
            if name in RETIRED_NAMES:
                continue
            if all(word in NON_NOUNS for word in name.split("_")):
                reason = "has no noun: name what it bounds or holds, with its unit"
            elif name in BARE_QUANTITIES and source.folder in ("src", "lab") and _is_number(value):
                reason = "is a unit or a quantity alone: name what it bounds"
            else:
                continue
            message = f"constant {target.id} {reason}"
            yield Finding(source.path, target.lineno, "constant", target.id, message)


def returned_tuples(sources: Sequence[Source]) -> Iterator[Finding]:
    """Find functions for other modules that return three values or more without a named type."""
    imported = {
        alias.name
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for source in sources:
        for qualname, node in _definitions(source.tree):
            if isinstance(node, ast.ClassDef) or node.returns is None:
                continue
            private = any(part.startswith("_") and not part.endswith("__") for part in qualname.split("."))
            if "<locals>" in qualname or (private and qualname not in imported):
                continue
            count = _tuple_length(node.returns)
            if count > MAX_RETURNED_VALUES:
                message = f"{node.name} returns a tuple of {count} values: give it a named type"
                yield Finding(source.path, node.lineno, "tuple", qualname, message)


def retired_names(sources: Iterable[Source]) -> Iterator[Finding]:
    """Find classes and constants of ``src`` and ``lab`` with a name that was given up."""
    for source in sources:
        if source.folder not in ("src", "lab"):
            continue
        names = [
            (node.name, node.lineno)
            for _, node in _definitions(source.tree)
            if isinstance(node, ast.ClassDef)
        ]
        names += [(target.id, target.lineno) for target, _ in _module_constants(source.tree)]
        for name, line in names:
            if name.strip("_") in RETIRED_NAMES:
                message = f"{name} was given up for {RETIRED_NAMES[name.strip('_')]}"
                yield Finding(source.path, line, "retired", name, message)


def phrases(sources: Iterable[Source]) -> Iterator[Finding]:
    """Find phrases in strings and docstrings for which the field has another word."""
    for source in sources:
        for home, line, text in _strings(source):
            if text in RETIRED_LITERALS:
                message = f"{text!r}: write {RETIRED_LITERALS[text]!r}"
                yield Finding(source.path, line, "phrase", f"{home}:{text}", message)
            yield from phrases_of(source.path, line, home, text)


def phrases_of(path: Path, line: int, home: str, text: str) -> Iterator[Finding]:
    """Find retired phrases in a text that begins at ``line``; ``home`` names what it belongs to."""
    for match in _PHRASES.finditer(text):
        phrase = " ".join(match[0].lower().split())
        place = line + text.count("\n", 0, match.start())
        message = f"{phrase!r}: write {RETIRED_PHRASES[phrase]!r}"
        yield Finding(path, place, "phrase", f"{home}:{phrase.replace(' ', '-')}", message)


_PHRASES = re.compile(
    rf"\b(?:{'|'.join(phrase.replace(' ', chr(92) + 's+') for phrase in RETIRED_PHRASES)})\b", re.IGNORECASE
)

RULES = {
    "pronoun": pronouns,
    "docstring": docstrings,
    "class": repeated_classes,
    "constant": constants,
    "tuple": returned_tuples,
    "retired": retired_names,
    "phrase": phrases,
}


def _definitions(tree: ast.Module) -> list[tuple[str, Definition]]:
    """Return the classes and functions of a module with their qualified names."""
    result: list[tuple[str, Definition]] = []

    def collect(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Definition):
                result.append((f"{prefix}{child.name}", child))
                inner = "" if isinstance(child, ast.ClassDef) else "<locals>."
                collect(child, f"{prefix}{child.name}.{inner}")
            else:
                collect(child, prefix)

    collect(tree, "")
    return result


def _module_constants(tree: ast.Module) -> Iterator[tuple[ast.Name, ast.expr | None]]:
    """Yield the upper-case names that a module binds, with their values; not those numbered by ``range``."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        value = statement.value
        if isinstance(value, ast.Call) and getattr(value.func, "id", None) in ("range", "TypeVar"):
            continue
        for target in targets:
            for name, own in _pairs(target, value):
                if re.fullmatch(r"_*[A-Z][A-Z0-9_]*", name.id):
                    yield name, own


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[ast.Name, ast.expr | None]]:
    """Yield the names of an assignment's target with their own part of the value."""
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, ast.Tuple | ast.List):
        values: Sequence[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List):
            values = value.elts
        for inner, own in zip(target.elts, values):
            yield from _pairs(inner, own)


def _is_number(value: ast.expr | None) -> bool:
    """Return whether an expression is arithmetic on numbers and other constants."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    return isinstance(value, ast.Name) and value.id.isupper()


def _tuple_length(annotation: ast.expr) -> int:
    """Return the number of values of ``tuple[A, B, C]``, or of it and None; 0 for any other type."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):
        return max(_tuple_length(annotation.left), _tuple_length(annotation.right))
    if not (isinstance(annotation, ast.Subscript) and isinstance(annotation.value, ast.Name)):
        return 0
    if annotation.value.id not in ("tuple", "Tuple") or not isinstance(annotation.slice, ast.Tuple):
        return 0
    values = annotation.slice.elts
    endless = any(isinstance(value, ast.Constant) and value.value is Ellipsis for value in values)
    return 0 if endless else len(values)


def _strings(source: Source) -> Iterator[tuple[str, int, str]]:
    """Yield the strings of a file: the definition each stands in, its line, its text."""
    names: dict[ast.AST, str] = {node: qualname for qualname, node in _definitions(source.tree)}
    waiting: list[tuple[ast.AST, str]] = [(source.tree, source.path.stem)]
    while waiting:
        node, home = waiting.pop()
        home = names.get(node, home)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield home, node.lineno, node.value
        waiting.extend((child, home) for child in ast.iter_child_nodes(node))
