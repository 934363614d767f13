"""Layers of joins in Parquet files: the rows that each step brought, and the results that have to wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from weft.errors import CheckpointError
from weft.operators.joins.fitting import fitted
from weft.operators.joins.lineage import JoinCarryOver, JoinLayout
from weft.operators.joins.packing import unpack_rows
from weft.operators.joins.sliced import Sliced
from weft.operators.joins.state import PARTS_PER_CHAIN, WAITING_PART, Fresh, Joins, JoinState, Marks
from weft.operators.joins.waiting import unpack_waiting
from weft.store.layers import MAX_LAYERS, layers_to_merge, read_file, write_file
from weft.store.manifest import Layer
from weft.store.versions import read_version


def catch_up(state: JoinState, place: str, layers: Iterable[Layer], marks: Marks) -> None:
    """Bring a state up to date with layers that it has not absorbed yet, and the watermarks after them."""
    state.restore(read_layers(place, layers, state.joins, state.chains), marks)


def add_layer(
    place: str,
    layers: Sequence[Layer],
    fresh: Fresh,
    bucket: int,
    step: tuple[int, str],
    now: int | None,
    joins: Joins,
) -> tuple[Layer, ...]:
    """Return the bucket's layers after a step (its seq and token); ``now`` is the least of all watermarks."""
    seq, token = step
    live = [layer for layer in layers if now is None or layer.needed_until > now]
    first = seq
    if len(live) >= MAX_LAYERS and (taken := layers_to_merge(live, len(fresh))):
        merged, live = live[-taken:], live[:-taken]
        first = merged[0].first
        old = read_layers(place, merged, joins, fresh.chains)
        for number in range(len(fresh.chains)):
            fresh.add(number, old.rows[number], old.waiting[number])
    files, untils = [], []
    for part, until, batch in fresh.parts():
        newest = int(batch.column("_time").to_numpy().max())
        files.append(write_file(place, batch, (seq, bucket, part, token), newest))
        untils.append(until)
    if not files:
        return tuple(live)
    return (*live, Layer(first, seq, max(untils), tuple(files), joins.version))


def read_layers(place: str, layers: Iterable[Layer], joins: Joins, chains: Sequence[Sliced[Any]]) -> Fresh:
    """Read the rows and results that layers hold; CheckpointError where a file is missing or damaged."""
    contents = Fresh(chains)
    carry_overs: dict[int, JoinCarryOver] = {}
    for layer in layers:
        if layer.version not in carry_overs:
            layout = joins.layout if layer.version == joins.version else read_layout(place, layer.version)
            carry_overs[layer.version] = JoinCarryOver(layout, joins.layout, joins.lineages)
        carry_over = carry_overs[layer.version]
        for file in layer.files:
            number, part = divmod(file.grouping, PARTS_PER_CHAIN)
            to, bits = carry_over.numbers[number], carry_over.carry_overs[number]
            if to is None or bits is None:
                continue
            chain, batch = chains[to], read_file(place, file)
            if part < WAITING_PART:
                rows = unpack_rows(batch, chain.signatures[part], chain.program.schemas[part], bits)
                contents.add(to, [(part, fitted(part, rows, chain))], [])
            else:
                contents.add(to, [], [unpack_waiting(batch, chain, bits)])
    return contents


def read_layout(place: str, version: int) -> JoinLayout:
    """Read the layout of state that was written under a version."""
    joins = read_version(place, version).joins
    if joins is None:
        raise CheckpointError(f"version {version} of checkpoint '{place}' is not of joins")
    return JoinLayout.from_data(joins["layout"])
