"""Chapters 12, 14 and 15 by example: what moves where when rows pass, and when nodes come and go."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ring.adapt import Adapter
from lab.ring.atr import Atr
from lab.ring.ctr import Ctr
from lab.ring.machine import Costs, Node
from lab.ring.multijoin import MultiJoin, Row, rows_of
from lab.ring.psp import Psp
from lab.ring.psp_d import PspD
from lab.ring.psp_i import PspI
from lab.ring.relocation import changed, inserted_after, shift
from support.ring_cases import COSTS, TESTS, numbers, oracle


def values(node: Node, stream: int) -> list[object]:
    return [kept.row.value for kept in node.state[stream]]


def test_purged_rows_move_ahead_of_the_row_that_purged_them() -> None:
    """Section 12.2.1: a row at time t purges the two oldest rows of a slice into the next."""
    ring = Psp(MultiJoin((8, 8)), 2)
    ring.run(rows_of([(0, 1, "a1"), (0, 2, "a2"), (0, 4, "a3"), (0, 5, "a4"), (1, 6, "b")]))
    assert values(ring.nodes[0], 0) == ["a3", "a4"]
    assert values(ring.nodes[1], 0) == ["a1", "a2"]


def test_the_way_of_a_result_round_the_ring() -> None:
    """Section 12.2.2: C -> B -> A -> D with a at node 1, b at node 3, d at node 4 of 5.

        node       1    2    3    4    5
        holds      a         b    d
        c          c -> c -> c -> c -> c            4 hops
        (b,c)           ... born at 3, goes round   5 hops, meets a at node 1
        (a,b,c)    born at 1, goes round            5 hops, meets d at node 4
    END marks find nothing at the head but (b,c)'s own match, so each of the three goes round bare.
    """
    join = MultiJoin((10,) * 4, orders=((1, 2, 3), (0, 2, 3), (1, 0, 3), (0, 1, 2)))
    ring = Psp(join, 5, COSTS)
    rows = rows_of([(3, 3, "d"), (1, 5, "b"), (0, 9, "a"), (2, 10, "c")])
    ring.run(rows[:-1])
    before = ring.account.messages.copy()
    ends = ring.account.ends
    account = ring.run(rows[-1:])
    assert [values(node, s) for node, s in zip(ring.nodes, (0, 0, 1, 3, 0))] == [["a"], [], ["b"], ["d"], []]
    assert [[row.value for row in result.rows] for result in account.results] == [["a", "b", "c", "d"]]
    sent = account.messages - before
    assert (sent["row"], sent["intermediate"], sent["end"], account.ends - ends) == (4, 10, 15, 3)


def test_a_row_in_work_sees_the_state_as_it_was() -> None:
    """Section 12.4: c1 comes while (a, b) is on its way, and purges what (a, b) has still to meet."""
    rows = rows_of([(2, 0, "c0"), (1, 0, "b0"), (0, 9.5, "a"), (2, 10.5, "c1")])
    join = MultiJoin((10, 10, 10), orders=((1, 2), (0, 2), (0, 1)))
    for ring in (PspI(join, 3, COSTS, limit=4), PspD(join, 3, COSTS, limit=4)):
        account = ring.run(rows)
        assert account.began[3] < account.finished[2]
        assert [[row.value for row in result.rows] for result in account.results] == [["a", "b0", "c0"]]


def test_formula_14_1() -> None:
    """Three nodes and one more: W/3 becomes W/4, and a third, two thirds of a slice move on.

        before  |--- 1 ---|--- 2 ---|--- 3 ---|
        after   |-- 1 --|-- 2 --|-- 3 --|- new -|
    The thesis inserts node j after the first k with M/N k > j; it must be >=, or 3 nodes get no fourth.
    """
    assert [shift(3, 1, i) for i in (1, 2, 3)] == [Fraction(1, 3), Fraction(2, 3), 0]
    assert inserted_after(3, 1) == [3]
    assert inserted_after(4, 2) == [2, 4]


@given(nodes=st.integers(1, 7), added=st.integers(1, 9))
def test_what_moves_is_formula_14_1(nodes: int, added: int) -> None:
    """Rows one by one in time: each old node passes the formula's share on, and no row moves further."""
    unit = 4 * nodes  # rows of a new slice
    window = unit * (nodes + added)
    ring = Psp(MultiJoin((window, window)), nodes)
    ring.run(rows_of([*((0, time, None) for time in range(window)), (1, window - 0.5, None)]))
    old = list(ring.nodes)
    held = {kept.row: node for node in old for kept in node.state[0]}
    ring.resize(nodes + added, aggressive=True)
    assert [node for node in ring.nodes if node in old] == old
    assert all(len(node.state[0]) == unit for node in ring.nodes)
    for i, node in enumerate(old, 1):
        passed = [row for at in old[i:] for row in (kept.row for kept in at.state[0]) if held[row] in old[:i]]
        assert len(passed) == shift(nodes, added, i) * unit
        assert node.state[0][-1].row in held


