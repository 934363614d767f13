"""Counters around the product's seams: what goes through a function is counted, whoever calls it.

Functions are wrapped from outside, in this process and, by ``counted_daemon``, in Spark's Python workers.
Every call appends a line to one log file, so that threads and processes need no other meeting place.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LOG = "WEFT_COUNTED_LOG"
"""The environment variable that names the log file."""

Counts = Mapping[str, int]


def prepared(partials: Any, *_: Any, **__: Any) -> Counts:
    """Rows in, partial cells out, and what was shared on the way."""
    tables = [piece.table for piece in partials.pieces]
    counts = Counter(
        {
            "prepare.calls": 1,
            "prepare.rows": partials.seen.rows,
            "prepare.late": partials.seen.late,
            "prepare.pieces": len(tables),
            "prepare.cells": sum(table.num_rows for table in tables),
            "prepare.bytes": sum(table.nbytes for table in tables),
        }
    )
    for choice in partials.choices:
        counts[f"prepare.{choice.how}.pairs"] += choice.pairs
        counts[f"prepare.{choice.how}.shards"] += choice.shards
        counts[f"prepare.{choice.how}.partials"] += choice.partials
    return counts


def rows_added(_: None, monoid: Any, states: Any, cell: np.ndarray, values: Any, valid: np.ndarray) -> Counts:
    """A combine for every row that has a cell and a value."""
    added = (cell >= 0) & valid if valid.size else cell >= 0
    return {"combine.rows": int(np.count_nonzero(added))}


def states_merged(_: None, monoid: Any, into: Any, target: np.ndarray, *rest: Any) -> Counts:
    """A combine for every state that is merged into another."""
    return {"combine.states": len(target)}


def absorbed(_: None, state: Any, table: Any) -> Counts:
    """Partial cells taken into a state."""
    return {"absorb.calls": 1, "absorb.cells": table.num_rows}


def answered(stepped: tuple[Any, Mapping[str, Any]], *_: Any, **__: Any) -> Counts:
    """Answers, and the cells still held after them."""
    state, results = stepped
    return {
        "answer.calls": 1,
        "answer.tables": len(results),
        "answer.rows": sum(table.num_rows for table in results.values()),
        "held.cells": state.rows,
        "held.bytes": state.bytes,
    }


def runs_combined(_: Any, technique: Any, low: np.ndarray, high: np.ndarray) -> Counts:
    """Count the input of a technique: cells, windows, and the cells of all windows together."""
    return {
        f"technique.{technique.name}.calls": 1,
        f"technique.{technique.name}.cells": technique.words.size // technique.monoid.width,
        f"technique.{technique.name}.windows": len(low),
        f"technique.{technique.name}.elements": int((high - low).sum()),
    }


def grid_combined(
    _: None, monoid: Any, states: Any, bounds: Any, at: Any, slices: int, windows: Any, *rest: Any
) -> Counts:
    """Count the input of the grid: as for a technique, for all groups at once."""
    begins, ends, _rows = windows
    groups = len(bounds) - 1
    return {
        "technique.grid.calls": 1,
        "technique.grid.cells": len(states),
        "technique.grid.slices": slices,
        "technique.grid.windows": groups * len(begins),
        "technique.grid.elements": groups * int((ends - begins).sum()),
    }


def parcels_sent(_: Any, waiting: Sequence[tuple[Any, Any]]) -> Counts:
    """Tables and notes on their way between tasks, and the tables' bytes as they travel."""
    from weft.runner.parcels import NOTES, ParcelKind

    tables = [(parcel, payload) for parcel, payload in waiting if parcel.kind not in NOTES]
    # A large table is sent in several payloads.
    contents = {id(parcel): parcel for parcel, _ in tables}.values()
    rows = [len(p.content.content if p.kind is ParcelKind.PIECE else p.content) for p in contents]
    return {
        "parcel.tables": len(tables),
        "parcel.rows": sum(rows),
        "parcel.table_bytes": sum(payload.size for _, payload in tables),
        "parcel.notes": len(waiting) - len(tables),
    }


def file_written(_: Any, place: Any, name: str, content: Any) -> Counts:
    """Files of a checkpoint."""
    return {"checkpoint.files": 1, "checkpoint.rows": content.table.num_rows}


