"""The ring: a join of many streams over several nodes, its state split by time.

Wang, chapter 12, as PSP-D: a row is stored once, on the node whose turn it is by the row's time, and stays
there until it is too old; head and tail of the ring move from node to node instead. New rows, and what they
join to, are shown to every node, one round for each stream that they still have to meet. Since every row is
on one node, every result is found on one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.operators.joins.multiway.join import MultiwayJoin
from weft.operators.joins.multiway.tuples import Tuples
from weft.operators.joins.program import JoinProgram
from weft.operators.joins.rows import JoinRows


def nodes_of(program: JoinProgram, side: int, times: np.ndarray, nodes: int) -> np.ndarray:
    """The node that stores each row of a side: the turns go round once in the side's longest range.

    So the rows that are not too old are spread evenly, and each node has one slice of time of them.
    """
    longest = max(member.ranges[side] for member in program.members)
    return times // max(1, -(-longest // nodes)) % nodes


@dataclass
class Round:
    """Rows that a node has in hand in one round of a step, by the number of the join.

    ``own`` are the new rows that it is to store, by side; ``probes`` what new rows of a side have joined to
    so far; ``results`` what needs no more round.
    """

    own: dict[tuple[int, int], JoinRows] = field(default_factory=dict)
    probes: dict[tuple[int, int], list[Tuples]] = field(default_factory=dict)
    results: dict[int, list[Tuples]] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, new: Mapping[tuple[int, int], JoinRows], joins: Mapping[int, MultiwayJoin], node: int, nodes: int
    ) -> Round:
        """The start of a step: all new rows probe here, and some of them are to be stored here."""
        first = cls()
        for (number, side), rows in new.items():
            join = joins[number]
            first.probes[number, side] = [join.first(side, rows)]
            own_places = np.flatnonzero(nodes_of(join.program, side, rows.times, nodes) == node)
            if own_places.size:
                first.own[number, side] = rows.take(own_places)
        return first

    def probe(self, number: int, join: MultiwayJoin, round_number: int) -> Iterator[tuple[int, Tuples]]:
        """Yield what the probes of one join come to in a round, with the side that each began with."""
        new = {side: rows for (n, side), rows in self.own.items() if n == number}
        for (n, start), probes in self.probes.items():
            if n == number:
                for tuples in probes:
                    yield from ((start, longer) for longer in join.round(round_number, start, tuples, new))

    def results_of(self, number: int) -> tuple[dict[int, JoinRows], Sequence[Tuples]]:
        """The new rows and the results of one join."""
        own = {side: rows for (n, side), rows in self.own.items() if n == number}
        return own, self.results.get(number, [])
