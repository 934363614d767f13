"""All ways to disturb a small stream, tried one by one, each compared with the run that nothing disturbed."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

from support.crash_engines import Scene, run_by_driver, run_in_process
from support.crash_points import Calls, Fault, Sequel, counted, disturb, leftovers
from support.crash_sinks import Content, SinkPlace
from support.crash_streams import STREAMS, SmallStream
from weft.store.checkpoint import Checkpoint, LostTurn

ENGINES: dict[str, Callable[[Scene, Calls], None]] = {"local": run_in_process, "spark": run_by_driver}
RAM = Path("/dev/shm")

PlaceOf = Callable[[Path], SinkPlace]
"""Makes a sink's place, in a folder of its own."""


SINK_CALLS = ("sink", "late sink", "commit", "write others", "write manifests", "delete others")
LOOKING = ((Fault.BEFORE, Sequel.SECOND), (Fault.LOST, Sequel.RESTART))
"""What matters at a call that only looks: to sleep then, since others change what was seen, and to fail."""


class Scope(Enum):
    """The calls that are tried, and how.

    A process that dies leaves what it had changed: where it dies before a call that only looks, it could have
    died before the next one, and where it dies after a call, before the next one. So ``LOOKS`` has every call
    but those of the clock, and of what ends alike one case; ``CHANGES`` leaves out calls that only look, and
    ``SINKS`` has those that change what sinks hold, or are next to that. ``EVERYTHING`` leaves out nothing.
    """

    SINKS = 1
    CHANGES = 2
    LOOKS = 3
    EVERYTHING = 4


class Case(NamedTuple):
    """One way to disturb a run."""

    number: int
    name: str
    fault: Fault
    sequel: Sequel

    def __str__(self) -> str:
        return f"call {self.number} ({self.name}): {self.fault.value}, {self.sequel.value}"


class Ending(NamedTuple):
    """All that a stream has come to: what sinks hold, and the state of its checkpoint."""

    content: Content
    state: Any


@dataclass
class Matrix:
    """One stream on one engine with one kind of sink; ``counts`` are the cases tried, by fault and sequel.

    ``fine`` counts every call of which writing a file is made.
    """

    engine: str
    stream: str
    place_of: PlaceOf
    fine: bool = False
    counts: Counter[tuple[Fault, Sequel]] = field(default_factory=Counter)
    lost: int = 0
    """The cases in which the first run found that it had lost its turn."""

    def __post_init__(self) -> None:
        calls = Calls()
        with self.scene() as scene:
            with counted(calls, self.fine):
                ENGINES[self.engine](scene, calls)
            self.expected = ending_of(scene)
            assert self.expected.content
            assert not leftovers(scene.place)
        self.names = calls.names

    def cases(self, scope: Scope = Scope.CHANGES) -> Iterator[Case]:
        """Yield the cases of a scope."""
        for number, name in enumerate(self.names):
            looks, is_last = name.startswith(("clock", "read", "list")), number + 1 == len(self.names)
            if scope is Scope.SINKS and not name.startswith(SINK_CALLS):
                continue
            if looks and scope in (Scope.CHANGES, Scope.SINKS):
                continue
            for fault, sequel in product(Fault, Sequel):
                if self._is_tried(name, fault, sequel, scope, is_last):
                    yield Case(number, name, fault, sequel)

    def one_case_each(self, scope: Scope = Scope.CHANGES, turn: int = 0) -> Iterator[Case]:
        """Yield one case of each call, another from call to call and from turn to turn."""
        for number, cases in groupby(self.cases(scope), key=lambda case: case.number):
            choice = list(cases)
            yield choice[(number + turn) % len(choice)]

    def _is_tried(self, name: str, fault: Fault, sequel: Sequel, scope: Scope, is_last: bool) -> bool:
        """Return whether a case of a call is one that no other stands for."""
        looks = name.startswith(("clock", "read", "list"))
        if scope is not Scope.EVERYTHING:
            if fault is Fault.AFTER:
                return is_last
            if looks and (name == "clock" or (fault, sequel) not in LOOKING):
                return False
        if name == "clock":
            return fault in (Fault.BEFORE, Fault.AFTER)
        if fault is Fault.REFUSED:
            return sequel is Sequel.RESTART and name.startswith(("write", "sink", "late sink", "create"))
        return True

    def failures(self, cases: Iterable[Case]) -> list[str]:
        """Try cases, and say which end otherwise than the run that nothing disturbed."""
        problems = []
        for case in cases:
            self.counts[case.fault, case.sequel] += 1
            try:
                problem = self._problem(case)
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                problems.append(f"{self.engine}, {self.stream}: {case}: {problem}")
        return problems

    def case(self, name: str, nth: int, fault: Fault, sequel: Sequel) -> Case:
        """Return the case of the n-th call of a name, from 0 on."""
        number = [n for n, own in enumerate(self.names) if own == name][nth]
        return Case(number, name, fault, sequel)

    def _problem(self, case: Case) -> str:
        calls = Calls(case.number, case.fault, case.sequel)
        with self.scene() as scene:
            error = disturb(lambda calls: ENGINES[self.engine](scene, calls), calls, self.fine)
            self.lost += isinstance(error, LostTurn)
            ending, left = ending_of(scene), leftovers(scene.place)
        if ending.content != self.expected.content:
            return f"sinks hold {_difference(ending.content, self.expected.content)} (first run: {error})"
        if ending.state != self.expected.state:
            return f"the state is {ending.state}, not {self.expected.state} (first run: {error})"
        return f"left over: {left}" if left else ""

    @contextmanager
    def scene(self) -> Iterator[Scene]:
        """Make a scene of its own, gone at the end of the block."""
        folder = Path(tempfile.mkdtemp(prefix="weft-crash-", dir=RAM if RAM.is_dir() else None))
        sinks = self.place_of(folder)
        try:
            yield Scene(self.small_stream, str(folder / "checkpoint"), sinks)
        finally:
            sinks.close()
            shutil.rmtree(folder)

    @property
    def small_stream(self) -> SmallStream:
        """The stream itself."""
        return STREAMS[self.stream]


def ending_of(scene: Scene) -> Ending:
    """Return all that a stream has come to."""
    last = Checkpoint(scene.place).last
    assert last is not None
    marks = {name: dict(stage.marks) for name, stage in last.stages.items()}
    return Ending(scene.sinks.content(), (last.seq, last.batch_id, last.streams, marks, last.offsets))


def _difference(given: Content, expected: Content) -> str:
    missing = sorted(expected.keys() - given.keys())
    beyond = sorted(given.keys() - expected.keys())
    other = sorted(place for place in given.keys() & expected.keys() if given[place] != expected[place])
    return f"not {missing}, but {beyond}, and other rows in {other}"
