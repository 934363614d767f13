"""The planner: queries in, a Plan out. One strategy, one file; all files of the two folders are found."""

from __future__ import annotations

import importlib
import pkgutil

from weft.planning import nodes, strategies

for _folder in (strategies, nodes):
    for _module in pkgutil.iter_modules(_folder.__path__, f"{_folder.__name__}."):
        importlib.import_module(_module.name)
