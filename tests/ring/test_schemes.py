"""Every scheme gives the results of all combinations of rows, each once, however messages interleave."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from ring_cases import (
    COSTS,
    cases,
    numbers,
    oracle,
    some_join,
    some_orders,
    some_rows,
    some_slicing,
)

from weft.errors import QueryError
from weft.ring.atr import Atr
from weft.ring.ctr import Ctr
from weft.ring.machine import Costs, Scheme
from weft.ring.multijoin import MultiJoin, Row, rows_of
from weft.ring.psp import Psp
from weft.ring.psp_d import PspD
from weft.ring.psp_i import PspI
from weft.ring.slicing import Slicing, even

RINGS: list[type[Psp]] = [Psp, PspI, PspD]
SCHEMES: list[type[Scheme]] = [*RINGS, Atr, Ctr]


def started(scheme: type[Scheme], chosen: random.Random) -> tuple[Any, list[Row]]:
    """A scheme with settings of its own, and rows for it."""
    join = some_join(chosen)
    own: dict[str, Any] = {"seed": chosen.choice([None, chosen.randrange(1000)])}
    nodes: int | Slicing = chosen.randint(1, 5)
    if scheme in RINGS:
        nodes = some_slicing(chosen, len(join.windows))
        if scheme is not Psp:
            own["limit"] = chosen.randint(1, 6)
    else:
        own["segment"] = chosen.choice([0.5, 2, 5, 30])
        if scheme is Atr:
            own |= {"master": chosen.randrange(len(join.windows)), "keep": chosen.random() < 0.5}
        else:
            own["copies"] = chosen.randint(1, 4)
    return scheme(join, nodes, COSTS, **own), some_rows(chosen, join)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(case=cases)
def test_results_are_those_of_all_combinations(scheme: type[Scheme], case: int) -> None:
    """Also, every row's cycle ends, and every row stored was inserted and not yet purged."""
    running, rows = started(scheme, random.Random(case))
    account = running.run(rows)
    assert numbers(account) == oracle(running.join, rows)
    assert sorted(account.finished) == [row.number for row in rows]
    assert account.operations["insert"] - account.operations["purge"] == sum(n.rows for n in running.nodes)


@pytest.mark.parametrize("scheme", RINGS)
@given(case=cases)
def test_nodes_that_come_and_go_change_no_result(scheme: type[Psp], case: int) -> None:
    """The ring is sliced anew, passively or aggressively, over and over, with other join orders too."""
    chosen = random.Random(case)
    ring, rows = started(scheme, chosen)
    streams = len(ring.join.windows)
    for row in chosen.sample(rows, len(rows) // 4):
        slicing, aggressive = some_slicing(chosen, streams), chosen.random() < 0.5
        join = ring.join.ordered(some_orders(chosen, streams))
        change = partial(ring.resize, slicing, aggressive=aggressive, join=join)
        ring.at(row.time + chosen.choice([0, 0.1, 1]), change)
    assert numbers(ring.run(rows)) == oracle(ring.join, rows)
