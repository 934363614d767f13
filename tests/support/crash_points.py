"""Calls of a run to file system, sink, clock and commit, numbered; a run that is disturbed at one of them.

A run is disturbed at the call of a number: the process dies before or after it, the call is made and its
acknowledgement lost, or it is refused, as on a full disk. Then another run goes on from what is there, either
since the first has ended, or while it only sleeps and wakes up afterwards. In one thread nothing that others
can see happens between two calls, so dying after a call is dying before the next one.
"""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyarrow import fs

from weft.errors import WeftError
from weft.io import filesystem
from weft.io.sinks import CheckingSink, RewindingSink, Sink
from weft.runner.clock import clock_replaced
from weft.store import folder as store_folder
from weft.store.checkpoint import Checkpoint
from weft.store.folder import FOLDERS

SLEEP_SECONDS = 60.0
"""The longest that a run sleeps; only a broken test lets it."""
NOW = 1_704_067_200.0 + 3600


class Died(BaseException):
    """The process has ended here: nothing catches this, and nothing of it goes on."""


class Fault(Enum):
    """Mishap at a call."""

    BEFORE = "before"
    AFTER = "after"
    LOST = "acknowledgement lost"
    REFUSED = "refused"


class Sequel(Enum):
    """Way on after a mishap."""

    RESTART = "restart"
    SECOND = "second driver"


class Calls:
    """The calls of one run in their order, and the one at which it is disturbed.

    Without a number nothing happens but counting. ``kill`` ends the process in the place of ``Died``.
    """

    def __init__(
        self,
        number: int | None = None,
        fault: Fault = Fault.BEFORE,
        sequel: Sequel = Sequel.RESTART,
        kill: Callable[[], None] | None = None,
    ) -> None:
        self.number, self.fault, self.sequel, self.kill = number, fault, sequel, kill
        self.names: list[str] = []
        self.is_counting, self.is_dead = True, False
        self.reached, self.woken = threading.Event(), threading.Event()

    def call(self, name: str, function: Callable[[], Any], error: type[Exception] | None = OSError) -> Any:
        """Make a call, or what the fault makes of it; one without ``error`` cannot fail."""
        if self.is_dead:
            raise Died
        if not self.is_counting:
            return function()
        self.names.append(name)
        if len(self.names) - 1 != self.number:
            return function()
        self.is_counting = False
        happens_first = self.fault in (Fault.AFTER, Fault.LOST)
        outcome = outcome_of_call(function) if happens_first else None
        ends_well = self.fault in (Fault.BEFORE, Fault.AFTER) or error is None
        if self.sequel is Sequel.SECOND:
            self.reached.set()
            assert self.woken.wait(SLEEP_SECONDS), "nobody woke the first run"
        elif ends_well:
            if self.kill is not None:
                self.kill()
            self.is_dead = True
            raise Died
        if not ends_well:
            assert error is not None
            raise error(f"{name}: {self.fault.value}, as the test wants it")
        return function() if outcome is None else outcome()


def outcome_of_call(function: Callable[[], Any]) -> Callable[[], Any]:
    """Make a call; return what gives its result, or raises its error."""
    try:
        result = function()
    except Exception as error:
        raised = error

        def fail() -> Any:
            raise raised

        return fail
    return lambda: result


class CountedFiles(fs.LocalFileSystem):
    """The local disk, its calls counted."""

    calls: Calls

    def open_input_file(self, path: str) -> Any:
        return self.calls.call(
            f"read {_folder(path)}", lambda: fs.LocalFileSystem.open_input_file(self, path)
        )

    def get_file_info(self, paths: Any) -> Any:
        where = paths.base_dir + "/*" if isinstance(paths, fs.FileSelector) else paths
        return self.calls.call(
            f"list {_folder(where)}", lambda: fs.LocalFileSystem.get_file_info(self, paths)
        )

    def delete_file(self, path: str) -> None:
        self.calls.call(f"delete {_folder(path)}", lambda: fs.LocalFileSystem.delete_file(self, path))

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        self.calls.call(
            "create folder", lambda: fs.LocalFileSystem.create_dir(self, path, recursive=recursive)
        )


class CountedSystem:
    """The module ``os`` as files are written with it: what makes a file be there is counted.

    ``fine`` counts the other calls of a write, too. Nothing is forced to the disk: no test cuts the power.
    """

    def __init__(self, calls: Calls, fine: bool) -> None:
        self._calls, self._fine = calls, fine

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def link(self, source: str, target: str) -> None:
        self._calls.call(f"write {_folder(target)}", lambda: os.link(source, target))

    def replace(self, source: str, target: str) -> None:
        self._calls.call(f"write {_folder(target)}", lambda: os.replace(source, target))

    def unlink(self, path: str) -> None:
        self.counted(f"remove temporary of {_folder(path)}", lambda: os.unlink(path))

    def fsync(self, descriptor: int) -> None:
        self.counted("force to disk", lambda: None)

    def counted(self, name: str, function: Callable[[], Any]) -> Any:
        """Make a call that is counted where all are."""
        if self._fine or self._calls.is_dead:
            return self._calls.call(name, function)
        return function()


