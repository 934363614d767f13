"""What auto chooses from given costs, and that its answers do not depend on the choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lab.final.workload import Call
from support.final_cases import MONOIDS, assert_same, states
from weft.aggregates import FUNCTIONS
from weft.errors import QueryError
from weft.final import TECHNIQUES, check_technique, fits, technique
from weft.final.calibration import store
from weft.final.costs import DEFAULTS, Cost, candidates, cheapest, costs, kind
from weft.model.expression import Column


def with_costs(recompute: Cost, bulk: Cost) -> dict[str, dict[str, Cost]]:
    return {k: {"recompute": recompute, "bulk": bulk} for k in DEFAULTS}


@pytest.mark.parametrize("name", MONOIDS)
def test_the_cheapest_is_chosen_from_what_the_call_holds(name: str) -> None:
    by = with_costs(recompute=Cost(length=1), bulk=Cost(cell=2, run=10))
    monoid = MONOIDS[name]
    assert cheapest(monoid, cells=1000, runs=10, length=2000, by=by) == "recompute"
    assert cheapest(monoid, cells=1000, runs=10, length=2200, by=by) == "bulk"
    assert cheapest(monoid, cells=1000, runs=100, length=2200, by=by) == "recompute"
    assert cheapest(monoid, cells=10_000, runs=10, length=2200, by=by) == "recompute"


def test_a_doubling_costs_per_run() -> None:
    cost = Cost(doubling=3)
    assert [cost.of(0, 2, length) for length in (0, 2, 4, 16)] == [0, 0, 6, 18]


@pytest.mark.parametrize("name", MONOIDS)
def test_few_windows_are_recomputed_and_many_are_not(name: str) -> None:
    few, many = Call(1000, 60, 1, 1).numbers, Call(500, 60, 16, 60).numbers
    # Of many groups, a tenth has a window due.
    cells, runs, length = few
    assert cheapest(MONOIDS[name], cells, runs // 10, length // 10, DEFAULTS) == "recompute"
    assert cheapest(MONOIDS[name], *many, DEFAULTS) == "bulk"


def test_every_kind_of_part_has_costs() -> None:
    for function in FUNCTIONS.values():
        for dtype in ("double", "bigint", "string", "boolean"):
            if all(dtype in accepted for accepted in function.accepts):
                arguments = (Column("x"), Column("y"))[: function.arity]
                for part in function.parts(arguments, (dtype,) * function.arity):
                    assert candidates(part.monoid) == ("recompute", "bulk")
                    for length in (1, 1000):
                        assert kind(part.monoid, 1, length) in DEFAULTS


def test_auto_is_never_refused_and_picks_what_fits() -> None:
    check_technique("auto", MONOIDS)
    for name, monoid in MONOIDS.items():
        assert fits("auto", monoid), name
        assert all(fits(candidate, monoid) for candidate in candidates(monoid))
    with pytest.raises(QueryError, match="choose auto or one of"):
        technique("automatic")


@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("call", [Call(3, 40, 5, 7), Call(1, 1500, 3, 1), Call(1, 900, 40, 900)], ids=str)
def test_every_technique_that_auto_may_pick_gives_the_same_answers(name: str, call: Call) -> None:
    monoid, (low, high) = MONOIDS[name], call.runs()
    given = states(monoid, call.cells, seed=1)
    answers = {c: TECHNIQUES[c](monoid, given).answer(low, high) for c in candidates(monoid)}
    for candidate in answers:
        assert_same(monoid, answers[candidate], answers["recompute"])
    assert_same(monoid, technique("auto").answer(monoid, given, low, high), answers["recompute"])


def test_stored_costs_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_COSTS", str(tmp_path / "costs.json"))
    costs.cache_clear()
    assert costs() == DEFAULTS
    dear, cheap = {"call": 100.0}, {"call": 1.0}
    stored = {k: {c: cheap if c == "recompute" else dear for c in rows} for k, rows in DEFAULTS.items()}
    store({"techniques": {k: {**rows, "daba": cheap} for k, rows in stored.items()}})
    costs.cache_clear()
    assert all(list(costs()[k]) == list(DEFAULTS[k]) for k in DEFAULTS)
    assert cheapest(MONOIDS["max"], 10**6, 10**6, 10**9) == "recompute"
    costs.cache_clear()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"bulk": {"call": -1}}, "call must be nanoseconds from 0, not -1"),
        ({"bulk": {"colour": 1}}, "colour"),
        ({"bulk": 7}, "must be a mapping"),
        (None, "lacks 'bulk'"),
    ],
)
def test_costs_that_cannot_be_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object] | None, why: str
) -> None:
    monkeypatch.setenv("WEFT_COSTS", str(tmp_path / "costs.json"))
    rows = {k: {c: {"call": 1} for c in names} for k, names in DEFAULTS.items()}
    if change is None:
        del rows["count, long runs"]["bulk"]
    else:
        rows["count, long runs"] |= change  # type: ignore[arg-type]
    store({"techniques": rows})
    costs.cache_clear()
    with pytest.warns(UserWarning, match=why):
        assert costs() == DEFAULTS
    costs.cache_clear()


def test_runs_of_a_call() -> None:
    # Three cells in each of two groups, two queries of 1 and 2 slices, two slices new:
    #   group 0   0 1 2      group 1   3 4 5
    #   1 slice     - -                  - -
    #   2 slices  ---        and       ---
    #               ---                  ---
    call = Call(groups=2, window=2, queries=2, due=2)
    low, high = call.runs()
    assert call.cells == 6
    assert list(zip(low.tolist(), high.tolist())) == [
        (1, 2), (4, 5), (2, 3), (5, 6), (0, 2), (3, 5), (1, 3), (4, 6),
    ]  # fmt: skip
    assert np.all(call.states(MONOIDS["count"]) != 0)
