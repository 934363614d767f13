"""Every result against a recomputation from all rows: nothing lost, nothing twice, nothing wrong.

What there had to be is known from the manifests and the versions of queries, kept as they were published: a
query's life is a run of steps with the same query, and answers every window from its first exact one to the
watermark of its last step. The answers are made anew by copying each row into each window that holds it.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.model.expression import Call, Column, Literal
from weft.model.query import Query
from weft.operators.windows.program import Origin
from weft.operators.windows.stage import WindowsStage
from weft.runner.program import UNNAMED, windows_name
from weft.store.log import Entry
from weft.store.version_file import QueryVersion

STAGE = windows_name(UNNAMED)
"""All queries of a soak are of one stage."""

FUNCTIONS = {"sum": "sum", "max": "max", "min": "min", "avg": "mean"}
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Life:
    """A query from its first step to its last: windows from ``since`` up to ``watermark`` were due."""

    query: Query
    since: int
    joined: int
    first: int
    last: int
    watermark: int | None


@dataclass
class Verdict:
    """The result of a check: how much was checked, and everything that is wrong."""

    steps: int = 0
    rows: int = 0
    lives: int = 0
    results: int = 0
    promises: int = 0
    wrong: list[str] = field(default_factory=list)


def check(place: Path) -> Verdict:
    """Check all that a soak has left: ``in``, ``out``, ``kept`` and ``changes.jsonl``."""
    manifests, versions = read_checkpoint(place / "kept")
    rows = pa.concat_tables(pq.read_table(f) for f in sorted((place / "in").glob("*.parquet"))).sort_by("ts")
    verdict = Verdict(steps=len(manifests), rows=rows.num_rows)
    verdict.wrong += _counts(manifests, rows.num_rows)
    delivered = read_delivered(place / "out")
    for life in lives(manifests, versions):
        files = delivered.get(life.query.name, {})
        tables = [files.pop(seq) for seq in sorted(files) if life.first <= seq <= life.last]
        delivered_rows = Counter(row for table in tables for row in rows_of(table, life.query))
        due_rows = Counter(rows_of(answers(life, rows), life.query))
        verdict.lives += 1
        verdict.results += sum(delivered_rows.values())
        verdict.wrong += [
            f"{_of(life)}: {text}" for text in differences(delivered_rows, due_rows, life.query)
        ]
    verdict.wrong += [f"results of no query: {n}, step {s}" for n, files in delivered.items() for s in files]
    for promise in _lines(place / "changes.jsonl"):
        verdict.promises += 1
        verdict.wrong += _kept_promise(promise, versions)
    return verdict


def read_checkpoint(folder: Path) -> tuple[list[Entry], dict[int, QueryVersion]]:
    """All manifests in order, and the versions that they name."""
    files = sorted(folder.glob("manifests-*.json"))
    manifests = [Entry.from_json(file.read_bytes()) for file in files if is_step(file)]
    versions = [QueryVersion.from_json(f.read_bytes()) for f in sorted(folder.glob("registry-*.json"))]
    if [m.seq for m in manifests] != list(range(1, len(manifests) + 1)):
        raise ValueError("some manifests were not kept; the soak cannot be checked")
    return manifests, {v.version: v for v in versions}


@cache
def is_step(manifest: Path) -> bool:
    """Return whether an entry is a step, and not the turn that a driver has taken."""
    return Entry.from_json(manifest.read_bytes()).is_step


def lives(manifests: Iterable[Entry], versions: Mapping[int, QueryVersion]) -> Iterator[Life]:
    """Yield every query's steps, from when it was added until it was dropped."""
    alive: dict[str, Life] = {}
    for manifest in manifests:
        version, now = versions[manifest.version], {}
        origins, watermark = origins_of(version), manifest.stages[STAGE].marks[UNNAMED]
        for query in version.queries:
            origin, before = origins[query.name], alive.pop(query.name, None)
            same = before and (before.query, before.since, before.joined) == (query, *_times(origin))
            if before and not same:
                yield before
            if not (before and same):
                before = Life(query, origin.since, origin.latest_when_added, manifest.seq, manifest.seq, None)
            now[query.name] = replace(before, last=manifest.seq, watermark=watermark)
        yield from alive.values()
        alive = now
    yield from alive.values()


def origins_of(version: QueryVersion) -> dict[str, Origin]:
    """Return how each query of a version came."""
    return WindowsStage.origins(version.stages[STAGE].data) if STAGE in version.stages else {}


