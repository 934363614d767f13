"""The joins of a run once more, over several buckets: what tasks do, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from support.contract_cases import CaseRun, CaseStep, restored
from support.join_oracle import as_tuples, ordered
from weft.local.running import LocalRun
from weft.operators.contract import ArrivedRows
from weft.operators.joins.stage import JOINS, JoinsStage
from weft.planning.joins.orders import Orders


class SplitJoins:
    """The stage of joins of a run in one bucket, which it follows step by step, over more of them."""

    def __init__(self, run: LocalRun, buckets: int) -> None:
        self.run = run
        self.case = CaseRun(self._stage(), buckets)

    def step(
        self, tables: Mapping[str, pa.Table], *, again: bool = False, orders: Orders | None = None
    ) -> dict[str, list[str]]:
        """Take the step that the run has just taken, with states loaded ``again`` from what they keep."""
        before, marks = self.case, self.run.marks[JOINS]
        stage = self._stage()
        if orders is not None:
            stage = replace(stage, orders=(orders,) * len(stage.joins.programs))
        states = [state.moved(stage) for state in before.states]
        case = CaseRun(stage, before.buckets, states, before.marks)
        if again:
            case = restored(case, [state.snapshot() for state in states])
        step = CaseStep(tuple((name, ArrivedRows(table)) for name, table in tables.items()), marks)
        pieces = case.pieces(step)
        stepped = [state.step(pieces[state.bucket], marks) for state in case.states]
        case.stepped(stepped, marks)
        self.case = case
        rows: dict[str, list[tuple[object, ...]]] = {}
        for result in stepped:
            for name, table in result.answers.items():
                rows.setdefault(name, []).extend(as_tuples(table))
        return {name: ordered(lots) for name, lots in rows.items()}

    @property
    def rows(self) -> int:
        """Rows and results that wait, in all buckets."""
        return sum(state.rows for state in self.case.states)

    def _stage(self) -> JoinsStage:
        stage = self.run.program.stage(JOINS)
        assert isinstance(stage, JoinsStage)
        return stage