class CountedSink:
    """A sink, its calls counted."""

    def __init__(self, sink: Sink, calls: Calls, name: str = "sink") -> None:
        self.sink, self._calls, self._name = sink, calls, name

    def open(self, schemas: Mapping[str, pa.Schema], stream: str) -> None:
        self._call("open", lambda: self.sink.open(schemas, stream))

    def check(self, schemas: Mapping[str, pa.Schema]) -> None:
        if isinstance(self.sink, CheckingSink):
            checked = self.sink
            self._call("check", lambda: checked.check(schemas))

    def deliver(self, results: Mapping[str, pa.Table], seq: int) -> None:
        self._call("deliver", lambda: self.sink.deliver(results, seq))

    def rewind(self, after: int) -> None:
        if isinstance(self.sink, RewindingSink):
            turned = self.sink
            self._call("rewind", lambda: turned.rewind(after))

    def close(self) -> None:
        self._call("close", self.sink.close)

    def _call(self, name: str, function: Callable[[], Any]) -> None:
        self._calls.call(f"{self._name} {name}", function, ConnectionError)


def _folder(path: str) -> str:
    """Return what a file is, by its folder."""
    parts = path.split("/")
    return next((part for part in parts[-2:] if part in FOLDERS or part == "positions"), "others")


@contextmanager
def counted(calls: Calls, fine: bool = False) -> Iterator[None]:
    """Count the calls of all that runs in the block to file system, clock and commit."""

    class Files(CountedFiles):
        """The disk of this block."""

    Files.calls = calls
    system = CountedSystem(calls, fine)
    modules = mock.Mock(wraps=fs, LocalFileSystem=Files, FileType=fs.FileType)
    publish = Checkpoint.publish

    def commit(checkpoint: Checkpoint, entry: Any) -> Any:
        return calls.call("commit", lambda: publish(checkpoint, entry))

    def create(path: str, mode: str) -> Any:
        return system.counted("create temporary", lambda: builtins.open(path, mode))

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(filesystem, "fs", modules))
        stack.enter_context(mock.patch.object(filesystem, "os", system))
        stack.enter_context(mock.patch.object(filesystem, "open", create, create=True))
        stack.enter_context(mock.patch.object(Checkpoint, "publish", commit))
        stack.enter_context(mock.patch.object(threading, "excepthook", _quiet(threading.excepthook)))
        stack.enter_context(clock_replaced(lambda: calls.call("clock", lambda: NOW, None)))
        yield


def _quiet(hook: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Let threads die without a word where they are meant to."""

    def on_error(arguments: Any) -> None:
        if not issubclass(arguments.exc_type, Died):
            hook(arguments)

    return on_error


Run = Callable[[Calls], None]
"""One run to its end; WeftError where it fails."""


def disturb(run: Run, calls: Calls, fine: bool = False) -> WeftError | None:
    """Let a run be disturbed as ``calls`` say, and another go on to the end; return the error of the first.

    The second is not disturbed, and must end well.
    """
    errors: list[BaseException] = []

    def first() -> None:
        try:
            run(calls)
        except (Died, Exception) as error:
            errors.append(error)

    with counted(calls, fine):
        if calls.sequel is Sequel.RESTART:
            first()
            assert len(calls.names) > (calls.number or 0), "the run has no call of this number"
            calls.is_counting = calls.is_dead = False
            run(calls)
        else:
            thread = threading.Thread(target=first)
            thread.start()
            while not calls.reached.wait(0.0005) and thread.is_alive():
                pass
            assert calls.reached.is_set(), f"the run has no call of this number: {errors}"
            try:
                run(calls)
            finally:
                calls.woken.set()
                thread.join()
    unclear = [error for error in errors if not isinstance(error, Died | WeftError)]
    if unclear:
        raise unclear[0]
    return next((error for error in errors if isinstance(error, WeftError)), None)


def leftovers(place: str) -> list[str]:
    """Return the files of a checkpoint that no entry needs, once a driver has claimed it and swept."""
    with mock.patch.object(store_folder, "TEMPORARY_SECONDS", 0.0):
        checkpoint = Checkpoint(place)
        checkpoint.claim()
    folder = checkpoint.folder
    entries = [folder.entry(number) for number in folder.numbers("manifests")]
    settled = checkpoint._recent.settled
    needed = {name for entry in entries for name in entry.files}
    needed |= {file.name for entry in entries if entry.seq > settled for file in entry.answers}
    needed |= {f"{number:010}.json" for entry in entries for number in entry.versions}
    last = checkpoint.last
    assert last is not None
    unneeded = []
    for path in sorted(Path(place).rglob("*")):
        name = path.name
        if path.is_dir() or name in ("weft.json", "delivered.json") or path.parent.name == "manifests":
            if not name.startswith("."):
                continue
        elif path.parent.name == "clocks" and int(path.stem) >= last.seq:
            continue
        if name not in needed:
            unneeded.append(f"{path.parent.name}/{name}")
    return unneeded
