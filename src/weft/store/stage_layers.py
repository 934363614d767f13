"""Layers of a stage's state in Parquet files: a bucket's state is what its layers hold together.

Each step adds a layer with what is new and still needed. A layer that nobody needs is dropped whole. When
layers get many, the newest are merged into one, as far back as that at most trebles the work of writing (the
logarithmic method: O'Neil et al., "The log-structured merge-tree", 1996). What tables mean, only the stage
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from weft.operators.contract import Failed, Kept, Marks, Note, Stage, State
from weft.store.log import StateLayer
from weft.store.state_files import file_word, read_state_file, write_state_file
from weft.store.version_file import read_layout

MAX_LAYERS = 16

LayoutOf: TypeAlias = Callable[[int], Note]
"""The layout of one stage's state under a version."""


class Attempt(NamedTuple):
    """One attempt to make a step, by which files are named; no two have the same token."""

    seq: int
    token: str


def layouts_at(place: str, stage: str) -> LayoutOf:
    """Return what reads the layouts of a stage from a checkpoint, each once."""
    layouts: dict[int, Note] = {}

    def layout_of(version: int) -> Note:
        if version not in layouts:
            layouts[version] = read_layout(place, version, stage)
        return layouts[version]

    return layout_of


def load(
    place: str,
    stage: Stage,
    bucket: int,
    buckets: int,
    layers: Iterable[StateLayer],
    marks: Marks,
    layout_of: LayoutOf | None = None,
) -> State:
    """Return the state that a bucket's layers hold, answered up to the marks.

    ``layout_of`` is for a caller who has layouts at hand; else they are read from the checkpoint.
    """
    state = stage.state(bucket, buckets)
    catch_up(place, state, layers, marks, layout_of)
    return state


def catch_up(
    place: str,
    state: State,
    layers: Iterable[StateLayer],
    marks: Marks,
    layout_of: LayoutOf | None = None,
) -> None:
    """Bring a state up to date with layers that it has not absorbed yet, and to the marks after them."""
    layout_of = layout_of or layouts_at(place, state.stage.name)
    for layer in layers:
        state.absorb(read_layer(place, layer, state.stage, layout_of))
    state.advance(marks)


def add_layer(
    place: str,
    stage: Stage,
    state: State,
    fresh: Sequence[Kept],
    layers: Sequence[StateLayer],
    attempt: Attempt,
    marks: Marks,
    failed: Failed | None = None,
) -> tuple[StateLayer, ...]:
    """Write what a step has brought, and return the bucket's layers after it, without dead ones.

    ``state`` is the bucket's state after the step; it saves reading where everything is merged. Queries that
    cannot be answered from what is merged are added to ``failed``, and nothing is written then.
    """
    layers = live(layers, marks)
    fresh, first = _needed(fresh, marks), attempt.seq
    if len(layers) >= MAX_LAYERS:
        taken = layers_to_merge(layers, sum(content.table.num_rows for content in fresh))
        merged, layers = layers[len(layers) - taken :], layers[: len(layers) - taken]
        first = merged[0].first
        if layers:
            layout_of = layouts_at(place, stage.name)
            old = [table for layer in merged for table in read_layer(place, layer, stage, layout_of)]
            fresh = _needed(stage.compact([*old, *fresh], marks, failed), marks)
            if failed:
                return layers
        else:
            fresh = state.snapshot()
    layer = write_layer(place, stage, state.bucket, fresh, attempt, first)
    return layers if layer is None else (*layers, layer)


def write_layer(
    place: str, stage: Stage, bucket: int, tables: Iterable[Kept], attempt: Attempt, first: int
) -> StateLayer | None:
    """Write a layer of what steps from ``first`` on have brought; None where that is nothing."""
    files = []
    for number, content in enumerate(table for table in tables if table.table.num_rows):
        # A stage may have several tables of one part: the number tells their files apart.
        words = [file_word(stage.name), file_word(content.part), f"{attempt.token}.{number}"]
        name = "-".join([f"{attempt.seq:010}", f"{bucket:04}", *words])
        files.append(write_state_file(place, f"{name}.parquet", content))
    return StateLayer(first, attempt.seq, tuple(files), stage.version) if files else None


def read_layer(place: str, layer: StateLayer, stage: Stage, layout_of: LayoutOf) -> list[Kept]:
    """Return the tables of a layer, translated; CheckpointError where a file is missing or damaged."""
    tables = []
    layout = None if layer.version == stage.version else layout_of(layer.version)
    for file in layer.files:
        table = read_state_file(place, file)
        translated = table if layout is None else stage.translate(layout, table)
        if translated is not None:
            tables.append(translated)
    return tables


def layers_for(
    stage: Stage, layers: Sequence[Sequence[StateLayer]], layout_of: LayoutOf
) -> tuple[tuple[StateLayer, ...], ...]:
    """Return the layers of all buckets, of any version, each file kept as long as a stage needs it."""

    def anew(layer: StateLayer) -> StateLayer:
        if layer.version == stage.version:
            return layer
        layout = layout_of(layer.version)
        files = tuple(
            replace(file, needed_until=stage.needed_until(layout, file.part, file.newest, file.needed_until))
            for file in layer.files
        )
        return replace(layer, files=files)

    return tuple(tuple(map(anew, bucket)) for bucket in layers)


def live(layers: Iterable[StateLayer], marks: Marks) -> tuple[StateLayer, ...]:
    """Return the layers that somebody needs after the marks."""
    now = least(marks)
    return tuple(layer for layer in layers if now is None or layer.needed_until > now)


def least(marks: Marks) -> int | None:
    """Return the least of a stage's marks, None where one of its streams had no row yet.

    >>> least({"a": 7, "b": 5}), least({"a": 7, "b": None}), least({})
    (5, None, None)
    """
    known = [mark for mark in marks.values() if mark is not None]
    return min(known) if known and len(known) == len(marks) else None


def layers_to_merge(layers: Sequence[StateLayer], rows: int) -> int:
    """Return the number of the newest layers to merge with so many new rows; at least one."""
    taken = 0
    for layer in reversed(layers):
        if taken and layer.rows > 2 * rows:
            break
        rows += layer.rows
        taken += 1
    return taken


def _needed(tables: Iterable[Kept], marks: Marks) -> list[Kept]:
    now = least(marks)
    return [table for table in tables if now is None or table.needed_until > now]
