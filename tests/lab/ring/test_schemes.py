"""Every scheme gives the results of all combinations of rows, each once, however messages interleave."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given

from lab.ring.atr import Atr
from lab.ring.ctr import Ctr
from lab.ring.machine import Scheme
from lab.ring.multijoin import MultiJoin, Row, rows_of
from lab.ring.psp import Psp
from lab.ring.psp_d import PspD
from lab.ring.psp_i import PspI
from lab.ring.slicing import Slicing
from support.ring_cases import (
    COSTS,
    TESTS,
    cases,
    numbers,
    oracle,
    some_join,
    some_orders,
    some_rows,
    some_slicing,
)
from support.seeds import seeded_random
from weft.errors import QueryError

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
    running, rows = started(scheme, seeded_random(case))
    account = running.run(rows)
    assert numbers(account) == oracle(running.join, rows)
    assert sorted(account.finished) == [row.number for row in rows]
    assert account.operations["insert"] - account.operations["purge"] == sum(n.rows for n in running.nodes)


@pytest.mark.parametrize("scheme", RINGS)
@given(case=cases)
def test_nodes_that_come_and_go_change_no_result(scheme: type[Psp], case: int) -> None:
    """The ring is sliced anew, passively or aggressively, over and over, with other join orders too."""
    chosen = seeded_random(case)
    ring, rows = started(scheme, chosen)
    streams = len(ring.join.windows)
    for row in chosen.sample(rows, len(rows) // 4):
        slicing, aggressive = some_slicing(chosen, streams), chosen.random() < 0.5
        join = ring.join.ordered(some_orders(chosen, streams))
        change = partial(ring.resize, slicing, aggressive=aggressive, join=join)
        ring.at(row.time + chosen.choice([0, 0.1, 1]), change)
    assert numbers(ring.run(rows)) == oracle(ring.join, rows)


@pytest.mark.parametrize("scheme", RINGS)
@given(case=cases)
def test_ends_end_every_cycle(scheme: type[Psp], case: int) -> None:
    """Theorem 7: M-1 END marks for each row, and every intermediate result goes round the ring once."""
    ring, rows = started(scheme, seeded_random(case))
    account = ring.run(rows)
    assert account.ends == (len(ring.join.windows) - 1) * len(rows)
    assert account.messages["row"] == (len(ring.nodes) - 1) * len(rows)
    if len(ring.nodes) > 1:
        assert (account.messages["intermediate"] + account.messages["end"]) % len(ring.nodes) == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_run_can_be_repeated(scheme: type[Scheme]) -> None:
    for case in range(5):
        one, other = (started(scheme, seeded_random(case)) for _ in range(2))
        assert one[0].run(one[1]) == other[0].run(other[1])


def test_dynamic_rows_are_stored_and_dropped_once() -> None:
    """Rows of PSP move from node to node; those of PSP-D stay where they are."""
    rows = rows_of((n % 3, n / 4, n % 5) for n in range(120))
    join = MultiJoin((10, 6, 20), {(0, 1): TESTS["less"], (1, 2): TESTS["near"]})
    moving, staying = Psp(join, 4, COSTS), PspD(join, 4, COSTS, limit=5, seed=1)
    for ring in (moving, staying):
        assert numbers(ring.run(rows)) == oracle(join, rows)
    assert staying.account.operations["insert"] == len(rows)
    assert staying.account.messages["state"] == 0
    assert moving.account.operations["insert"] > 2 * len(rows)
    assert moving.account.operations["insert"] == len(rows) + moving.account.messages["state"]


def test_rows_stored_twice_are_an_error() -> None:
    ring = Psp(MultiJoin((5, 5)), 2)
    (row,) = rows_of([(0, 1, "a")])
    ring.store(ring.nodes[0], row)
    with pytest.raises(AssertionError, match="stored twice"):
        ring.store(ring.nodes[1], row)


def test_interleaving_stores_some_rows_twice_and_keeps_nodes_busy() -> None:
    """Figure 16.3: more state, and what a row waits for is no longer the whole cycle of those before it."""
    rows = rows_of((n % 3, n / 4, n % 5) for n in range(240))
    join = MultiJoin((10, 10, 10), {(0, 1): TESTS["near"], (1, 2): TESTS["near"]})
    alone, together = Psp(join, 5, COSTS), PspI(join, 5, COSTS, limit=8)
    for ring in (alone, together):
        ring.run(rows)
    assert together.account.state()[1] > alone.account.state()[1]
    assert together.account.latency() < alone.account.latency() / 2


def test_a_change_is_made_although_rows_never_stop() -> None:
    rows = rows_of((n % 2, n / 100, n % 3) for n in range(400))
    ring = PspI(MultiJoin((1, 1), {(0, 1): TESTS["equal"]}), 2, COSTS, limit=4)
    ring.at(1.0, lambda: ring.resize(4))
    ring.at(10.0, lambda: seen.append(len(ring.nodes)))
    seen: list[int] = []
    assert numbers(ring.run(rows)) == oracle(ring.join, rows)
    assert seen == [4]
    assert min(ring.account.began[n] for n in range(350, 400)) > 10  # rows were waiting all the time


@pytest.mark.parametrize("scheme", RINGS)
def test_nodes_without_a_slice_go_when_they_are_empty(scheme: type[Psp]) -> None:
    rows = rows_of((n % 2, n, n) for n in range(60))
    ring = scheme(MultiJoin((12, 12), {(0, 1): TESTS["less"]}), 4, COSTS)
    ring.at(30.5, lambda: ring.resize(2))
    seen: list[int] = []
    for time in (31.9, 59):
        ring.at(time, lambda: seen.append(len(ring.nodes)))
    assert numbers(ring.run(rows)) == oracle(ring.join, rows)
    assert seen == [4, 2]
    assert ring.account.messages["moved"] == 0


def test_wrong_input_says_what_is_wrong() -> None:
    with pytest.raises(QueryError, match="row 1 has time 1; rows are taken in order of time"):
        rows_of([(0, 2, None), (0, 1, None)])
    with pytest.raises(QueryError, match="row 0 has time nan"):
        rows_of([(0, float("nan"), None)])
    with pytest.raises(QueryError, match="does not have"):
        Psp(MultiJoin((1, 1)), 1).run(rows_of([(2, 0, None)]))
    with pytest.raises(QueryError, match="each with a window"):
        MultiJoin((1, 0))
    with pytest.raises(QueryError, match="every other stream once"):
        MultiJoin((1, 1, 1), orders=((1, 2), (0, 2), (0, 0)))
    with pytest.raises(QueryError, match="the lower first"):
        MultiJoin((1, 1), {(1, 0): TESTS["less"]})
    with pytest.raises(QueryError, match="0 nodes; give one or more"):
        Atr(MultiJoin((1, 1)), 0)
    with pytest.raises(QueryError, match="0 copies"):
        Ctr(MultiJoin((1, 1)), 2, copies=0)
    with pytest.raises(QueryError, match="0 rows in work"):
        PspI(MultiJoin((1, 1)), 2, limit=0)
    with pytest.raises(QueryError, match="add up to 1"):
        Slicing(((0.5, 0.4),))
    with pytest.raises(QueryError, match="for each node"):
        Slicing(((0.5, 0.5), (1.0,)))
    with pytest.raises(QueryError, match="each node but the last"):
        Slicing(((0.5, 0.5),), ((1, 2),))
