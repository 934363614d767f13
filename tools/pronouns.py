"""The check for pronouns as names: ``found`` is fine for three lines, a riddle for more."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from findings import Finding, Function, Source
from word_lists import PRONOUNS

MAX_PRONOUN_LINES = 3


def pronouns(sources: Iterable[Source]) -> Iterator[Finding]:
    """Find pronouns that live for more than three lines: variables, parameters, fields, functions."""
    for source in sources:
        visitor = _NameVisitor(source)
        visitor.visit(source.tree)
        yield from visitor.findings()


@dataclass
class Scope:
    """Names of a function, class, comprehension or module, with the lines where they stand."""

    kind: str
    qualname: str
    parent: Scope | None
    parameters: set[str] = field(default_factory=set)
    bindings: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    uses: list[tuple[str, int]] = field(default_factory=list)

    def home_of(self, name: str) -> Scope | None:
        """Return the scope that a name used here belongs to; names of a class are not seen by its methods."""
        home: Scope | None = self
        while home and (home.kind == "class" or not (name in home.bindings or name in home.parameters)):
            home = home.parent
        return home


class _NameVisitor(ast.NodeVisitor):
    """Collector of names by scope, and of fields, functions and parameters that are pronouns."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.scopes = [Scope("module", "", None)]
        self.scope = self.scopes[0]
        self.direct: dict[str, Finding] = {}

    def findings(self) -> Iterator[Finding]:
        """Yield what the visit showed."""
        yield from self.direct.values()
        uses: dict[tuple[int, str], list[int]] = defaultdict(list)
        for scope in self.scopes:
            for name, line in scope.uses:
                uses[id(scope.home_of(name)), name].append(line)
        for scope in self.scopes:
            for name, bound in scope.bindings.items():
                lines = bound + uses[id(scope), name]
                first = min(lines) if scope.kind == "comprehension" else min(bound)  # there uses come first
                count = max(lines) - first
                if name.strip("_") not in PRONOUNS or name in scope.parameters or count <= MAX_PRONOUN_LINES:
                    continue
                subject = f"{scope.qualname}.{name}".strip(".")
                message = f"variable {name!r} lives for {count} lines: name it by a noun"
                yield Finding(self.source.path, min(bound), "pronoun", subject, message)

    def visit_FunctionDef(self, node: Function) -> None:
        self._report(node.name, node.lineno, "function")
        for outer in (*node.decorator_list, *_outer_parts(node.args), *filter(None, [node.returns])):
            self.visit(outer)
        self._enter("function", node.name)
        for argument in _arguments(node.args):
            self.scope.parameters.add(argument.arg)
            if _line_count(node) > MAX_PRONOUN_LINES:
                self._report(argument.arg, argument.lineno, "parameter")
        for statement in node.body:
            self.visit(statement)
        self._leave()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outer in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outer)
        self._enter("class", node.name)
        for statement in node.body:
            self.visit(statement)
        self._leave()

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for outer in _outer_parts(node.args):
            self.visit(outer)
        self._enter("lambda", "")
        for argument in _arguments(node.args):
            self.scope.bindings[argument.arg].append(argument.lineno)
        self.visit(node.body)
        self._leave()

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._enter("comprehension", "")
        self.generic_visit(node)
        self._leave()

    visit_SetComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp
    visit_DictComp = visit_ListComp

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store) and self.scope.kind == "class":
            self._report(node.id, node.lineno, "field")
        elif isinstance(node.ctx, ast.Store):
            self.scope.bindings[node.id].append(node.lineno)
        else:
            self.scope.uses.append((node.id, node.lineno))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        home = self.scope
        while home.kind == "comprehension" and home.parent:
            home = home.parent
        home.bindings[node.target.id].append(node.lineno)
        self.visit(node.value)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.scope.bindings[node.name].append(node.lineno)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.scope.bindings[node.name].append(node.lineno)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store):
            self._report(node.attr, node.lineno, "attribute")
        self.generic_visit(node)

    def _enter(self, kind: str, name: str) -> None:
        """Begin a scope inside the present one."""
        qualname = f"{self.scope.qualname}.{name}".strip(".")
        self.scope = Scope(kind, qualname, self.scope)
        self.scopes.append(self.scope)

    def _leave(self) -> None:
        """Go back to the scope around the present one."""
        assert self.scope.parent
        self.scope = self.scope.parent

    def _report(self, name: str, line: int, kind: str) -> None:
        """Add a finding where a name is a pronoun; the first of a name in a class is enough."""
        home = self.scope
        while kind == "attribute" and home.kind != "class" and home.parent:
            home = home.parent
        subject = f"{home.qualname}.{name}".strip(".")
        if name.strip("_") in PRONOUNS and subject not in self.direct:
            message = f"{kind} {name!r} is a pronoun: name it by a noun"
            self.direct[subject] = Finding(self.source.path, line, "pronoun", subject, message)


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    """Return the parameters of a function or lambda."""
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def _outer_parts(arguments: ast.arguments) -> list[ast.expr]:
    """Return the expressions of a signature that are evaluated outside the function."""
    annotations = [argument.annotation for argument in _arguments(arguments)]
    return [part for part in (*arguments.defaults, *arguments.kw_defaults, *annotations) if part]


def _line_count(node: Function) -> int:
    """Return the number of lines of a function without its decorators and docstring."""
    count = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        count -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return count
