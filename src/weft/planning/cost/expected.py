"""The expected choices of ``auto`` for a tree, for the plan to name: it chooses at every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.aggregates import FUNCTIONS, Monoid
from weft.final.costs import cheapest
from weft.model.query import Query

SECOND = 1_000_000


def expected_techniques(queries: Sequence[Query], edges: float, groups: float = 1.0) -> tuple[str, ...]:
    """Return the choices for the parts of a tree with ``edges`` per second and so many groups.

    It is taken to answer once per longest slide, when every query has a window due; the types of columns are
    not known yet, and taken to be floats.

    >>> import weft
    >>> text = "SELECT sum(x) AS s FROM stream [RANGE '{}' SLIDE '1 s']"
    >>> expected_techniques(weft.sql(text.format("1 h")) + weft.sql(text.format("50 min")), edges=1.0)
    ('bulk', 'recompute')
    """
    step = max(q.window.slide for q in queries)
    runs = length = 0.0
    for query in queries:
        due = groups * max(step / query.window.slide, 1)
        runs += due
        length += due * max(query.window.range / SECOND * edges, 1)
    cells = groups * (max(q.window.range for q in queries) + step) / SECOND * edges
    numbers = (round(max(cells, 1)), round(max(runs, 1)), round(max(length, 1)))
    return tuple(sorted({cheapest(monoid, *numbers) for monoid in _monoids(queries)}))


def _monoids(queries: Iterable[Query]) -> set[Monoid]:
    monoids = set()
    for aggregate in {a for q in queries for a in q.aggregates}:
        function = FUNCTIONS.get(aggregate.function)
        if function is not None:
            floats = ("double",) * len(aggregate.args)
            monoids |= {part.monoid for part in function.parts(aggregate.args, floats)}
    return monoids
