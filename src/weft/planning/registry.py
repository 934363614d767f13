"""The registry: a strategy is a function of a problem, found by its name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import QueryError
from weft.planning.problem import Problem, TreeAssignment

Run = Callable[..., TreeAssignment]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to put classes into trees, and trees on nodes.

    ``merge``: queries with the same edges are one class from the start. ``cost_based``: its plans never cost
    more than no-share's and share-all's. ``places``: it chooses nodes itself. ``model``: the cost model it is
    made for.
    """

    name: str
    run: Run
    merge: bool
    cost_based: bool
    places: bool
    model: str

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.run.__doc__ or "").strip().split("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """The strategy's options and their defaults."""
        parameters = inspect.signature(self.run).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def __call__(self, problem: Problem, options: Mapping[str, Any] | None = None) -> TreeAssignment:
        for name in options or {}:
            if name not in self.options:
                available = ", ".join(self.options) or "none"
                raise QueryError(f"strategy {self.name!r} has no option {name!r}", hint=f"it has {available}")
        return self.run(problem, **(options or {}))


STRATEGIES: dict[str, Strategy] = {}


def strategy(
    name: str,
    *,
    merge: bool = True,
    cost_based: bool = False,
    places: bool = False,
    model: str = "separate",
) -> Callable[[Run], Run]:
    """Register a strategy under its name."""

    def register(run: Run) -> Run:
        STRATEGIES[name] = Strategy(name, run, merge, cost_based, places, model)
        return run

    return register


def find_strategy(name: str) -> Strategy:
    """Return the strategy of this name.

    >>> find_strategy("weave-shear")
    Traceback (most recent call last):
        ...
    weft.errors.QueryError: no strategy is called 'weave-shear'; did you mean 'weave-share'?
    """
    if name not in STRATEGIES:
        close = difflib.get_close_matches(name, STRATEGIES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(STRATEGIES)}"
        raise QueryError(f"no strategy is called {name!r}", hint=hint)
    return STRATEGIES[name]
