"""The ways in which rows can become partials, each forced whatever it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from weft.engine import partial as engine
from weft.engine.program import Axis, Program
from weft.engine.shards import Shards, Signed
from weft.engine.sharing import Choice, places_of
from weft.engine.spread import Places

WAYS = ("shared", "spread", "unshared", "together")


@contextmanager
def forced(way: str) -> Iterator[None]:
    """Everything is shared, spread or unshared, or all group-bys are made of one, whatever it costs."""

    def alone(
        program: Program, number: int, rows: Signed, groups: Callable[[], np.ndarray]
    ) -> list[tuple[Places, list[int], Choice]]:
        if way != "unshared":
            return []
        found = []
        for family in map(list, program.families[number]):
            kept = rows.of(family).at >= 0
            places = places_of(program, number, family, rows.of(family), groups()[kept])
            assert places is not None
            keys = program.groupings[number].keys
            found.append((places, family, Choice(keys, way, len(family), 0, 0, 0, 0, 0)))
        return found

    def together(program: Program, rows: Signed) -> list[list[int]]:
        timed = [n for n, grouping in enumerate(program.groupings) if grouping.axis is Axis.TIME]
        return [timed] if way == "together" else [[n] for n in timed]

    def worth_spreading(
        program: Program, number: int, predicates: Sequence[int], shards: Shards
    ) -> Places | None:
        if way != "spread" or not len(shards):
            return None
        return places_of(program, number, predicates, shards, shards.group)

    with (
        patch.object(engine, "alone", alone),
        patch.object(engine, "together", together),
        patch.object(engine, "worth_spreading", worth_spreading),
    ):
        yield
