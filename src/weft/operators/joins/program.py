"""The JoinProgram: joins that share a chain, made ready for the schemas of their streams.

Columns and types are checked here, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.check import check, check_predicate, output_type
from weft.expr.evaluate import Evaluator
from weft.expr.types import UTC, read_zone
from weft.model.expression import Call, Column, Expr, column_nodes, columns_of
from weft.model.join import RESULT_TIME
from weft.operators.lookups.bind import BoundLookup
from weft.operators.lookups.side import SideRows
from weft.planning.joins.access import Access, bare, choose_access, pair_schema
from weft.planning.joins.levels import Levels
from weft.planning.joins.member import Member, check_sides


@dataclass(frozen=True)
class JoinProgram:
    """Everything a chain needs to know of its members and streams; ``schemas`` are what is kept of a row.

    ``lookups`` bring the columns of tables, which rows must have beside their own, to the rows of each side.
    """

    members: tuple[Member, ...]
    schemas: tuple[pa.Schema, ...]
    time_type: pa.DataType
    access: Access
    strict: bool = False
    zone: str = UTC
    lookups: tuple[tuple[BoundLookup, ...], ...] = ()

    def evaluator(self, rows: pa.RecordBatch | pa.Table) -> Evaluator:
        """Return an evaluator of expressions over some rows, as this program wants it."""
        return Evaluator(rows, strict=self.strict, zone=self.zone)

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the sides."""
        return self.members[0].sides

    @cached_property
    def levels(self) -> Levels:
        """Return how joined rows of some sides meet those of one more, where there are more than two."""
        return Levels(self.members, self.schemas)

    @cached_property
    def residual(self) -> Expr | None:
        """Return what is left to be tested of a pair that the access path found."""
        conjunction: Expr | None = None
        for condition in self.access.residual(self.members[0].conditions):
            conjunction = (
                condition
                if conjunction is None
                else Call("and", (conjunction, condition), condition.position)
            )
        return conjunction

    @cached_property
    def tested(self) -> frozenset[str]:
        """The columns that ``residual`` reads."""
        return frozenset() if self.residual is None else columns_of(self.residual)

    @cached_property
    def selected(self) -> frozenset[str]:
        """The columns that the results of all joins are made of."""
        return frozenset[str]().union(*(columns_of(o.expr) for m in self.members for o in m.outputs))

    @cached_property
    def selected_schema(self) -> pa.Schema:
        """The columns of joined rows that results are made of."""
        return pa.schema([f for f in pair_schema(self.sides, self.schemas) if f.name in self.selected])

    @cached_property
    def results(self) -> dict[str, pa.Schema]:
        """The schema of each join's results, before any aggregation of them."""
        pairs = pair_schema(self.sides, self.schemas)
        schemas = {}
        for member in self.members:
            tz = self.time_type.tz
            fields = [(o.alias, output_type(o.expr, pairs, self.zone, tz)) for o in member.outputs]
            schemas[member.name] = pa.schema([(RESULT_TIME, self.time_type), *fields])
        return schemas


def compile_joins(
    members: Sequence[Member],
    streams: Mapping[str, pa.Schema],
    times: Mapping[str, str],
    strict: bool = False,
    zone: str = UTC,
    tables: Mapping[str, pa.Schema] | None = None,
) -> JoinProgram:
    """Check joins against their streams' schemas; ``times`` names the time column of each stream.

    ``zone`` is that of local times, ``tables`` are the columns of the lookup tables.
    """
    zone = read_zone(zone)
    check_sides(members)
    first = members[0]
    sides = [SideRows(streams[stream], zone) for stream in first.streams]
    schemas = []
    lookups = []
    for number, (name, side) in enumerate(zip(first.sides, sides)):
        for member in members:
            with _named(member):
                for lookup in member.lookups[number]:
                    side.add(lookup, tables or {})
                _check_columns(member, number, side)
        read = frozenset[str]().union(*(m.columns(name) for m in members))
        schemas.append(pa.schema([_plain(f) for f in side.rows if f.name in read]))
        selected = (columns_of(s) for m in members if (s := m.selections[number]) is not None)
        lookups.append(side.needed(read.union(*selected)))
    pairs = pair_schema(first.sides, schemas)
    for member in members:
        with _named(member):
            for selection, side in zip(member.selections, sides):
                if selection is not None:
                    check_predicate(selection, side.rows, zone)
            for condition in member.conditions:
                check_predicate(condition, pairs, zone)
            for output in member.outputs:
                check(output.expr, pairs, zone)
    # More than two sides have an access path at each level of a join order.
    two = len(first.sides) == 2
    access = choose_access(first.conditions, first.sides, schemas) if two else Access()
    time_type = _time_type(first, streams, times)
    return JoinProgram(
        tuple(members), tuple(schemas), time_type, access, strict, zone, lookups=tuple(lookups)
    )


def _check_columns(member: Member, number: int, side: SideRows) -> None:
    """Refuse what a join reads of a side and its rows do not have, or have in a type that is not read."""
    name = member.sides[number]
    for expr in (*member.conditions, *(output.expr for output in member.outputs)):
        for column in column_nodes(expr):
            if column.name.startswith(f"{name}."):
                side.check_columns(bare(column, name))
    for own in sorted(member.columns(name)):
        check(Column(own), side.rows, side.zone)
    if (selection := member.selections[number]) is not None:
        side.check_columns(selection)


def _time_type(member: Member, streams: Mapping[str, pa.Schema], times: Mapping[str, str]) -> pa.DataType:
    types = []
    for stream in member.streams:
        if stream not in times:
            continue
        name, schema = times[stream], streams[stream]
        if name not in schema.names:
            raise QueryError(
                f"the stream {stream!r} has no time column {name!r}",
                hint=f"its columns are {', '.join(schema.names)}",
            )
        if not pa.types.is_timestamp(schema.field(name).type):
            raise QueryError(
                f"the time column {name!r} of {stream!r} is {schema.field(name).type}, not a timestamp",
                hint="convert it to a timestamp first",
            )
        types.append(schema.field(name).type)
    if len({t.tz is None for t in types}) > 1:
        raise QueryError(
            "the time column has a time zone in one stream and none in another", hint="give all of them one"
        )
    return pa.timestamp("us", types[0].tz if types else None)


def _plain(field: pa.Field) -> pa.Field:
    dtype = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return pa.field(field.name, dtype)


@contextmanager
def _named(member: Member) -> Iterator[None]:
    """Errors inside name this member's query."""
    try:
        yield
    except QueryError as error:
        raise error.of(member.name) from None
