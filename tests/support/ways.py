"""The ways in which rows can become partials, each forced whatever it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from weft.operators.windows import prepare as engine
from weft.operators.windows.program import Axis, WindowProgram
from weft.operators.windows.shards import Shards, SignedRows
from weft.operators.windows.sharing import SharingChoice, places_of
from weft.operators.windows.spread import Places

WAYS = ("shared", "spread", "unshared", "together")


@contextmanager
def forced(way: str) -> Iterator[None]:
    """Everything is shared, spread or unshared, or all group-bys are made of one, whatever it costs."""

    def choose_unshared(
        program: WindowProgram, number: int, rows: SignedRows, groups: Callable[[], np.ndarray]
    ) -> list[tuple[Places, list[int], SharingChoice]]:
        if way != "unshared":
            return []
        choices = []
        for family in map(list, program.families[number]):
            matching = rows.of(family).at >= 0
            places = places_of(program, number, family, rows.of(family), groups()[matching])
            assert places is not None
            keys = program.groupings[number].keys
            choices.append((places, family, SharingChoice(keys, way, len(family), 0, 0, 0, 0, 0)))
        return choices

    def choose_united_keys(program: WindowProgram, rows: SignedRows) -> list[list[int]]:
        timed = [n for n, grouping in enumerate(program.groupings) if grouping.axis is Axis.TIME]
        return [timed] if way == "together" else [[n] for n in timed]

    def worth_spreading(
        program: WindowProgram, number: int, predicates: Sequence[int], shards: Shards
    ) -> Places | None:
        if way != "spread" or not len(shards):
            return None
        return places_of(program, number, predicates, shards, shards.group)

    with (
        patch.object(engine, "choose_unshared", choose_unshared),
        patch.object(engine, "choose_united_keys", choose_united_keys),
        patch.object(engine, "worth_spreading", worth_spreading),
    ):
        yield
