"""The kinds of sources and sinks, found in all modules of this package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from weft.io.kinds import SinkKind, SourceKind

K = TypeVar("K", SourceKind, SinkKind)


def find_kinds(base: type[K], folder: Path, package: str) -> dict[str, type[K]]:
    """Return the kinds below a class that the modules of a package declare, in the order of modules."""
    modules = [m.name for m in pkgutil.walk_packages([str(folder)], f"{package}.")]
    members = [member for name in modules for member in vars(importlib.import_module(name)).values()]
    declared = [m for m in members if isinstance(m, type) and issubclass(m, base) and "kind" in vars(m)]
    kinds = {member.kind: member for member in declared}
    if lost := set(declared) - set(kinds.values()):
        raise TypeError(f"{lost} has the name of another kind")
    return kinds


FOLDER = Path(__file__).parent

SOURCES: Mapping[str, type[SourceKind]] = find_kinds(SourceKind, FOLDER, __package__)  # type: ignore[type-abstract]
"""Every kind of source by its name."""

SINKS: Mapping[str, type[SinkKind]] = find_kinds(SinkKind, FOLDER, __package__)  # type: ignore[type-abstract]
"""Every kind of sink by its name."""
