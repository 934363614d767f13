"""Imports between the modules of a package, read from its source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Module:
    """A module of the package, parsed."""

    name: str
    path: Path
    is_package: bool
    tree: ast.Module
    lines: int


@dataclass(frozen=True)
class Import:
    """An import of one module by another."""

    target: str
    deferred: bool  # inside a function: it runs when the function is called


def read_modules(source: Path, package: str) -> dict[str, Module]:
    """Parse all modules of ``source/package``, by dotted name."""
    modules = {}
    for path in sorted((source / package).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, is_package, ast.parse(text, str(path)), len(text.splitlines()))
    return modules


def imports_of(module: Module, names: Iterable[str]) -> Iterator[Import]:
    """Yield the imports of a module that name one of ``names``; those for type checkers alone are left out.

    ``from package import name`` imports ``package.name`` where that is a module, else the package.
    """
    names = frozenset(names)
    for statement, deferred in _statements(module.tree.body, False):
        for target in _targets(statement, module):
            parent = target.rpartition(".")[0]
            if target in names:
                yield Import(target, deferred)
            elif parent in names:
                yield Import(parent, deferred)


def import_graph(modules: Mapping[str, Module], deferred: bool = False) -> dict[str, frozenset[str]]:
    """Map every module to those it imports; with ``deferred``, also to those imported inside functions."""
    return {
        name: frozenset(
            imported.target
            for imported in imports_of(module, modules)
            if (deferred or not imported.deferred) and imported.target != name
        )
        for name, module in modules.items()
    }


def components(graph: Graph) -> list[tuple[str, ...]]:
    """Return the strongly connected components (Tarjan), each sorted, importers after what they import."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    result: list[tuple[str, ...]] = []
    for root in graph:
        if root in index:
            continue
        calls = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while calls:
            node, targets = calls[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    calls.append((target, iter(sorted(graph[target]))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                calls.pop()
                if calls:
                    caller = calls[-1][0]
                    low[caller] = min(low[caller], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    result.append(tuple(sorted(stack[cut:])))
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]
    return result


def cycles(graph: Graph) -> list[tuple[str, ...]]:
    """Return the groups of modules that import each other in a circle."""
    return sorted(group for group in components(graph) if len(group) > 1)


def longest_path(graph: Graph) -> list[str]:
    """Return the longest chain of imports, importers first.

    A cycle is one link of the chain, and counts with all its modules: their order within it is by name.
    """
    groups = components(graph)
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    below = {
        number: {group_of[target] for name in group for target in graph[name]} - {number}
        for number, group in enumerate(groups)
    }
    length: dict[int, int] = {}
    follower: dict[int, int | None] = {}
    for number in TopologicalSorter(below).static_order():
        follower[number] = max(below[number], key=lambda other: (length[other], groups[other]), default=None)
        beneath = follower[number]
        length[number] = len(groups[number]) + (0 if beneath is None else length[beneath])
    path: list[str] = []
    link: int | None = max(length, key=lambda number: (length[number], groups[number]), default=None)
    while link is not None:
        path.extend(groups[link])
        link = follower[link]
    return path


def reachable(modules: Mapping[str, Module], entries: Iterable[str]) -> set[str]:
    """Return the modules that running ``entries`` can load.

    These are the modules they import, at once or inside functions; the packages around those; modules named
    by a string (an import by name, a setting of Spark); and all modules beside one that walks its folder.
    """
    waiting = [name for name in entries if name in modules]
    result: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in result:
            continue
        result.add(name)
        module = modules[name]
        waiting.extend(imported.target for imported in imports_of(module, modules))
        waiting.extend(target for target in _strings(module.tree) if target in modules)
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        if _walks_folder(module.tree):
            folder = name if module.is_package else name.rpartition(".")[0]
            waiting.extend(other for other in modules if other.startswith(f"{folder}."))
    return result


def _statements(body: Iterable[ast.stmt], deferred: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the import statements of a body with whether they stand in a function."""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield statement, deferred
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(statement.body, True)
        elif isinstance(statement, ast.If) and _is_for_type_checkers(statement.test):
            yield from _statements(statement.orelse, deferred)
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, ()), deferred)
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                yield from _statements(part.body, deferred)


def _targets(statement: ast.stmt, module: Module) -> Iterator[str]:
    """Yield the dotted names that an import statement asks for."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        origin = statement.module or ""
        if statement.level:
            package = module.name.split(".")
            cut = len(package) + module.is_package - statement.level
            origin = ".".join([*package[:cut], *([origin] if origin else [])])
        yield from (f"{origin}.{alias.name}" for alias in statement.names)


def _is_for_type_checkers(test: ast.expr) -> bool:
    """Return whether a condition is ``TYPE_CHECKING``."""
    return getattr(test, "id", getattr(test, "attr", None)) == "TYPE_CHECKING"


def _strings(tree: ast.Module) -> Iterator[str]:
    """Yield the string constants of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _walks_folder(tree: ast.Module) -> bool:
    """Return whether a module imports all modules of a folder."""
    walkers = {"iter_modules", "walk_packages"}
    return any(getattr(node, "attr", getattr(node, "id", None)) in walkers for node in ast.walk(tree))
