"""Cuts of the windows of all streams into slices, one per node: Wang, sections 13.3, 13.4 and 14.1.

A slice is a share of its stream's window. The first node of a ring has the youngest rows, the last the
oldest. Bounded slices hold so many rows at most, whatever their time: they smooth bursts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lab.ring.cost import Model
from weft.errors import QueryError


@dataclass(frozen=True)
class Slicing:
    """``shares[stream][node]``, which add up to 1 for each stream, and for bounded slices how many rows each
    node but the last holds of each stream.

    >>> even(2, 4).ends((8, 100))
    ((2.0, 4.0, 6.0, 8.0), (25.0, 50.0, 75.0, 100.0))
    """

    shares: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        if {len(one) for one in self.shares} != {self.nodes} or not self.nodes:
            raise QueryError(f"shares {self.shares}", hint="give one for each node, for each stream")
        if any(min(one) < 0 or abs(sum(one) - 1) > 1e-9 for one in self.shares):
            raise QueryError(f"shares {self.shares}", hint="the shares of each stream are to add up to 1")
        if self.bounds is not None and (
            [len(one) for one in self.bounds] != [self.nodes - 1] * len(self.shares)
            or any(bound < 0 for one in self.bounds for bound in one)
        ):
            raise QueryError(f"bounds {self.bounds}", hint="give one for each node but the last")

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return len(self.shares[0])

    def ends(self, windows: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        """The ages at which slices end: per stream, per node. The last is the window itself."""
        return tuple(
            (*(window * share for share in list(accumulate(shares))[:-1]), float(window))
            for window, shares in zip(windows, self.shares)
        )


def even(streams: int, nodes: int) -> Slicing:
    """The same share for every node.

    >>> even(1, 2)
    Slicing(shares=((0.5, 0.5),), bounds=None)
    """
    if nodes < 1:
        raise QueryError(f"{nodes} nodes", hint="give one or more")
    return Slicing(((1 / nodes,) * nodes,) * streams)


def initial_lengths(model: Model, most: int) -> list[int]:
    """Over how many nodes each stream's window should be cut (section 13.3).

    The best lengths depend on each other. Streams with few rows that join decide first, each as if those
    not yet decided had its own length; those that matter most decide last, when the others are known.

    >>> from lab.ring.machine import Costs
    >>> from lab.ring.statistics import Statistics
    >>> streams = Statistics((50, 50, 1), (10, 10, 10), {(0, 1): 0.1, (1, 2): 0.1})
    >>> model = Model(streams, ((1, 2), (2, 0), (1, 0)), Costs(join=1e-5, send=1e-6, hop=1e-4))
    >>> initial_lengths(model, 20)
    [5, 6, 6]
    """
    statistics = model.statistics
    weights = [rows * statistics.average(stream) for stream, rows in enumerate(statistics.rows)]
    lengths: dict[int, int] = {}
    for stream in sorted(range(len(weights)), key=weights.__getitem__):
        every = ([lengths.get(s, n) for s in range(len(weights))] for n in range(1, most + 1))
        lengths[stream] = min(every, key=model.latency_of)[stream]
    return [lengths[stream] for stream in range(len(weights))]


def balanced(rows: Sequence[float], lengths: Sequence[int]) -> Slicing:
    """Slices such that all nodes hold about as many rows (section 13.4).

    ``rows`` is how many rows each stream's window holds, ``lengths`` over how many neighbouring nodes each
    may be cut. The shortest streams choose first: the neighbours with the least on them, which they fill up
    from the emptiest.

    >>> balanced((100, 300), (1, 4)).shares
    ((1.0, 0.0, 0.0, 0.0), (0.0, 0.3333333333333333, 0.3333333333333333, 0.3333333333333333))
    """
    nodes = max(lengths)
    load = [0.0] * nodes
    shares: dict[int, tuple[float, ...]] = {}
    for stream in sorted(range(len(rows)), key=lambda s: (lengths[s], -rows[s])):
        length = lengths[stream]
        start = min(range(nodes - length + 1), key=lambda at: sum(load[at : at + length]))
        added = _filled(load[start : start + length], rows[stream])
        for at, more in enumerate(added, start):
            load[at] += more
        total = sum(added)
        some = [more / total for more in added] if total else [1 / length] * length
        shares[stream] = (*[0.0] * start, *some, *[0.0] * (nodes - start - length))
    return Slicing(tuple(shares[stream] for stream in range(len(rows))))


def _filled(load: list[float], rows: float) -> list[float]:
    """Return what each gets of the rows when the emptiest is always filled first."""
    level, below = 0.0, sorted(load)
    for count in range(1, len(load) + 1):
        level = (rows + sum(below[:count])) / count
        if count == len(load) or level <= below[count]:
            break
    return [max(0.0, level - one) for one in load]


def bounded(slicing: Slicing, rows: Sequence[float]) -> Slicing:
    """The same slices, each but the last bounded to the rows that it holds at average rates (section 14.1).

    >>> bounded(even(1, 4), [100]).bounds
    ((25, 25, 25),)
    """
    bounds = (tuple(round(n * share) for share in some[:-1]) for n, some in zip(rows, slicing.shares))
    return Slicing(slicing.shares, tuple(bounds))
