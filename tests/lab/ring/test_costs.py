"""Chapter 13: the cost model against formulas, brute force and the machine; slices, orders, balance."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.ring.cost import Model, steps_of
from lab.ring.machine import Costs
from lab.ring.multijoin import MultiJoin, rows_of
from lab.ring.orders import best_orders
from lab.ring.psp import Psp
from lab.ring.psp_d import PspD
from lab.ring.slicing import Slicing, balanced, bounded, even, initial_lengths
from lab.ring.statistics import Statistics, measured
from support.ring_cases import cases
from support.seeds import seeded_random
from weft.errors import QueryError

CHAIN = {
    3: ((1, 2), (0, 2), (1, 0)),
    5: ((1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (2, 1, 0, 4), (3, 2, 1, 0)),
}


def uniform(streams: int, rate: float, window: float, share: float, costs: Costs) -> Model:
    """Each step of each order has one condition, of the same selectivity, as the thesis assumes."""
    chain = {(s, s + 1): share for s in range(streams - 1)}
    return Model(Statistics((rate,) * streams, (window,) * streams, chain), CHAIN[streams], costs)


@pytest.mark.parametrize("streams", [3, 5])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
def test_formulas_13_1_to_13_4(streams: int, share: float) -> None:
    """With comparisons counted, L_PSP is L_C (1 + T_s N / (lambda W T_j)), but for inserting and purging."""
    costs = Costs(join=2e-5, purge=0, insert=0, send=3e-5, hop=1e-4)
    model = uniform(streams, 50, 10, share, costs)
    found = 500 * share
    assert model.comparisons == pytest.approx(500 * sum(found**k for k in range(streams - 1)))
    assert model.transmitted == pytest.approx(sum(found**k for k in range(streams - 1)))
    assert model.results == pytest.approx(found ** (streams - 1))
    single = model.results / model.centralized
    for nodes in range(1, 40):
        ratio = costs.send * nodes / (500 * costs.join)
        assert model.workload(nodes) == pytest.approx(model.centralized * (1 + ratio))
        assert model.output_rate(nodes) == pytest.approx(single * nodes / (1 + ratio))
        assert model.output_rate(nodes + 1) > model.output_rate(nodes)
        assert model.latency_of([nodes] * streams) == pytest.approx(model.latency(nodes))


positive = st.floats(1e-6, 1e-1)


@given(
    join=positive, send=positive, hop=positive, share=st.floats(0.01, 1), most=st.none() | st.integers(1, 60)
)
def test_theorem_9_is_the_minimum_over_all_lengths(
    join: float, send: float, hop: float, share: float, most: int | None
) -> None:
    model = uniform(3, 5, 10, share, Costs(join=join, send=send, hop=hop))
    best = model.ring_length(most)
    assert best <= (most or best)
    longest = most or int(min(model.bounds())) + 50
    every = range(1, longest + 1) if longest < 5000 else range(best - 50, best + 51)
    assert model.latency(best) == pytest.approx(min(map(model.latency, every)), rel=1e-12)


def test_theorem_9_where_either_bound_decides() -> None:
    """Much to send: the ring's own way decides (N2). Little: hops that hide no work (N1)."""
    much = uniform(3, 5, 10, 0.5, Costs(join=1e-4, send=1, hop=0.05))
    little = uniform(3, 5, 10, 0.5, Costs(join=1e-2, send=1e-5, hop=0.05))
    first, second = much.bounds()
    assert first > second and much.ring_length() == int(second)
    assert (second - 1) / 2 * 0.05 == pytest.approx(much.costs.join * much.comparisons / second)
    first, second = little.bounds()
    assert first < second and abs(little.ring_length() - first) < 1
    working = little.costs.join * little.comparisons / first + little.costs.send * little.transmitted
    assert working == pytest.approx(3 * first * 0.05)


def test_hops_that_take_no_time_need_a_limit() -> None:
    model = uniform(3, 5, 10, 0.5, Costs(hop=0))
    assert model.ring_length(7) == 7
    with pytest.raises(QueryError, match="give the most"):
        model.ring_length()


@pytest.mark.parametrize("ring", [Psp, PspD])
def test_the_model_says_what_the_machine_does(ring: type[Psp]) -> None:
    """Comparisons and transmissions per row, at a steady rate, within a tenth."""
    chosen = seeded_random(3)
    rows = rows_of((n % 3, n / 12, chosen.randrange(10)) for n in range(900))
    near = {pair: (lambda a, b: (a + b) % 10 < 2) for pair in ((0, 1), (1, 2))}
    join = MultiJoin((10, 10, 10), near, orders=CHAIN[3])
    model = Model(Statistics((4, 4, 4), join.windows, dict.fromkeys(near, 0.2)), CHAIN[3], Costs())
    account = ring(join, 4).run(rows)
    joined = account.operations["join"] / len(rows)
    sent = account.messages["row"] + account.messages["intermediate"]
    assert joined == pytest.approx(model.comparisons, rel=0.1)
    assert sent / len(rows) / 4 == pytest.approx(model.transmitted, rel=0.1)
    assert len(account.results) / len(rows) == pytest.approx(model.results, rel=0.1)


