"""Other ways to run several joins of the same streams, to compare the chain with: Wang, chapter 4.

*Isolated*: every join for itself. *Pull-up*: one join with the longest ranges; results are routed and
selected behind it. *Push-down*: streams are split by which selections their rows satisfy, and each pair of
parts has a join of its own, so a row of the other stream is kept once per part. All of them are made of
chains of one slice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weft.errors import JobError
from weft.expr.evaluate import Evaluator
from weft.model.expression import Expr
from weft.model.join import RESULT_TIME
from weft.operators.joins.chain import Chain
from weft.operators.joins.clock import OrderedRows
from weft.operators.joins.program import compile_joins
from weft.operators.predicates.signature import signatures
from weft.planning.joins.member import Member

MAX_SELECTIONS = 6


@dataclass
class Part:
    """One join, and for each side the signature of the rows it takes; None takes all."""

    chain: Chain
    takes: tuple[np.ndarray | None, np.ndarray | None] = (None, None)


class Parts:
    """Joins side by side that answer the queries together; fed like a chain."""

    def __init__(self, parts: Sequence[Part], selections: Sequence[Sequence[Expr]] = ((), ())) -> None:
        self.parts, self.selections = parts, selections

    @property
    def state_rows(self) -> int:
        """Return how many rows are kept, those kept twice counted twice."""
        return sum(part.chain.state_rows for part in self.parts)

    def step(
        self, batches: Sequence[OrderedRows | None], watermarks: Sequence[int | None]
    ) -> dict[str, pa.Table]:
        """Take in new rows of each side and give the results that no later row can precede."""
        row_signatures = [self._signatures(side, batch) for side, batch in enumerate(batches)]
        tables: dict[str, list[pa.Table]] = {}
        for part in self.parts:
            own_rows = [
                _rows_of_part(b, s, takes) for b, s, takes in zip(batches, row_signatures, part.takes)
            ]
            for name, table in part.chain.step(own_rows, watermarks).items():
                tables.setdefault(name, []).append(table)
        return {
            name: parts[0] if len(parts) == 1 else pa.concat_tables(parts).sort_by(RESULT_TIME)
            for name, parts in tables.items()
        }

    def _signatures(self, side: int, batch: OrderedRows | None) -> np.ndarray | None:
        """Return which selections each row satisfies."""
        if batch is None or not self.selections[side]:
            return None
        numbers, bits = signatures(list(self.selections[side]), Evaluator(batch.table), batch.times.size)
        return bits[numbers] if numbers.size else np.repeat(bits, batch.times.size, axis=0)


def _rows_of_part(
    batch: OrderedRows | None, row_signatures: np.ndarray | None, takes: np.ndarray | None
) -> OrderedRows | None:
    if batch is None or row_signatures is None or takes is None:
        return batch
    rows = np.flatnonzero((row_signatures == takes).all(axis=1))
    return OrderedRows(batch.times[rows], batch.table.take(pa.array(rows)))


def isolated(members: Sequence[Member], streams: Mapping[str, pa.Schema], times: Mapping[str, str]) -> Parts:
    """Every join for itself."""
    return Parts([Part(Chain(compile_joins([m], streams, times))) for m in members])


def pull_up(members: Sequence[Member], streams: Mapping[str, pa.Schema], times: Mapping[str, str]) -> Parts:
    """One join with the longest ranges, whatever the selections."""
    return Parts([Part(_one_slice(members, streams, times, push=False))])


def push_down(members: Sequence[Member], streams: Mapping[str, pa.Schema], times: Mapping[str, str]) -> Parts:
    """A join for each pair of parts that the selections split the streams into."""
    selections = [[s for s in dict.fromkeys(m.selections[n] for m in members) if s] for n in range(2)]
    if max(map(len, selections)) > MAX_SELECTIONS:
        raise JobError(
            f"{max(map(len, selections))} selections split a stream into too many parts; "
            f"selection push-down takes at most {MAX_SELECTIONS}"
        )
    cells = [list(itertools.product((True, False), repeat=len(some))) for some in selections]
    parts = []
    for cell in itertools.product(*cells):
        here = [
            replace(m, selections=(None, None))
            for m in members
            if all(s is None or bits[some.index(s)] for s, some, bits in zip(m.selections, selections, cell))
        ]
        if here:
            takes = (np.array(cell[0], np.bool_), np.array(cell[1], np.bool_))
            parts.append(Part(_one_slice(here, streams, times), takes))
    return Parts(parts, selections)


def state_slice(
    members: Sequence[Member], streams: Mapping[str, pa.Schema], times: Mapping[str, str]
) -> Parts:
    """The Mem-Opt chain, in the same clothes."""
    return Parts([Part(Chain(compile_joins(members, streams, times)))])


def _one_slice(
    members: Sequence[Member], streams: Mapping[str, pa.Schema], times: Mapping[str, str], push: bool = True
) -> Chain:
    longest = [[max(m.ranges[side] for m in members)] for side in range(2)]
    return Chain(compile_joins(members, streams, times), longest, push)


STRATEGIES: dict[str, Callable[[Sequence[Member], Mapping[str, pa.Schema], Mapping[str, str]], Parts]] = {
    "state-slice": state_slice,
    "isolated": isolated,
    "pull-up": pull_up,
    "push-down": push_down,
}
