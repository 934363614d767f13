"""incremental-weave-share: queries come and go, and only the trees they touch are woven again.

Guirguis et al., CIKM 2011, section 5.2. A new query is a tree of its own and merged while that pays; so is a
tree that lost a query. The cost of plans made from scratch, against the number of queries, is a curve whose
slope foretells what such a plan would cost now; when the running plan costs more than that by more than the
tolerance, it is made from scratch again, in the background where an executor is given. The curve bends, so
that a slope learned from few queries foretells nothing about many: a new point is taken as well whenever
there are twice or half as many queries as at the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from math import isinf

import numpy as np

from weft.errors import QueryError
from weft.model.query import Query
from weft.planning.cost.load import NO_LOAD, final_operations
from weft.planning.guard import no_worse
from weft.planning.plan import Plan
from weft.planning.planner import make_plan, make_price
from weft.planning.problem import Problem, TreeAssignment
from weft.planning.registry import strategy
from weft.planning.strategies.greedy import weave
from weft.planning.weaving import merged_trees, weave_classes
from weft.planning.windows import Windows

DEFAULT_TOLERANCE = 0.2


@dataclass(slots=True)
class Curve:
    """The cost of plans made from scratch against the number of queries.

    >>> curve = Curve()
    >>> curve.add(10, 100.0)
    >>> curve.extrapolate(12), curve.exceeded(12, 150.0, tolerance=0.2)
    (120.0, True)
    """

    points: list[tuple[int, float]] = field(default_factory=lambda: [(0, 0.0)])

    def add(self, queries: int, cost: float) -> None:
        """Add a plan of so many queries that was made from scratch at this cost."""
        self.points = [point for point in self.points if point[0] != queries]
        self.points.append((queries, cost))

    def extrapolate(self, queries: int) -> float:
        """Foretell the cost of a plan from scratch, from the last point on at the slope of the last two."""
        (before, less), (last, cost) = self.points[-2:]
        return max(cost + (cost - less) / (last - before) * (queries - last), 0.0)

    def exceeded(self, queries: int, cost: float, tolerance: float) -> bool:
        """Return whether a running plan costs too much more than that, or the slope is too old."""
        last = self.points[-1][0]
        if not last:
            return True
        if isinf(tolerance):
            return False
        far = queries >= 2 * last or 2 * queries <= last
        return far or cost > (1 + tolerance) * self.extrapolate(queries)


@strategy("incremental-weave-share", cost_based=True)
def incremental_weave_share(
    problem: Problem, *, tolerance: float = DEFAULT_TOLERANCE, at_once: int = 1
) -> TreeAssignment:
    """Weave Share as if the queries came one after the other, so many ``at_once``."""
    _, first = np.unique(problem.class_of, return_index=True)
    arrived = np.argsort(first)
    labels = np.arange(len(problem))
    curve = Curve()
    for low in range(0, len(problem), at_once):
        here = arrived[: low + at_once]
        dirty = np.zeros(len(problem), dtype=np.bool_)
        dirty[labels[arrived[low : low + at_once]]] = True
        cost = _weave_again(problem, labels, here, dirty)
        if curve.exceeded(len(here), cost, tolerance):
            labels[here] = here
            cost = _weave_again(problem, labels, here, np.ones(len(problem), dtype=np.bool_))
            curve.add(len(here), cost)
    return no_worse(problem, TreeAssignment.of(labels))


def _weave_again(problem: Problem, labels: np.ndarray, here: np.ndarray, dirty: np.ndarray) -> float:
    """Merge the dirty trees of the classes here, in ``labels``; return what the trees then cost."""
    price, code = problem.price, problem.code
    trees = np.unique(labels[here])
    merged = weave(merged_trees(problem, labels, trees), problem.tree_price, 1, 0, dirty[trees])
    new = np.arange(len(problem))
    new[trees] = trees[merged]
    labels[here] = new[labels[here]]
    _, _, rates, loads = merged_trees(problem, labels, np.unique(labels[here]))
    finals = sum(final_operations(code, rate, load, NO_LOAD) for rate, load in zip(rates, loads))
    return float(price.base + price.tree * len(rates) + price.combine * finals)


class IncrementalWeaveShare:
    """A plan for queries that come and go.

    >>> import weft
    >>> text = "SELECT count(*) AS n FROM t [RANGE '{} s' SLIDE '{} s']"
    >>> a, b, c = (weft.sql(text.format(*w))[0].renamed(n) for n, w in zip("abc", [(16, 4), (10, 5), (8, 4)]))
    >>> running = IncrementalWeaveShare(rate=1.2, technique="recompute")
    >>> running.add([a, c]); running.add([b])
    >>> [[q.name for q in tree.queries] for tree in running.plan().trees]
    [['a', 'c'], ['b']]
    >>> running.remove(["a"]); round(running.plan().cost, 9)
    2.8
    """

    def __init__(
        self,
        rate: float,
        technique: str = "bulk",
        slicer: str = "pairs",
        model: str = "separate",
        tolerance: float = DEFAULT_TOLERANCE,
        executor: Executor | None = None,
    ) -> None:
        self.rate, self.technique, self.slicer, self.model = rate, technique, slicer, model
        self.tolerance, self.executor = tolerance, executor
        self.curve = Curve()
        self.rebuilds = 0
        self._tree_of: dict[str, int] = {}
        self._queries: dict[str, Query] = {}
        self._pending: Future[tuple[dict[str, int], float]] | None = None

    def add(self, queries: Iterable[Query]) -> None:
        """Weave new queries into the running plan."""
        new = list(queries)
        for query in new:
            if query.name in self._queries:
                raise QueryError("there is a query of this name already", query=query.name, hint="rename one")
        self._adopt()
        self._queries.update({q.name: q for q in new})
        free = max(self._tree_of.values(), default=-1) + 1
        names = {q.name: free + i for i, q in enumerate(new)}
        self._tree_of.update(names)
        self._weave(set(names.values()))

    def remove(self, names: Iterable[str]) -> None:
        """Take queries out of the running plan."""
        gone = list(names)
        for name in gone:
            if name not in self._queries:
                raise QueryError("there is no such query to remove", query=name)
        self._adopt()
        touched = {self._tree_of.pop(name) for name in gone}
        for name in gone:
            del self._queries[name]
        if self._queries:
            self._weave(touched)

    def plan(self) -> Plan:
        """Return the plan as it stands."""
        self._adopt()
        if not self._queries:
            raise QueryError("there is no query to plan")
        queries = list(self._queries.values())
        problem = self._problem(queries)
        grouping = TreeAssignment.of(self._labels(problem))
        return make_plan(
            queries, problem, grouping, "incremental-weave-share", self.rate, self.slicer, self.model
        )

    @property
    def cost(self) -> float:
        """The cost of the plan as it stands."""
        return self.plan().cost

    def _problem(self, queries: list[Query]) -> Problem:
        windows = Windows.of(queries)
        price = make_price(windows, self.slicer, self.rate, self.model)
        return Problem.of(windows, price, self.technique, slicer=self.slicer)

    def _labels(self, problem: Problem) -> np.ndarray:
        """Return the tree of each class; of queries with the same edges, the oldest one's."""
        trees = np.fromiter(self._tree_of.values(), np.int64, len(self._tree_of))
        labels = np.full(len(problem), np.iinfo(np.int64).max)
        np.minimum.at(labels, problem.class_of, trees)
        return labels

    def _weave(self, touched: set[int]) -> None:
        problem = self._problem(list(self._queries.values()))
        labels = self._labels(problem)
        start = TreeAssignment.of(labels).tree_of
        dirty = np.zeros(int(start.max()) + 1, dtype=np.bool_)
        # A query that fell in with others of the same edges made their tree heavier: that one is touched too.
        changed = np.isin(np.fromiter(self._tree_of.values(), np.int64, len(self._tree_of)), list(touched))
        dirty[start[problem.class_of[changed]]] = True
        dirty[start[np.isin(labels, list(touched))]] = True
        woven = weave_classes(problem, start, dirty=dirty) if dirty.any() else start
        self._keep(problem, woven)
        cost = problem.costs(TreeAssignment.of(woven)).total
        if self.curve.exceeded(len(self._queries), cost, self.tolerance):
            self._rebuild(problem)

    def _keep(self, problem: Problem, woven: np.ndarray) -> None:
        self._tree_of = dict(zip(self._queries, woven[problem.class_of].tolist()))

    def _rebuild(self, problem: Problem) -> None:
        names = tuple(self._queries)
        if self.executor is None:
            self._pending = Future()
            self._pending.set_result(_from_scratch(problem, names))
            self._adopt()
        elif self._pending is None:
            self._pending = self.executor.submit(_from_scratch, problem, names)

    def _adopt(self) -> None:
        """Take over a plan made from scratch once it is there; queries that came meanwhile are woven in."""
        if self._pending is None or not self._pending.done():
            return
        pending, self._pending = self._pending, None
        tree_of, cost = pending.result()
        self.rebuilds += 1
        self.curve.add(len(tree_of), cost)
        free = len(tree_of)
        late = {name: free + i for i, name in enumerate(n for n in self._queries if n not in tree_of)}
        gone = {tree for name, tree in tree_of.items() if name not in self._queries}
        self._tree_of = {name: tree_of[name] if name in tree_of else late[name] for name in self._queries}
        if self._queries and (late or gone):
            self._weave(set(late.values()) | gone)


def _from_scratch(problem: Problem, names: tuple[str, ...]) -> tuple[dict[str, int], float]:
    grouping = no_worse(problem, TreeAssignment.of(weave_classes(problem)))
    trees = grouping.tree_of[problem.class_of].tolist()
    return dict(zip(names, trees)), problem.costs(grouping).total
