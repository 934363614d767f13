"""Examples in docstrings (``>>>``) become code blocks of the Python reference; Markdown would quote them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Doctests(Extension):
    """Called by mkdocstrings for everything that it shows (see mkdocs.yml)."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Put its examples into fences."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with its examples in fences."""
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
