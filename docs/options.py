"""Functions that take ``**options`` show all of them in the Python reference, as ``help`` does."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from griffe import Extension, Function, Object, Parameter, ParameterKind, Parameters

KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: ParameterKind.keyword_only,
}


class Options(Extension):
    """Called by mkdocstrings for everything that it shows (see mkdocs.yml)."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Take signature and docstring of a function with options from the code as it runs."""
        if not isinstance(obj, Function) or not any("Unpack" in str(p.annotation) for p in obj.parameters):
            return
        target: Any = import_module(obj.module.path)
        for name in obj.path.removeprefix(f"{obj.module.path}.").split("."):
            target = getattr(target, name)
        written = {p.name: p for p in obj.parameters}
        obj.parameters = Parameters(
            *(written.get(p.name) or _shown(p) for p in inspect.signature(target).parameters.values())
        )
        obj.overloads = None
        if obj.docstring:
            obj.docstring.value = inspect.cleandoc(target.__doc__)


def _shown(parameter: inspect.Parameter) -> Parameter:
    """Return a parameter as the reference shows it."""
    return Parameter(
        parameter.name,
        annotation=str(parameter.annotation),
        kind=KINDS[parameter.kind],
        default=repr(parameter.default),
    )
