"""The WindowProgram: a plan made ready for one stream's schema, which every task carries."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.aggregates import AggregateFunction, Part
from weft.expr.check import output_type
from weft.expr.types import UTC
from weft.model.as_data import canonical
from weft.model.expression import Expr
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.query import Query
from weft.model.window import Window
from weft.operators.lookups.bind import BoundLookup
from weft.operators.windows.layout import Shape, WindowLayout, part_text
from weft.operators.windows.roster import Roster
from weft.planning.tree import Tree
from weft.slicing import SLICERS, Progression, reduce_progressions

if TYPE_CHECKING:
    from weft.planning.plan import Plan


@dataclass(frozen=True, slots=True)
class Answer:
    """One aggregate of a query: its function, where its parts are in the grouping, and its Arrow type."""

    alias: str
    function: AggregateFunction
    parts: tuple[int, ...]
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Origin:
    """The coming of a query to a running stream, in event time; BEGINNING_OF_TIME: before the first row.

    Its windows that start at ``since`` or later are answered. ``latest_when_added`` is the latest time
    that had been seen when it came. ``bucket`` is the one that has its history, modulo how many there are
    now; None where each has that of its own groups.
    """

    since: int = BEGINNING_OF_TIME
    latest_when_added: int = BEGINNING_OF_TIME
    bucket: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """One query made ready: its tree, grouping, predicate bit and answers.

    ``bucket`` is the one that answers it, None where each bucket does for its own groups.
    """

    query: Query
    tree: int
    grouping: int
    predicate: int
    answers: tuple[Answer, ...]
    bucket: int | None
    origin: Origin = Origin()


class Axis(enum.Enum):
    """Axis that the cells of a grouping are cut along."""

    TIME = "time"
    WAITING = "waiting"  # not cut: rows that wait for their numbers
    ROWS = "rows"  # the numbers of the rows that satisfy one predicate


@dataclass(frozen=True, slots=True)
class Grouping:
    """One group-by set: its key columns, every part that its queries need, and which predicates need it.

    Groups are spread over all buckets by their keys. Without keys there is nothing to spread: ``buckets`` are
    then those that answer a query, the nodes of the plan.

    ``progressions`` are the edges that its cells are cut at. Windows counted in rows have two: their rows
    wait in one, which all predicates share, and each predicate counts its own in another, ``fed_by`` it,
    from the rows of time ``since`` on.
    """

    keys: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    parts: tuple[Part, ...]
    needed_by: tuple[tuple[int, ...], ...]
    windows: tuple[Window, ...]
    buckets: tuple[int, ...]
    progressions: tuple[Progression, ...]
    axis: Axis = Axis.TIME
    fed_by: int | None = None
    since: int = BEGINNING_OF_TIME

    @property
    def predicates(self) -> tuple[int, ...]:
        """The predicates of its queries."""
        return tuple(dict.fromkeys(p for needing in self.needed_by for p in needing))

    @property
    def ordered(self) -> bool:
        """Return whether it matters in which order states are combined, so that slices must not overlap."""
        return any(part.ordered for part in self.parts)

    @property
    def needs(self) -> dict[Part, tuple[int, ...]]:
        """Return which predicates need each part."""
        return dict(zip(self.parts, self.needed_by))


@dataclass(frozen=True)
class WindowProgram:
    """Everything a batch needs, checked against the schema; ``version`` counts the changes of queries.

    ``streams`` are the names that FROM may have; None where the stream was given without one. ``zone`` is
    that of local times.
    """

    plan: Plan
    schema: pa.Schema
    time: str
    entries: tuple[CompiledQuery, ...]
    groupings: tuple[Grouping, ...]
    predicates: tuple[Expr | None, ...]
    progressions: tuple[Progression, ...]
    strict: bool = False
    lookups: tuple[BoundLookup, ...] = ()
    buckets: int = 1
    version: int = 1
    streams: tuple[str, ...] | None = None
    zone: str = UTC

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the stream that are read, in the schema's order."""
        read = {self.time}.union(*(e.query.columns for e in self.entries))
        return tuple(name for name in self.schema.names if name in read)

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The windows in time."""
        return tuple({w for g in self.groupings if g.axis is Axis.TIME for w in g.windows})

    @cached_property
    def counts_rows(self) -> bool:
        """Return whether any window is counted in rows."""
        return any(g.axis is Axis.ROWS for g in self.groupings)

    @cached_property
    def families(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The predicates of each grouping, those of a tree together; trees with one in common are one."""
        families: list[list[set[int]]] = [[] for _ in self.groupings]
        members: dict[tuple[int, int], set[int]] = {}
        for entry in self.entries:
            members.setdefault((entry.grouping, entry.tree), set()).add(entry.predicate)
        for (grouping, _), predicates in members.items():
            apart = [family for family in families[grouping] if not family & predicates]
            united = predicates.union(*(family for family in families[grouping] if family & predicates))
            families[grouping] = [*apart, united]
        return tuple(
            tuple(tuple(sorted(family)) for family in grouping_families) for grouping_families in families
        )

    @cached_property
    def edges(self) -> dict[tuple[int, int], tuple[Progression, ...]]:
        """Return where queries of each grouping and predicate need rows cut; equal ones are one object."""
        needed: dict[tuple[int, int], list[Progression]] = {}
        for entry in self.entries:
            cut = SLICERS[self.trees[entry.tree].slicer]
            needed.setdefault((entry.grouping, entry.predicate), []).extend(cut(entry.query.window))
        reduced = {where: reduce_progressions(progressions) for where, progressions in needed.items()}
        distinct = {self.progressions: self.progressions}
        return {where: distinct.setdefault(edges, edges) for where, edges in reduced.items()}

    @cached_property
    def rosters(self) -> tuple[Roster, ...]:
        """Every entry, with those that are answered from the same view."""
        together: dict[tuple[int, int, int | None], list[tuple[int, CompiledQuery]]] = {}
        for number, entry in enumerate(self.entries):
            since = entry.origin.since if self.groupings[entry.grouping].ordered else None
            together.setdefault((entry.tree, entry.grouping, since), []).append((number, entry))
        return tuple(Roster(*where, entries) for where, entries in together.items())

    @cached_property
    def queries(self) -> tuple[Query, ...]:
        """The queries as they were asked, in the plan's order, which is that of the entries."""
        return self.plan.queries

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The plan's trees."""
        return self.plan.trees

    @cached_property
    def layout(self) -> WindowLayout:
        """Return the layout of its state, as plain data."""
        predicates = tuple(map(canonical, self.predicates))
        shapes = (
            Shape(
                g.axis.value,
                g.keys,
                predicates[g.predicates[0]] if g.axis is Axis.ROWS else None,
                g.since,
                tuple((part_text(p), len(p.words)) for p in g.parts),
            )
            for g in self.groupings
        )
        return WindowLayout(predicates, tuple(shapes))

    @cached_property
    def time_type(self) -> pa.DataType:
        """The Arrow type of window_start and window_end: microseconds in the time column's zone."""
        return pa.timestamp("us", self.schema.field(self.time).type.tz)

    @cached_property
    def by_name(self) -> dict[str, CompiledQuery]:
        """The entries by the names of their queries."""
        return {e.query.name: e for e in self.entries}

    def result_schema(self, name: str) -> pa.Schema:
        """The Arrow schema of a query's results."""
        entry = self.by_name[name]
        fields = [*self._keys(entry), *self._bounds(), *((a.alias, a.type) for a in entry.answers)]
        schema = pa.schema(fields)
        if entry.query.outputs:
            tz = self.time_type.tz
            fields = [*self._keys(entry), *self._bounds()]
            fields += [(o.alias, output_type(o.expr, schema, self.zone, tz)) for o in entry.query.outputs]
        # Two windows in rows can begin and end at the same instants: sinks must know.
        return pa.schema(fields, metadata={"weft.window": "rows"} if entry.query.window.rows else None)

    def _keys(self, entry: CompiledQuery) -> list[tuple[str, pa.DataType]]:
        grouping = self.groupings[entry.grouping]
        return list(zip(entry.query.result_keys, grouping.key_types))

    def _bounds(self) -> list[tuple[str, pa.DataType]]:
        return [("window_start", self.time_type), ("window_end", self.time_type)]