def file_read(content: Any, *_: Any) -> Counts:
    """Files of a checkpoint that are read again."""
    return {"checkpoint.files_read": 1, "checkpoint.rows_read": content.table.num_rows}


def join_rows_ready(rows: Any, chain: Any, side: int, batch: Any) -> Counts:
    """Rows of one side, and those of them that can join anything."""
    arrived = 0 if batch is None else batch.times.size
    return {"join.rows": arrived, "join.rows_ready": 0 if rows is None else len(rows)}


def join_rows_inserted(_: None, slices: Any, rows: Any) -> Counts:
    """Rows kept to be joined with later ones."""
    return {"join.inserted": len(rows)}


def join_candidates(blocks: Iterable[Any], new: Any, probing: np.ndarray, stored: Any, *_: Any) -> Counts:
    """Pairs of new rows and kept ones, and those of them near enough in time and value to be tested."""
    return {
        "join.probes": 1,
        "join.pairs": int(probing.sum()) * len(stored),
        "join.candidates": sum(len(block.new) for block in blocks),
    }


def join_matches(_: None, union: Any, matches: Any) -> Counts:
    """Pairs that join, for at least one query."""
    return {"join.matches": matches.times.size}


def join_results(results: Mapping[str, Any], chain: Any, *_: Any) -> Counts:
    """Results of all queries, and the rows still held after them."""
    return {
        "join.steps": 1,
        "join.results": sum(table.num_rows for table in results.values()),
        "join.held": chain.state_rows,
    }


class Hook(NamedTuple):
    """A function, or ``Class.method``, and what is counted of each call, given its result and arguments."""

    module: str
    attribute: str
    count: Callable[..., Counts]


HOOKS = (
    Hook("weft.operators.windows.prepare", "partials_of", prepared),
    Hook("weft.aggregates.monoid", "add_rows", rows_added),
    Hook("weft.aggregates.monoid", "merge", states_merged),
    Hook("weft.operators.windows.state", "GroupingState.absorb", absorbed),
    Hook("weft.operators.windows.answer", "final", answered),
    Hook("weft.final.technique", "Technique.answer", runs_combined),
    Hook("weft.final.grid", "answer_grid", grid_combined),
    Hook("weft.spark.parcels", "_batch", parcels_sent),
    Hook("weft.store.state_files", "write_state_file", file_written),
    Hook("weft.store.state_files", "read_state_file", file_read),
    Hook("weft.operators.joins.intake", "RowIntake.rows", join_rows_ready),
    Hook("weft.operators.joins.slices", "Slices.insert", join_rows_inserted),
    Hook("weft.operators.joins.match", "candidates", join_candidates),
    Hook("weft.operators.joins.union", "Union.add", join_matches),
    Hook("weft.operators.joins.chain", "Chain.join", join_results),
)

USERS = ("weft.local.run_queries", "weft.spark.step_tasks", "weft.spark.stream", "weft.spark.batch")
"""Modules to have imported before the functions are replaced wherever they were imported by name."""


def install() -> None:
    """Wrap every hook's function; exit where one is not there."""
    log = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for user in USERS:
        import_module(user)
    for hook in HOOKS:
        try:
            owner: Any = import_module(hook.module)
            *path, name = hook.attribute.split(".")
            for step in path:
                owner = getattr(owner, step)
            original = vars(owner)[name]
        except (ImportError, AttributeError, KeyError):
            sys.exit(f"nothing to count: {hook.module} has no {hook.attribute}; mend HOOKS in {__file__}")
        wrapper = _counting(original, hook.count, log)
        setattr(owner, name, wrapper)
        if not path:
            _replace_imports(original, wrapper)


def _counting(original: Callable[..., Any], count: Callable[..., Counts], log: int) -> Callable[..., Any]:
    @wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        lazy = inspect.isgenerator(result)
        if lazy:
            result = list(result)
        os.write(log, (json.dumps(count(result, *args, **kwargs)) + "\n").encode())
        return iter(result) if lazy else result

    return wrapper


def _replace_imports(original: object, wrapper: object) -> None:
    """Replace a function in the modules that have imported it by name."""
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, wrapper)


def take() -> Counter[str]:
    """Return the counts since the last time."""
    log, counts = Path(os.environ[LOG]), Counter[str]()
    for line in log.read_text().splitlines():
        counts.update(json.loads(line))
    os.truncate(log, 0)
    return counts
