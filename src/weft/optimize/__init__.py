"""The planner: queries in, a Plan out. One strategy, one file; all files here are found."""

from __future__ import annotations

import importlib
import pkgutil

from weft.optimize.compare import Compared, compare
from weft.optimize.explain import Explanation, explain
from weft.optimize.live import LivePlanner
from weft.optimize.nodes.replan import replan
from weft.optimize.planner import plan
from weft.optimize.registry import STRATEGIES, Strategy, find_strategy

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = [
    "STRATEGIES",
    "Compared",
    "Explanation",
    "LivePlanner",
    "Strategy",
    "compare",
    "explain",
    "find_strategy",
    "plan",
    "replan",
]
