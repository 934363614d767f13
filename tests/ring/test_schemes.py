"""Every scheme gives the results of all combinations of rows, each once, however messages interleave."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ring_cases import COSTS, TESTS, joins, numbers, oracle, rows_for, slicings

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
seeds = st.none() | st.integers(0, 1000)


@st.composite
def runs(draw: st.DrawFn, scheme: type[Scheme]) -> tuple[Scheme, list[Row]]:
    """A scheme with settings of its own, and rows for it."""
    join = draw(joins())
    own: dict[str, Any] = {"seed": draw(seeds)}
    nodes: int | Slicing = draw(st.integers(1, 5))
    if scheme in RINGS:
        nodes = draw(slicings(len(join.windows)))
        if scheme is not Psp:
            own["limit"] = draw(st.integers(1, 6))
    elif scheme is Atr:
        own["master"] = draw(st.integers(0, len(join.windows) - 1))
        own["segment"] = draw(st.sampled_from([0.5, 2, 5, 30]))
        own["keep"] = draw(st.booleans())
    else:
        own["copies"] = draw(st.integers(1, 5))
        own["segment"] = draw(st.sampled_from([0.5, 2, 5, 30]))
    return scheme(join, nodes, COSTS, **own), draw(rows_for(join))


@pytest.mark.parametrize("scheme", [*RINGS, Atr, Ctr])
@given(data=st.data())
def test_results_are_those_of_all_combinations(scheme: type[Scheme], data: st.DataObject) -> None:
    """Also: every row's cycle ends, and what is stored in the end is in some window."""
    running, rows = data.draw(runs(scheme))
    account = running.run(rows)
    assert numbers(account) == oracle(running.join, rows)
    assert sorted(account.finished) == [row.number for row in rows]
    assert account.operations["insert"] - account.operations["purge"] == sum(n.rows for n in running.nodes)


@pytest.mark.parametrize("scheme", RINGS)
@given(data=st.data())
def test_nodes_that_come_and_go_change_no_result(scheme: type[Psp], data: st.DataObject) -> None:
    """The ring is sliced anew, passively or aggressively, over and over, with other join orders too."""
    ring, rows = data.draw(runs(scheme))
    streams = range(len(ring.join.windows))
    for row in rows:
        if data.draw(st.integers(0, 3)) == 0:
            slicing, aggressive = data.draw(slicings(len(streams))), data.draw(st.booleans())
            orders = [data.draw(st.permutations([o for o in streams if o != s])) for s in streams]
            ring.at(
                row.time + data.draw(st.sampled_from([0, 0.1, 1])),
                lambda s=slicing, a=aggressive, o=orders: ring.resize(s, aggressive=a, join=ring.join.ordered(o)),
            )
    assert numbers(ring.run(rows)) == oracle(ring.join, rows)