@given(case=cases)
def test_the_best_orders_are_the_best_of_all(case: int) -> None:
    chosen = seeded_random(case)
    streams = chosen.randint(2, 5)
    pairs = itertools.combinations(range(streams), 2)
    known = Statistics(
        tuple(chosen.choice([1, 5, 20]) for _ in range(streams)),
        tuple(chosen.choice([1, 10]) for _ in range(streams)),
        {pair: chosen.choice([0.01, 0.1, 1]) for pair in pairs if chosen.random() < 0.7},
    )
    for stream, order in enumerate(best_orders(known)):
        others = [other for other in range(streams) if other != stream]
        every = [_comparisons(known, stream, some) for some in itertools.permutations(others)]
        assert _comparisons(known, stream, order) == pytest.approx(min(every))


def _comparisons(known: Statistics, stream: int, order: tuple[int, ...]) -> float:
    return sum(step.comparisons for step in steps_of(known, stream, order)[0])


def test_measured_statistics() -> None:
    """Rates of the time given; conditions on a sample; streams without rows say nothing."""
    join = MultiJoin((5, 5, 5), {(0, 1): lambda a, b: a < 3, (1, 2): lambda a, b: True})
    known = measured(join, rows_of((n % 3 == 0, n / 10, n % 10) for n in range(100)), 10.0)
    assert known.rates == (6.6, 3.4, 0)
    assert known.selectivities == {(0, 1): pytest.approx(0.3, abs=0.1)}
    assert known.pair(2, 1) == 1


@given(case=cases)
def test_balanced_slices(case: int) -> None:
    """Every stream is cut over so many neighbours at most; where all may use all nodes, nodes are equal."""
    chosen = seeded_random(case)
    rows = [chosen.choice([0, 10, 100, 1000]) for _ in range(chosen.randint(1, 5))]
    lengths = [chosen.randint(1, 6) for _ in rows]
    slicing = balanced(rows, lengths)
    assert slicing.nodes == max(lengths)
    for shares, length in zip(slicing.shares, lengths):
        used = [place for place, share in enumerate(shares) if share]
        assert used[-1] - used[0] < length
    loads = [sum(n * shares[at] for n, shares in zip(rows, slicing.shares)) for at in range(slicing.nodes)]
    assert sum(loads) == pytest.approx(sum(rows))
    equal = balanced(rows, [slicing.nodes] * len(rows))
    for place in range(slicing.nodes):
        load = sum(n * shares[place] for n, shares in zip(rows, equal.shares))
        assert load == pytest.approx(sum(rows) / slicing.nodes)


def test_initial_lengths_of_equal_streams_are_those_of_theorem_9() -> None:
    model = uniform(3, 10, 10, 0.1, Costs(join=1e-4, send=1e-5, hop=1e-3))
    assert initial_lengths(model, 40) == [model.ring_length()] * 3


def test_balanced_slices_balance_the_ring() -> None:
    """Streams of different length: even slices of each are unequal nodes only where lengths differ."""
    rows = rows_of((0 if n % 5 else 1, n / 10, n) for n in range(900))
    join = MultiJoin((10, 10), {(0, 1): lambda a, b: False})
    ring = PspD(join, balanced((80, 20), (4, 1)), Costs())
    ring.run(rows)
    means = [ring.account.state(since=20, node=node.number)[1] for node in ring.nodes]
    assert max(means) < 1.25 * sum(means) / 4
    crowded = Slicing((even(1, 4).shares[0], (1.0, 0.0, 0.0, 0.0)))
    other = PspD(join, crowded, Costs())
    other.run(rows)
    assert max(other.account.state(since=20, node=n.number)[1] for n in other.nodes) > 1.5 * sum(means) / 4


@pytest.mark.parametrize("ring", [Psp, PspD])
def test_bounded_slices_smooth_a_burst(ring: type[Psp]) -> None:
    """Section 14.1: a burst fills one slice of time; bounded slices spread it over the nodes."""
    times = sorted([n / 2 for n in range(120)] + [30 + n / 40 for n in range(80)])
    rows = rows_of((n % 2, time, n % 3) for n, time in enumerate(times))
    join = MultiJoin((20, 20), {(0, 1): int.__eq__})
    even_slices = even(2, 5)
    peaks = []
    for slicing in (even_slices, bounded(even_slices, (30, 30))):
        running = ring(join, slicing)
        running.run(rows)
        peaks.append(max(running.account.state(node=node.number)[0] for node in running.nodes[:-1]))
    assert peaks[1] < 0.5 * peaks[0]
