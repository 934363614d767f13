"""Every case of every stream, sink and engine, as a table; or processes killed at every call, one by one.

    cd tests && python -m support.kill_points --engine local --sinks parquet,postgres
    cd tests && python -m support.kill_points --engine local --kill

With ``--kill``, a child makes the run and kills itself with SIGKILL before one of its calls; another goes on.
Memory and functions die with their process, so sinks are folders, tables and requests then. Every call is
counted of which writing a file is made.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from support.brokers import Broker
from support.crash_engines import Scene
from support.crash_matrix import ENGINES, Matrix, PlaceOf, Scope, ending_of
from support.crash_points import Calls, Fault, Sequel, counted, leftovers
from support.crash_sinks import Folders, FunctionCalls, Memory, Requests, SinkPlace, Tables, Topic
from support.crash_streams import STREAMS
from support.servers import hook, postgres
from weft.sinks import JsonSink, ParquetSink

KILLED_SINKS = ("parquet", "json", "postgres", "webhook")
_names = count()


@contextmanager
def places(kinds: tuple[str, ...]) -> Iterator[dict[str, PlaceOf]]:
    """Make what gives the place of each kind of sink; servers run in the block."""
    with ExitStack() as stack:
        place_of: dict[str, PlaceOf] = {
            "memory": lambda folder: Memory(),
            "function": lambda folder: FunctionCalls(),
            "parquet": lambda folder: Folders(folder / "out", ParquetSink),
            "json": lambda folder: Folders(folder / "out", JsonSink),
        }
        if "postgres" in kinds:
            server = stack.enter_context(postgres())
            place_of["postgres"] = lambda folder: Tables(server.address, f"crash_{next(_names)}")
        if "webhook" in kinds:
            web_server = stack.enter_context(hook())
            place_of["webhook"] = lambda folder: Requests(web_server)
        if "kafka" in kinds:
            broker = Broker()
            place_of["kafka"] = lambda folder: Topic(broker, f"crash-{next(_names)}")
        yield {kind: place_of[kind] for kind in kinds}


def try_all(engine: str, streams: tuple[str, ...], kinds: tuple[str, ...], scope: Scope) -> int:
    """Try every case, print a row for each stream and sink, and return the number of failures."""
    columns = [(f, s) for f in Fault for s in Sequel if (f, s) != (Fault.REFUSED, Sequel.SECOND)]
    words = " | ".join(f"{fault.value}, {sequel.value}" for fault, sequel in columns)
    print(f"| engine | stream | sink | calls | {words} | lost its turn | unequal |")
    print(f"|{'---|' * (len(columns) + 6)}")
    failed = 0
    with places(kinds) as by_kind:
        for stream in streams:
            for kind, place_of in by_kind.items():
                matrix = Matrix(engine, stream, place_of)
                own = scope if kind == "memory" or scope is Scope.EVERYTHING else Scope.SINKS
                failures = matrix.failures(matrix.cases(own))
                cells = " | ".join(str(matrix.counts[column]) for column in columns)
                row = f"{engine} | {stream} | {kind} | {len(matrix.names)} | {cells}"
                print(f"| {row} | {matrix.lost} | {len(failures)} |", flush=True)
                print("\n".join(failures[:5]), file=sys.stderr)
                failed += len(failures)
    return failed


def kill_all(stream: str, kinds: tuple[str, ...], every: int) -> int:
    """Kill a process at every call of a run, or at some, sink by sink; return the number of failures."""
    print("| stream | sink | calls | killed | unequal |\n|---|---|---|---|---|")
    failed = 0
    with places(kinds) as by_kind, Children() as children:
        for kind, place_of in by_kind.items():
            matrix = Matrix("local", stream, place_of, fine=True)
            numbers = range(0, len(matrix.names), every)
            problems = [p for number in numbers if (p := _killed(matrix, kind, number, children))]
            print(
                f"| {stream} | {kind} | {len(matrix.names)} | {len(numbers)} | {len(problems)} |", flush=True
            )
            print("\n".join(problems[:5]), file=sys.stderr)
            failed += len(problems)
    return failed


def _killed(matrix: Matrix, kind: str, number: int, children: Children) -> str:
    """Let a child be killed at a call and another go on; return what is wrong in the end."""
    with matrix.scene() as scene:
        task = {"stream": matrix.stream, "kind": kind, "place": scene.place, "address": scene.sinks.address}
        first, second = children.run({**task, "number": number}), children.run({**task, "number": None})
        ending, left = ending_of(scene), leftovers(scene.place)
    if first != -signal.SIGKILL or second != 0:
        return f"call {number} ({matrix.names[number]}): the children ended with {first} and {second}"
    if ending != matrix.expected or left:
        return f"call {number} ({matrix.names[number]}): sinks or state differ, or left over: {left}"
    return ""


class Children:
    """Processes that make one run each, forked by one that has imported everything and done nothing yet."""

    def __enter__(self) -> Children:
        command = [sys.executable, "-m", "support.kill_points", "--fork"]
        self._parent = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        self._parent.wait()

    def run(self, task: Mapping[str, Any]) -> int:
        """Let a child make a run; return how it ended, as ``subprocess`` says it."""
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(task) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())


def fork_children() -> None:
    """Fork a child for each line of the input, and print how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run_child(**json.loads(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run_child(stream: str, kind: str, place: str, address: str, number: int | None) -> None:
    """Make one run, and be killed before a call, where it has a number."""
    calls = Calls(number, kill=lambda: os.kill(os.getpid(), signal.SIGKILL))
    makers: dict[str, Callable[[], SinkPlace]] = {
        "parquet": lambda: Folders(Path(address), ParquetSink),
        "json": lambda: Folders(Path(address), JsonSink),
        "postgres": lambda: Tables(*address.rsplit("|", 1)),
        "webhook": lambda: Requests(_Address(address)),
    }
    scene = Scene(STREAMS[stream], place, makers[kind]())
    with counted(calls, fine=True):
        ENGINES["local"](scene, calls)


class _Address:
    """A web server of another process."""

    def __init__(self, url: str) -> None:
        self.url, self.requests = url, list[Any]()


def main() -> None:
    """Try what the arguments say."""
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=list(ENGINES), default="local")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--sinks", default="memory,parquet,json,function,webhook,postgres")
    parser.add_argument("--everything", action="store_true", help="also cases that others stand for")
    parser.add_argument("--kill", action="store_true", help="kill processes, over windows alone")
    parser.add_argument("--every", type=int, default=1, help="with --kill: every so many-th call")
    parser.add_argument("--fork", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sinks = tuple(given.sinks.split(","))
    if given.fork:
        fork_children()
        return
    if given.kill:
        failed = kill_all("windows", tuple(k for k in sinks if k in KILLED_SINKS), given.every)
    else:
        scope = Scope.EVERYTHING if given.everything else Scope.LOOKS
        failed = try_all(given.engine, tuple(given.streams.split(",")), sinks, scope)
    sys.exit(f"{failed} cases did not end well" if failed else 0)


if __name__ == "__main__":
    main()
