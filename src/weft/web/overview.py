"""The run at a glance, for the dashboard: its state, its queries page by page, the costs of its plan."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from importlib import metadata
from typing import Any

from weft.io.json_values import rows
from weft.model.instants import instant
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.operators.windows.program import WindowProgram
from weft.planning.plan import COMPARISONS_UNIT, Plan
from weft.planning.tree import Tree
from weft.slicing import SLICERS
from weft.web.models import (
    ChainsAnswer,
    CostsAnswer,
    GroupingAnswer,
    Latency,
    Overview,
    QuerySummary,
    Summary,
    TreeAnswer,
    WorkPart,
    window_words,
)
from weft.web.record import Record
from weft.web.run_service import RunService, Shown

MAX_NAMES = 5
NO_WATERMARK = 1 << 60


def overview(served: RunService) -> Overview:
    """Return the run at a glance."""
    record, last = served.record, served.record.last
    error = served.running.exception
    mark = watermark(record)
    return Overview(
        state=served.state,
        error=None if error is None else str(error),
        engine=served.engine,
        weft=metadata.version("weft"),
        version=served.running.program.version,
        started=served.started,
        now=datetime.datetime.now(datetime.UTC),
        queries=Counter(shown.state for shown in served.queries()),
        totals={name: record.totals[name] for name in ("rows", "late", "untimed", "bad", "results")},
        steps=record.kinds,
        rate=record.rate(),
        latency=Latency.of(record.quantiles()),
        watermark=None if mark is None else instant(mark),
        watermark_lag=None if mark is None else time.time() - mark / 1e6,
        state_rows=0 if last is None else last.state_rows,
        state_bytes=0 if last is None else last.state_bytes,
        last_seq=-1 if last is None else last.seq,
    )


def watermark(record: Record) -> int | None:
    """The watermark after the latest step; None before the first row, and once all windows are closed."""
    last = record.last
    if last is None or last.watermark is None or abs(last.watermark) >= NO_WATERMARK:
        return None
    return last.watermark


ORDERS: dict[str, Any] = {
    "name": lambda s: s.name,
    "state": lambda s: (s.state, s.name),
    "window": lambda s: (*_length(s.query), s.name),
    "since": lambda s: (s.since, s.name),
    "results": lambda s: (s.results, s.name),
    "windows": lambda s: (s.windows, s.name),
}


def _length(query: Query | JoinQuery) -> tuple[bool, int, int]:
    """Return the order of a query among others by their windows."""
    if isinstance(query, JoinQuery):
        return False, max(side.range for side in query.sides), 0
    return query.window.rows, query.window.range, query.window.slide


def summary(served: RunService, search: str, state: str, order: str, offset: int, limit: int) -> Summary:
    """Return a page of the queries: those whose name, window, groups or aggregates have the text."""
    queries, words = served.queries(), search.strip().lower()
    matches = [
        shown
        for shown in queries
        if (not state or shown.state == state) and (not words or words in _words(shown))
    ]
    matches.sort(key=ORDERS[order.removeprefix("-")], reverse=order.startswith("-"))
    return Summary(
        total=len(queries),
        matching=len(matches),
        queries=[_summary(served, shown) for shown in matches[offset : offset + limit]],
    )


def _words(shown: Shown) -> str:
    query = shown.query
    aggregates = [] if isinstance(query, JoinQuery) else map(str, query.aggregates)
    words = [shown.name, window_words(query), *query.streams, *query.result_columns, *aggregates]
    return " ".join(words).lower()


def _summary(served: RunService, shown: Shown) -> QuerySummary:
    groups = served.groups(shown.query)
    latest = rows(groups.results.slice(max(0, groups.results.num_rows - 1)))
    return QuerySummary(
        name=shown.name,
        state=shown.state,
        error=shown.error,
        since=shown.since,
        exact_from=shown.change.exact_from if shown.change else None,
        window=window_words(shown.query),
        group_by=list(shown.query.result_keys),
        values=list(shown.query.result_values),
        results=shown.results,
        windows=shown.windows,
        groups=groups.newest.num_rows if shown.query.result_keys else None,
        latest=latest[0] if latest else None,
    )


def costs(served: RunService, offset: int, limit: int) -> CostsAnswer:
    """Return the estimated and the measured cost of the plan in force, its trees page by page."""
    program, plan, work = served.running.program, served.running.plan, served.record.work
    if work.version != program.version:
        work = type(work)(program.version)
    answering = [_answering(part, tree) for part in plan.stream_plans for tree in part.trees]
    # Of a plan of joins alone there is one number: what the chains cost.
    reading = sum(part.price.reading for part in plan.stream_plans) if plan.trees else plan.cost
    measured = work.partial + sum(work.trees)
    trees = list(enumerate(plan.trees))[offset : offset + limit]
    return CostsAnswer(
        version=program.version,
        strategy=plan.strategy if plan.trees or not plan.chains else "chains of sliced joins",
        unit=plan.unit,
        rate=plan.rate,
        cost=plan.cost,
        alone=plan.alone,
        rows=work.rows,
        seconds=work.seconds,
        partial=WorkPart.of(reading, reading + sum(answering), work.partial, measured),
        total=len(plan.trees),
        trees=[
            TreeAnswer(
                tree=number,
                stream=tree.stream,
                node=tree.node,
                technique=tree.answered_by,
                queries=len(tree.queries),
                names=[q.name for q in tree.queries[:MAX_NAMES]],
                windows=len({q.window for q in tree.queries}),
                edges=tree.edge_rate,
                edges_alone=_edges_alone(tree),
                cost=WorkPart.of(
                    answering[number],
                    reading + sum(answering),
                    work.trees[number] if number < len(work.trees) else 0.0,
                    measured,
                ),
            )
            for number, tree in trees
        ],
        groupings=[answer for windows in program.windows for answer in _groupings(windows)][:limit],
        joins=_chains(plan),
    )


def _chains(plan: Plan) -> ChainsAnswer | None:
    """Return the estimated cost of the chains of joins."""
    if not plan.chains:
        return None
    cost, alone = plan.costs[COMPARISONS_UNIT]
    joins = sum(len(member.answers) for chain in plan.chains for member in chain.members)
    return ChainsAnswer(chains=len(plan.chains), joins=joins, unit=COMPARISONS_UNIT, cost=cost, alone=alone)


def _answering(plan: Plan, tree: Tree) -> float:
    """Return the estimated cost of a tree's answers: without reading, where the model lets each tree read."""
    return max(0.0, tree.cost - (plan.price.tree if plan.model == "separate" else 0.0))


def _edges_alone(tree: Tree) -> float:
    """Edges per second that its queries would have one by one; of rows, per row."""
    cut = SLICERS[tree.slicer]
    per_unit = sum(1 / p.period for q in tree.queries for p in cut(q.window))
    return per_unit if tree.rows else per_unit * 1e6


def _groupings(program: WindowProgram) -> list[GroupingAnswer]:
    """Return what is kept for each group-by, and how many queries that serves."""
    answers = []
    for number, grouping in enumerate(program.groupings):
        entries = [e for e in program.entries if e.grouping == number]
        if entries:
            answers.append(
                GroupingAnswer(
                    keys=list(grouping.keys),
                    axis=grouping.axis.value,
                    queries=len(entries),
                    predicates=len({e.predicate for e in entries}),
                    aggregates=sum(len(e.answers) for e in entries),
                    parts=len(grouping.parts),
                    names=[str(part) for part in grouping.parts[:MAX_NAMES]],
                )
            )
    return answers
