"""PSP with interleaved rows: the next row enters before the last one has left (Wang, section 12.4).

A row in work must see the state as it was at its turn, though later rows purge and insert meanwhile. So a
purged row is sent on, but stays marked: its copy here is for rows up to the one that purged it, the copy at
the next node for those from it on. Marks are the numbers of rows (the thesis' StateStart and StateEnd), and
a copy goes when the END of the last row that may see it has passed. The price is rows stored twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf

from lab.ring.machine import Costs, Node, StoredRow
from lab.ring.multijoin import MultiJoin, Row
from lab.ring.psp import Probe, Psp
from lab.ring.slicing import Slicing
from weft.errors import QueryError


class PspI(Psp):
    """The ring with ``limit`` rows in work at most.

    >>> from lab.ring.multijoin import rows_of
    >>> ring = PspI(MultiJoin((10, 10, 10)), 4, limit=3)
    >>> account = ring.run(rows_of([(0, 1, "a"), (1, 1, "b"), (2, 1, "c")]))
    >>> [[row.value for row in result.rows] for result in account.results]
    [['a', 'b', 'c']]
    """

    unique = False

    def __init__(
        self,
        join: MultiJoin,
        slicing: Slicing | int,
        costs: Costs | None = None,
        *,
        seed: int | None = None,
        limit: int = 8,
    ) -> None:
        super().__init__(join, slicing, costs, seed=seed)
        if limit < 1:
            raise QueryError(f"{limit} rows in work", hint="let one or more be in work at a time")
        self.limit = limit
        self.passing: defaultdict[Node, set[int]] = defaultdict(set)

    def maintain(self, node: Node, following: Node, probe: Probe) -> None:
        self.passing[node].add(probe.row.number)
        super().maintain(node, following, probe)

    def visible(self, node: Node, probe: Probe, stream: int) -> Iterable[StoredRow]:
        number = probe.row.number
        return [stored for stored in node.state[stream] if stored.entered <= number < stored.left]

    def expire(self, node: Node, stored: StoredRow, row: Row) -> None:
        stored.left = row.number

    def release(self, node: Node, row: Row) -> None:
        passing = self.passing[node]
        passing.remove(row.number)
        oldest = min(passing, default=inf)
        for state in node.state:
            while state and state[0].left <= oldest and state[0].left < inf:
                self.remove(node, state[0])
