"""The cost models of the paper, and the chains they choose."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from lab.joins import case_study, cost
from support.join_cases import SECOND, join, joins
from weft.errors import QueryError
from weft.planning.joins.member import Member, member
from weft.planning.joins.plan import plan_joins
from weft.planning.joins.rates import ChainCosts, Rates, assumed
from weft.planning.joins.shape import bounded, cpu_opt, mem_opt, priced


def test_case_study_of_chapter_6() -> None:
    """Table 6.2. The text adds 75.8 and 2253.375 up to 2325.8; they are 2329.175."""
    first, second = case_study.isolated(case_study.FIRST_QUERY), case_study.isolated(case_study.SECOND_QUERY)
    assert (first.memory, second.memory) == pytest.approx((75.8, 2253.375))
    assert first.memory + second.memory == pytest.approx(2329.175)
    assert (first.cpu, second.cpu) == pytest.approx((187.64, 5633.25), abs=0.005)
    pulled = case_study.pull_up(case_study.FIRST_QUERY, case_study.SECOND_QUERY)
    assert (pulled.memory, pulled.cpu) == pytest.approx((6484.5, 27227.88), abs=0.005)
    sliced = case_study.state_slice(case_study.FIRST_QUERY, case_study.SECOND_QUERY)
    assert (sliced.memory, sliced.cpu) == pytest.approx((2308.21, 6422.66), abs=0.005)


@pytest.mark.parametrize(
    ("ratio", "selection", "join", "wanted"),
    [
        (0.5, 0.5, 0.1, (0.125, 0.5 / 2.25, 0.4 / 1.2, 0.05 / 0.85)),
        (0.1, 0.2, 0.4, (0.36, 0.1 / 1.38, 1.48 / 1.8, 0.08 / 0.4)),
        (0.25, 1.0, 0.025, (0.0, 0.25 / 2.25, 0.04375 / 1.05, 0.025 / 1.03125)),
    ],
)
def test_savings_of_equation_5_2(
    ratio: float, selection: float, join: float, wanted: tuple[float, ...]
) -> None:
    found = cost.savings(ratio, selection, join)
    assert (
        found.memory_over_pull_up,
        found.memory_over_push_down,
        found.cpu_over_pull_up,
        found.cpu_over_push_down,
    ) == pytest.approx(wanted)


@given(ratio=st.floats(0.01, 0.99), selection=st.floats(0.01, 0.99), join=st.floats(0.01, 0.99))
def test_savings_follow_from_the_costs_at_high_rates(ratio: float, selection: float, join: float) -> None:
    settings = cost.Settings(rate=1e9, first=ratio * 60, second=60, selection=selection, join=join)
    sliced, found = cost.state_slice(settings), cost.savings(ratio, selection, join)
    for rival, memory, cpu in (
        (cost.pull_up(settings), found.memory_over_pull_up, found.cpu_over_pull_up),
        (cost.push_down(settings), found.memory_over_push_down, found.cpu_over_push_down),
    ):
        assert 1 - sliced.memory / rival.memory == pytest.approx(memory, abs=1e-6)
        assert 1 - sliced.cpu / rival.cpu == pytest.approx(cpu, abs=1e-6)


def windows(*seconds: float) -> list[Member]:
    found = []
    for n, w in enumerate(seconds):
        (query,) = weft.sql(f"SELECT a.x FROM a [RANGE '{w} s'], b [RANGE '{w} s'] WHERE a.x = b.x")
        found.append(member(query.renamed(f"q{n}")))
    return found


UNIFORM = [2.5 * n for n in range(1, 13)]
MOSTLY_SMALL = [*range(1, 11), 20, 30]
SMALL_LARGE = [*range(1, 7), *range(25, 31)]


def test_chains_of_table_8_2() -> None:
    """Uniform windows stay slices of their own; small neighbours merge (figure 8.3)."""
    costs = ChainCosts(system=1.0)
    uniform, small, two = (
        cpu_opt(m, assumed(m, 20.0, join=0.025), costs)[0]
        for m in (windows(*UNIFORM), windows(*MOSTLY_SMALL), windows(*SMALL_LARGE))
    )
    assert uniform == mem_opt(windows(*UNIFORM))[0]
    assert len(small) < 12 and small[-3:] == [10 * SECOND, 20 * SECOND, 30 * SECOND]
    assert 6 * SECOND in two and len(two) < 8


@given(data=st.data(), rate=st.sampled_from([1.0, 20.0, 300.0]), share=st.sampled_from([0.01, 0.3, 1.0]))
def test_the_shortest_path_is_the_best_of_all_chains(data: st.DataObject, rate: float, share: float) -> None:
    members = [member(q) for q in data.draw(joins("a.x = b.x"))]
    rates, costs = (
        assumed(members, rate, share),
        ChainCosts(system=data.draw(st.sampled_from([0.0, 1.0, 50.0]))),
    )

    def total(ends: list[list[int]]) -> tuple[float, float]:
        slices = priced(members, ends, rates, costs)
        return sum(s.cpu for s in slices), sum(s.rows for s in slices)

    every = [
        [sorted({*inner, side[-1]}) for inner, side in zip(chosen, mem_opt(members))]
        for chosen in itertools.product(*map(subsets, mem_opt(members)))
    ]
    assert total(cpu_opt(members, rates, costs))[0] == pytest.approx(min(total(e)[0] for e in every))
    least = min(total(e)[1] for e in every)
    assert total(mem_opt(members))[1] == pytest.approx(least)
    for bound in (least, 1.2 * least):
        wanted = min(total(e)[0] for e in every if total(e)[1] <= bound * (1 + 1e-9))
        chosen = total(bounded(members, rates, bound, costs))
        assert chosen[1] <= bound * (1 + 1e-6)
        assert chosen[0] == pytest.approx(wanted)


def subsets(some: list[int]) -> list[tuple[int, ...]]:
    return [c for size in range(len(some) + 1) for c in itertools.combinations(some, size)]


def test_a_bound_that_no_chain_keeps() -> None:
    members = windows(1, 2)
    with pytest.raises(QueryError, match="the least for these queries at these rates is 40"):
        bounded(members, assumed(members, 10.0), 39)


def test_rows_and_cpu_of_slices_are_those_of_equation_5_1() -> None:
    """Two queries, a selection on A: probing and state of the chain, per second."""
    s = cost.Settings(rate=10, first=1, second=5, selection=0.5, join=0.1)
    queries = [join("q1", "a.x = b.x", "", (1, 1)), join("q2", "a.x = b.x", "a.x > 1", (5, 5))]
    members = [member(q) for q in queries]
    rates: Rates = assumed(members, s.rate, s.join, s.selection)
    slices = priced(members, mem_opt(members), rates, ChainCosts(purge=0, route=0, system=0))
    assert sum(x.rows for x in slices) == pytest.approx(cost.state_slice(s).memory)
    probing = 2 * s.rate**2 * s.first + 2 * s.rate**2 * s.selection * (s.second - s.first)
    assert sum(x.cpu for x in slices) == pytest.approx(probing)


def test_explain() -> None:
    queries = weft.sql("""
        -- name: short
        SELECT t.x FROM temperature t [RANGE '1 min'], humidity h [RANGE '1 min'] WHERE t.x = h.x;
        -- name: long
        SELECT t.x FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
        WHERE t.x = h.x AND t.x > 3;
        -- name: other
        SELECT t.x FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min'] WHERE t.x < h.x""")
    shared, alone = plan_joins(queries, rate=10.0)
    assert [m.name for m in shared.members] == ["short", "long"]
    assert shared.ends == [[60 * SECOND, 1800 * SECOND], [60 * SECOND, 3600 * SECOND]]
    assert [s.serves for s in shared.slices] == [("short", "long"), ("long",)] * 2
    # A slice of temperature rows from 1 to 60 minutes holds the half that `long` selects.
    assert [s.rows for s in shared.slices] == [600, 17400, 600, 17700]
    assert "2 joins of humidity and temperature on (humidity.x = temperature.x)" in str(shared)
    assert "temperature  1 min  1 h     17,700" in str(shared)
    assert json.loads(alone.to_json())["slices"][0]["serves"] == ["other"]
