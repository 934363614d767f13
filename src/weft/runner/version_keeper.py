"""Versions of a run's queries: written down before the first step that is made with them.

A step that is made again after a crash finds the version that it was made with.
"""

from __future__ import annotations

import json
from typing import Any

from weft.errors import JobError
from weft.operators.contract import Note
from weft.runner.opening import version_of, with_names
from weft.runner.program import AnyQuery, Position, Program, ProgramCompiler
from weft.runner.running_queries import RunningQueries
from weft.store.checkpoint import Checkpoint
from weft.store.version_file import QueryVersion


class VersionKeeper:
    """The writer of one run's versions.

    ``base`` are the queries that the run was started with. ``lateness`` may be changed at any time, and holds
    from the next step on, which is made with ``lateness_now``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        compiler: ProgramCompiler,
        base: tuple[AnyQuery, ...],
        lateness: dict[str, int | None],
    ) -> None:
        self.checkpoint, self.base = checkpoint, base
        written = checkpoint.version()
        self.written = None if written is None else with_names(written, compiler)
        self._next = checkpoint.next_version()
        self.base_lateness, self.lateness, self.lateness_now = dict(lateness), dict(lateness), dict(lateness)
        if self.written is not None and self.written.base_lateness == self.base_lateness:
            # What was set while it ran holds on, unless it is now started with another.
            self.lateness = dict(self.written.lateness)

    def settle(self, running: RunningQueries, at: Position, seq: int) -> Program | None:
        """Apply the pending changes, and write down what a step is made with, unless that was done.

        Return the new program, which the caller puts in force by ``RunningQueries.confirm``; None where it
        stays as it is. Where queries have failed, the step is being made, and is written down anew without
        them.
        """
        written, failing = self.written, running.failing
        settled = written is not None and written.seq == seq
        if not failing:
            self.lateness_now = dict(written.lateness if written is not None and settled else self.lateness)
        changed = running.apply(at, self._next) if failing or not settled else None
        if failing and changed is None:
            raise JobError("the queries that are left cannot be planned without those that have failed")
        if changed is None and written is not None and self._is_as_written(running.program, written, settled):
            return None
        program = running.program.renumbered(self._next) if changed is None else changed
        self.written = version_of(program, seq, self.base, self.lateness_now, self.base_lateness, running)
        self.checkpoint.write_version(self.written)
        self._next += 1
        return program

    def _is_as_written(self, program: Program, written: QueryVersion, settled: bool) -> bool:
        """Return whether nothing has changed; what the run was started with may have, for the step after."""
        given = (self.base, self.lateness_now, self.base_lateness)
        before = (written.base, dict(written.lateness), dict(written.base_lateness))
        layouts = {name: _as_read(stage.layout) for name, stage in written.stages.items()}
        same = {stage.name: _as_read(stage.layout) for stage in program.stages} == layouts
        return same and (settled or given == before)


def _as_read(layout: Note) -> Any:
    """Return a layout as it is read from a file: JSON knows no tuples."""
    return json.loads(json.dumps(layout))
