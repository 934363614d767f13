"""Sources and findings of the checks of words."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """A parsed file, and the folder of the check (``src``, ``lab``) it was found in."""

    path: Path
    folder: str
    tree: ast.Module


@dataclass(frozen=True, order=True)
class Finding:
    """A word that breaks a rule."""

    path: Path
    line: int
    rule: str
    subject: str  # dotted name without the module, so that an exception survives a move of the file
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} [{self.rule} {self.subject}]"
