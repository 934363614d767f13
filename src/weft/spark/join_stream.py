"""Joins of streams on Spark: one streaming query over all of them, their state in the slice store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.engine.compile import check_names
from weft.engine.manifest import seal, unseal
from weft.engine.store import SliceStore
from weft.errors import CheckpointError, JobError, QueryError
from weft.files import Files
from weft.filesystem import join, resolve, write_atomically
from weft.join_run import time_of
from weft.joins.explain import ChainPlan, choose_ends, plan_chain
from weft.joins.member import Member, sharing
from weft.joins.program import compile_joins
from weft.joins.rates import assumed
from weft.joins.rows import OWN
from weft.joins.state import Joins
from weft.query import JoinQuery, Query, columns_of
from weft.query_json import canonical
from weft.spark.prepare import schema_of
from weft.spark.run import Running


class JoinStream(Running[Joins]):
    """A stream of joins, the same ones from its start to its end."""

    def queries(self) -> tuple[JoinQuery, ...]:
        """The joins that are answered."""
        return self._steps.program.queries

    def explain(self) -> list[ChainPlan]:
        """The chains that run, with what they should cost."""
        joins = self._steps.program
        return [
            plan_chain(program.members, assumed(program.members), "mem-opt", ends=ends)
            for program, ends in zip(joins.programs, joins.ends)
        ]


def compile_stream(
    sources: Mapping[str, DataFrame | Files],
    queries: Sequence[JoinQuery | Query],
    time: str | Mapping[str, str],
    strict: bool,
) -> Joins:
    """Check joins against their streams, and make them ready."""
    asked = [_join(query) for query in queries]
    check_names(asked)
    read = sorted({stream for query in asked for stream in query.streams})
    for stream in read:
        if stream not in sources:
            raise JobError(f"there is no source of the stream {stream!r}; given are {', '.join(sources)}")
    whole = {s: _schema(s, sources[s]) for s in read}
    times = {s: time if isinstance(time, str) else time_of(time, s) for s in read}
    groups = sharing(asked)
    for each in (m for members in groups for m in members):
        compile_joins([each], whole, times, strict)  # one by one, so that an error names the query
    programs = tuple(compile_joins(members, whole, times, strict) for members in groups)
    ends = tuple(choose_ends(members, "mem-opt", assumed(members)) for members in groups)
    needed: dict[str, set[str]] = {stream: {times[stream]} for stream in read}
    for members in groups:
        for each in members:
            for stream, columns in _columns(each):
                needed[stream] |= columns
    for stream, names in needed.items():
        for name in sorted(names & set(OWN)):
            raise JobError(f"column {name!r} of {stream!r} has a name that weft uses itself; rename it")
    schemas = {s: pa.schema([f for f in whole[s] if f.name in needed[s]]) for s in read}
    return Joins(tuple(asked), programs, ends, times, schemas)


def check_same(store: SliceStore, joins: Joins) -> None:
    """Write down what a checkpoint's state is of; refuse to go on with anything else."""
    about = _about(joins)
    system, path = resolve(join(store.place, "joins.json"))
    if store.last is None:
        write_atomically(system, path, seal(about))
        return
    try:
        with system.open_input_file(path) as source:
            before = unseal(source.read())
    except OSError as error:
        raise CheckpointError(
            f"checkpoint '{store.place}' is not of joins; use another checkpoint directory"
        ) from error
    for name in ("queries", "times", "types"):
        if before[name] != about[name]:
            what = {"queries": "joins", "times": "time columns", "types": "columns or types"}[name]
            raise CheckpointError(
                f"checkpoint '{store.place}' belongs to a stream with other {what}; use another checkpoint "
                "directory, or the same joins and streams"
            )


def _about(joins: Joins) -> dict[str, Any]:
    return {
        "queries": [
            {
                "name": q.name,
                "sides": [[s.stream, s.alias, s.range] for s in q.sides],
                "selections": [canonical(e) for e in q.selections],
                "conditions": [canonical(e) for e in q.conditions],
                "outputs": [[o.alias, canonical(o.expr)] for o in q.outputs],
            }
            for q in joins.queries
        ],
        "times": dict(joins.times),
        "types": {s: {f.name: str(f.type) for f in schema} for s, schema in joins.schemas.items()},
    }


def _join(query: JoinQuery | Query) -> JoinQuery:
    if isinstance(query, Query):
        raise QueryError(
            "a stream of joins cannot answer window queries beside them",
            query=query.name,
            hint="give it a weft.stream of its own, over one source",
        )
    if query.aggregate is not None:
        raise QueryError(
            "a join on Spark cannot be aggregated in the same stream",
            query=query.name,
            hint="select its rows, and aggregate them in a second weft.stream over the sink's table",
        )
    return query


def _columns(member: Member) -> Iterable[tuple[str, frozenset[str]]]:
    """What is read of each stream: for conditions and outputs, and for selections."""
    for side, stream, selection in zip(member.sides, member.streams, member.selections):
        yield stream, member.columns(side)
        if selection is not None:
            yield stream, columns_of(selection)


def _schema(stream: str, source: DataFrame | Files) -> pa.Schema:
    if isinstance(source, Files):
        return source.stream_schema()
    if not isinstance(source, DataFrame):
        raise JobError(f"{stream!r} is {type(source).__name__}, not a source; give a DataFrame or weft.Files")
    if not source.isStreaming:
        raise JobError(f"the DataFrame of {stream!r} is not a stream; make it with spark.readStream")
    return schema_of(source)