def answers(life: Life, rows: pa.Table) -> pa.Table:
    """Compute the answers of a life from all rows: each copied into each window that holds it."""
    query, window = life.query, life.query.window
    until = life.watermark if life.watermark is not None else -(1 << 62)
    times = rows.column("ts").cast(pa.int64()).to_numpy()
    span = np.searchsorted(times, [max(life.since, -(1 << 62)), until])
    rows, times = rows.slice(span[0], span[1] - span[0]), times[span[0] : span[1]]
    held = _satisfied(query, rows)
    copies = []
    for age in range(-(-window.range // window.slide)):
        start = (times - window.offset) // window.slide * window.slide + window.offset - age * window.slide
        inside = held & (start + window.range > times) & (start >= life.since)
        inside &= start + window.range <= until
        copy = rows.append_column("start", pa.array(start)).filter(pa.array(inside))
        copies.append(copy)
    grouped = pa.concat_tables(copies).group_by([*query.group_by, "start"], use_threads=False)
    aggregates = [
        ("start", "count") if not a.args else (a.args[0].name, FUNCTIONS[a.function])
        for a in query.aggregates
    ]
    totals = grouped.aggregate(aggregates)
    start = totals.column("start")
    moment = [x.cast(pa.timestamp("us", "UTC")) for x in (start, pc.add(start, window.range))]
    values = [totals.column(f"{column}_{function}") for column, function in aggregates]
    keys = [totals.column(k) for k in query.group_by]
    return pa.table([*keys, *moment, *values], names=list(query.result_columns))


def _satisfied(query: Query, rows: pa.Table) -> np.ndarray:
    match query.predicate:
        case None:
            return np.ones(rows.num_rows, dtype=np.bool_)
        case Call(">", (Column(name), Literal(value))):
            return rows.column(name).to_numpy() > value
    raise ValueError(f"'{query.predicate}' is not a question of the soak")


def read_delivered(out: Path) -> dict[str, dict[int, pa.Table]]:
    """The sink's files by query and step."""
    tables: dict[str, dict[int, pa.Table]] = {}
    for file in out.glob("*/*-*.parquet"):
        seq = int(file.stem.rpartition("-")[2])
        tables.setdefault(file.parent.name, {})[seq] = pq.read_table(file, partitioning=None)
    return tables


def rows_of(table: pa.Table, query: Query) -> list[Row]:
    """Rows as tuples."""
    return list(zip(*(table.column(name).to_pylist() for name in query.result_columns)))


def differences(delivered: Counter[Row], expected: Counter[Row], query: Query) -> list[str]:
    """Return what is lost, twice or wrong; floats may differ in their last digits."""
    width = len(query.group_by) + 2
    texts = [f"delivered {n} times: {row}" for row, n in delivered.items() if n > 1]
    due, got = ({row[:width]: row[width:] for row in rows} for rows in (expected, delivered))
    texts += [f"lost: {key}" for key in due.keys() - got.keys()]
    texts += [f"not due: {key}" for key in got.keys() - due.keys()]
    for key in due.keys() & got.keys():
        if not all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(due[key], got[key])):
            texts.append(f"wrong: {key} is {got[key]}, not {due[key]}")
    return texts


def _counts(manifests: list[Entry], rows: int) -> list[str]:
    seen = manifests[-1].streams[UNNAMED].seen
    texts = [] if seen["rows"] == rows else [f"{seen['rows']} rows were read, {rows} were written"]
    return texts + ([f"{seen['late']} rows were late"] if seen["late"] else [])


def _kept_promise(promise: Mapping[str, Any], versions: Mapping[int, QueryVersion]) -> list[str]:
    """Check that a change that was reported as done is in the version it names."""
    name, version = promise["name"], versions.get(promise["version"])
    if version is None:
        return [f"version {promise['version']}, promised for '{name}', was never written"]
    origin = origins_of(version).get(name)
    if promise["exact_from"] is not None and (origin is None or origin.since != promise["exact_from"]):
        return [f"'{name}' was promised to be exact from {promise['exact_from']}, and is {origin}"]
    return []


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a log; a kill may have cut one short."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _times(origin: Any) -> tuple[int, int]:
    return origin.since, origin.latest_when_added


def _of(life: Life) -> str:
    return f"'{life.query.name}' (steps {life.first} to {life.last})"