@given(few=st.integers(1, 9), more=st.integers(0, 9))
def test_nodes_taken_out_are_those_that_would_have_been_added(few: int, more: int) -> None:
    ring = changed(range(few), few + more, lambda: -1)
    assert changed(ring, few, lambda: -1) == list(range(few))


def test_passive_adds_by_and_by_and_aggressive_at_once() -> None:
    """Figure 14.1's ring of three: PSP-D's fourth node fills within a window, or is full right away."""
    rows = rows_of((n % 2, n / 10, n % 3) for n in range(600))
    rings = []
    for aggressive in (False, True):
        ring = PspD(MultiJoin((12, 12), {(0, 1): TESTS["equal"]}), 3)
        ring.at(30.04, lambda ring=ring, aggressive=aggressive: ring.resize(4, aggressive=aggressive))
        assert numbers(ring.run(rows)) == oracle(ring.join, rows)
        rings.append(ring)
    passive, at_once = (ring.account for ring in rings)
    assert passive.messages["moved"] == 0 < at_once.messages["moved"]
    assert passive.operations["insert"] == len(rows)
    early = [len([c for c in account.changes if c[1] == 3 and c[0] < 31]) for account in (passive, at_once)]
    assert early[1] >= 25 > early[0]
    for ring in rings:  # a window later, both are balanced
        assert max(node.rows for node in ring.nodes) <= 75


def test_memory_of_replication() -> None:
    """Section 15.1: lambda T N + lambda (T + 2W)(M-1) N for ATR, L times the windows for CTR."""
    rate, window, nodes = 4, 5.0, 4
    rows = rows_of((n % 3, n / (3 * rate), None) for n in range(1000))
    join = MultiJoin((window,) * 3, {(0, 1): lambda a, b: False})
    for segment in (5.0, 10.0):
        kept = Atr(join, nodes, segment=segment).run(rows).state(since=60)
        formula = rate * segment * nodes + rate * (segment + 2 * window) * 2 * nodes
        assert 0.75 * formula < kept[0] <= 1.05 * formula
        purged = Atr(join, nodes, segment=segment, keep=False).run(rows).state(since=60)
        assert purged[1] < kept[1]
    alone = Psp(join, nodes).run(rows).state(since=60)[1]
    for copies in (1, 2, 3):
        copied = Ctr(join, nodes, copies=copies).run(rows).state(since=60)[1]
        assert copied == pytest.approx(copies * alone, rel=0.3)


def test_adaptation_follows_the_rate() -> None:
    """When rows come three times as often, the ring gets longer, waits less, and gives the same results."""
    times = [n / 6 for n in range(180)] + [30 + n / 18 for n in range(540)]
    rows = rows_of((n % 3, time, n * 7 % 10) for n, time in enumerate(times))
    test = {(0, 1): lambda a, b: (a + b) % 10 < 2, (1, 2): lambda a, b: (a + b) % 10 < 2}
    join = MultiJoin((5, 5, 5), test, orders=((2, 1), (0, 2), (0, 1)))
    costs = Costs(join=1e-3, send=1e-4, hop=2e-3)

    fixed = Psp(join, 2, costs)
    fixed.run(rows)
    for aggressive in (False, True):
        ring = Psp(join, 2, costs)
        adapter = Adapter(ring, 5.0, most=20, aggressive=aggressive)
        assert sorted(numbers(ring.run(rows))) == sorted(numbers(fixed.account))
        assert adapter.changes[0].orders == ((1, 2), (0, 2), (1, 0)), "no stream is joined without condition"
        lengths = [change.nodes for change in adapter.changes]
        assert lengths == sorted(lengths) and lengths[-1] > 2 * lengths[0]
        assert ring.account.latency(since=45) < fixed.account.latency(since=45) / 2


def test_nothing_is_decided_where_nothing_came() -> None:
    """Rows of one stream alone have nothing to compare: one node will do. Then comes nothing for long."""
    ring = Psp(MultiJoin((5, 5)), 2)
    adapter = Adapter(ring, 1.0, most=4)
    assert numbers(ring.run(rows_of([(0, 0.5, 1), (1, 9.5, 2), (0, 9.6, 3)]))) == [(2, 1)]
    assert [(change.time, change.nodes) for change in adapter.changes] == [(1.0, 1)]


def test_no_rows_no_results() -> None:
    for scheme in (Psp, PspI, PspD, Atr, Ctr):
        account = scheme(MultiJoin((5, 5, 5)), 3).run(list[Row]())
        assert (account.results, account.messages.total(), account.state()) == ([], 0, (0, 0.0))
