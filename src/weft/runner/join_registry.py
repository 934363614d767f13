"""The joins of a running stream: how they change, and what a new one finds there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from weft.errors import WeftError
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.join import RESULT_TIME, JoinQuery
from weft.operators.joins.compile import JoinCompiler, StreamPosition
from weft.operators.joins.state import Joins
from weft.planning.joins.member import Key
from weft.planning.joins.rates import Rates
from weft.runner.changes import Change, Changes, moment
from weft.runner.registry import change_of, check_defined
from weft.sql.join_builder import JoinBuilder
from weft.sql.read import read_join


class JoinRegistry(Changes[JoinQuery, Joins, JoinQuery]):
    """The joins of a running stream, and the changes that are pending.

    >>> import weft
    >>> from weft.planning.live import LivePlanner
    >>> schema = pa.schema({"ts": pa.timestamp("us"), "x": pa.int64()})
    >>> streams = JoinCompiler({"a": schema, "b": schema}, {"a": "ts", "b": "ts"}, LivePlanner())
    >>> text = "-- name: {}\\nSELECT a.x FROM a [RANGE '{} s'], b [RANGE '5 s'] WHERE a.x = b.x"
    >>> registry = JoinRegistry(streams.joins(weft.sql(text.format("long", 9))), streams)
    >>> added = registry.add(text.format("short", 4))
    >>> at = StreamPosition(9_000_000, {"a": 9_000_000, "b": 8_000_000})
    >>> registry.confirm(registry.apply(at, version=2))
    >>> added.result().exact_from, added.result().history
    (datetime.datetime(1970, 1, 1, 0, 0, 8), True)
    """

    def __init__(
        self,
        joins: Joins,
        streams: JoinCompiler,
        accept: Callable[[Mapping[str, pa.Schema]], None] | None = None,
    ) -> None:
        super().__init__(joins, accept, streams.schemas)
        self.streams = streams

    def change(self, name: str) -> Change:
        """Return the change that a running join came with."""
        joins = self.program
        if name not in joins.members:
            return Change(name, joins.version)
        member, lineage = joins.members[name]
        if member.aggregates:
            return change_of(joins.results, name)
        if lineage.since == BEGINNING_OF_TIME:
            return Change(name, joins.version, None, len(lineage.ids) > 1)
        tz = joins.result_schema(name).field(RESULT_TIME).type.tz
        return Change(name, joins.version, moment(lineage.since, tz), len(lineage.ids) > 1)

    def apply(
        self, at: StreamPosition, version: int, rates: Mapping[Key, Rates] | None = None
    ) -> Joins | None:
        """Return the joins of another version, with all pending changes; None without any."""
        changes = self._take()
        if not changes:
            return None
        queries = {q.name: q for q in self.program.queries}
        for change in changes:
            queries.pop(change.name, None)
            if change.prepared is not None:
                queries[change.name] = change.prepared
        try:
            return self.streams.joins(list(queries.values()), version, self.program, at, rates)
        except WeftError as error:
            self._fail(error)
            return None

    def _read(self, query: JoinQuery | JoinBuilder | str, name: str | None) -> JoinQuery:
        return read_join(query, name)

    def _check(self, query: JoinQuery) -> tuple[JoinQuery, pa.Schema]:
        check_defined(self.program.results, query.name)
        return query, self.streams.joins([query]).result_schema(query.name)
