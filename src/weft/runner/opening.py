"""Opening a run over a checkpoint: the queries that were there at its end, and how far streams had come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.operators.times import Seen
from weft.runner.clock import StreamTime
from weft.runner.program import UNNAMED, AnyQuery, Position, Program, ProgramCompiler, windows_name
from weft.runner.running_queries import Accept, RunningQueries
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry, StageState, StreamState
from weft.store.version_file import QueryVersion, StageVersion, WrittenColumns


def open_queries(
    checkpoint: Checkpoint, compiler: ProgramCompiler, base: tuple[AnyQuery, ...], accept: Accept | None
) -> RunningQueries:
    """Return the queries given or, over a checkpoint, those that were there at its end.

    The queries given are compared with those that the run before was started with: what has changed among
    them changes with the first step.
    """
    version = checkpoint.version()
    if version is None:
        # Not yet written down: what changes before the first step is version 1, and no other is.
        return RunningQueries(compiler, compiler.compile(base, version=0), accept)
    version = with_names(version, compiler)
    version.check(compiler.schemas, compiler.times, checkpoint.place, compiler.zone)
    stages = {name: {"layout": s.layout, "data": s.data} for name, s in version.stages.items()}
    program = compiler.restore(version.queries, version.version, stages)
    running = RunningQueries(compiler, program, accept)
    running.failed = version.failed
    running.rebase(version.base, tuple(version.as_given(base)))
    return running


def claim_turn(
    checkpoint: Checkpoint, compiler: ProgramCompiler, base: tuple[AnyQuery, ...], accept: Accept | None
) -> tuple[RunningQueries, Entry]:
    """Claim the turn of a checkpoint for queries that are known to be right; return them, and its entry.

    Queries that are wrong take no turn from another run. Where that one goes on until the turn is claimed,
    the queries are opened again.
    """
    before = (_last_step(checkpoint), checkpoint.next_version())
    running = open_queries(checkpoint, compiler, base, accept)
    entry = checkpoint.claim()
    # A version may be there whose first step is not: changes that were confirmed hold.
    if (_last_step(checkpoint), checkpoint.next_version()) != before:
        running = open_queries(checkpoint, compiler, base, accept)
    return running, entry


def _last_step(checkpoint: Checkpoint) -> int:
    return 0 if checkpoint.last is None else checkpoint.last.seq


def version_of(
    program: Program,
    seq: int,
    base: tuple[AnyQuery, ...],
    lateness: Mapping[str, int | None],
    base_lateness: Mapping[str, int | None],
    running: RunningQueries,
) -> QueryVersion:
    """Return the version to write down of a program that steps from this one on are made with."""
    reads = program.reads
    columns = {
        name: WrittenColumns.of(program.times[name], reads[name].schema)
        if name in reads
        else WrittenColumns(None, {})
        for name in program.schemas
    }
    stages = {name: StageVersion(**data) for name, data in program.data().items()}
    return QueryVersion(
        program.version,
        seq,
        columns,
        program.queries,
        base,
        stages,
        dict(lateness),
        dict(base_lateness),
        program.zone,
        running.remembered(),
    )


def position_of(entry: Entry | None, compiler: ProgramCompiler) -> Position:
    """Return how far streams and stages had come with an entry."""
    if entry is None:
        return Position()
    entry = entry_with_names(entry, compiler)
    streams = {
        name: StreamTime(Seen(**state.seen), state.mark, state.heard) for name, state in entry.streams.items()
    }
    return Position(streams, {name: stage.marks for name, stage in entry.stages.items()})


def streams_state(streams: Mapping[str, StreamTime]) -> dict[str, StreamState]:
    """Return how far streams have come, as an entry has it."""
    return {
        name: StreamState(seen_to_data(stream.seen), stream.mark, dict(stream.heard))
        for name, stream in streams.items()
    }


def seen_to_data(seen: Seen) -> dict[str, object]:
    """Return counts of rows as JSON."""
    return {name: getattr(seen, name) for name in seen.__slots__}


def with_names(version: QueryVersion, compiler: ProgramCompiler) -> QueryVersion:
    """Return a version whose one stream had no name under the name that it is given now, or the reverse.

    Formats before 5 did not write it down, and for one stream it makes no difference.
    """
    renamed = _renaming(version.streams, compiler)
    if renamed is None:
        return version
    old, new = renamed
    stages = {
        windows_name(new) if name == windows_name(old) else name: stage
        for name, stage in version.stages.items()
    }
    return replace(
        version,
        streams={new: version.streams[old]},
        stages=stages,
        lateness={new: version.lateness.get(old)},
        base_lateness={new: version.base_lateness.get(old)},
    )


def entry_with_names(entry: Entry, compiler: ProgramCompiler) -> Entry:
    """Return an entry whose one stream has the name that it is given now; see ``with_names``."""
    renamed = _renaming(entry.streams, compiler)
    if renamed is None:
        return entry
    old, new = renamed
    stages = {}
    for name, stage in entry.stages.items():
        if name == windows_name(old):
            marks = {new: stage.marks.get(old)}
            stages[windows_name(new)] = StageState(marks, stage.layers)
        else:
            stages[name] = stage
    return replace(entry, streams={new: entry.streams[old]}, stages=stages)


def _renaming(written: Mapping[str, object], compiler: ProgramCompiler) -> tuple[str, str] | None:
    """Return the name that the only stream had, and the one it has now, where one of them is none."""
    if len(written) != 1 or len(compiler.schemas) != 1:
        return None
    (old,), (new,) = written, compiler.schemas
    return (old, new) if old != new and UNNAMED in (old, new) else None
