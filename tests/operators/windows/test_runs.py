"""Windows as runs of cells: from a grid, searched group by group, and by trying every cell."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.seeds import seeded_numpy
from weft.aggregates.monoid import ADD, AFFINE, MAX, MIN, SUM_INT, Monoid
from weft.final import technique
from weft.model.instants import BEGINNING_OF_TIME
from weft.model.window import Window
from weft.operators.windows import due_windows as asking
from weft.operators.windows.due_windows import DueWindows, Region, WindowColumns, plan_due_windows
from weft.operators.windows.gridded import find_runs
from weft.operators.windows.runs import Runs

slices = st.lists(st.integers(0, 7), min_size=1, max_size=9)
held = st.dictionaries(st.integers(0, 9), slices, max_size=5)
gaps = st.lists(st.sampled_from([1, 2, 3, 10, 1000]), min_size=8, max_size=8)
windows = st.builds(Window, st.integers(1, 40), st.integers(1, 12), st.integers(0, 11))


def region_of(held: dict[int, Collection[int]], edges: np.ndarray) -> Region:
    groups = sorted(held)
    at = np.array([s for g in groups for s in sorted(held[g])], dtype=np.int64)
    group = np.array([g for g in groups for _ in held[g]], dtype=np.int64)
    bounds = np.cumsum([0, *(len(held[g]) for g in groups)])
    return Region(bounds, group, at, edges)


def brute(region: Region, window: Window, after: int, until: int) -> list[tuple[int, int, int, int, int]]:
    found = []
    for g, group in enumerate(region.groups.tolist()):
        cells = range(region.bounds[g], region.bounds[g + 1])
        reach = {int(s) - back for s in region.starts[cells] for back in range(window.range)}
        for start in (w for w in reach if (w - window.offset) % window.slide == 0):
            inside = [c for c in cells if start <= region.starts[c] < start + window.range]
            if after < start + window.range <= until:
                found.append((start, group, inside[0], inside[-1] + 1, start + window.range))
    return sorted(found)


def as_rows(found: Runs, number: int) -> list[tuple[int, ...]]:
    mine = found.part(number, number + 1)
    columns = (found.start, found.group, *found.cells, found.end)
    return list(zip(*(column[mine].tolist() for column in columns)))


def as_columns(windows: list[Window]) -> WindowColumns:
    return WindowColumns(*np.array([(w.range, w.slide, w.offset) for w in windows], dtype=np.int64).T)


def asked_of(regions: list[Region], windows: list[Window], after: int, until: int) -> DueWindows:
    """Every window in every region."""
    region = np.repeat(np.arange(len(regions)), len(windows))
    due = (np.full(len(region), after, dtype=np.int64), until)
    return plan_due_windows(regions, region, as_columns(windows * len(regions)), due)


@given(
    st.lists(held, min_size=1, max_size=3),
    gaps,
    st.lists(windows, min_size=1, max_size=4),
    st.integers(-20, 60),
    st.integers(-20, 3000),
    st.booleans(),
)
def test_from_a_grid_or_searched_the_runs_are_those_of_all_cells(
    helds: list[dict[int, list[int]]],
    gaps: list[int],
    windows: list[Window],
    after: int,
    until: int,
    search: bool,
) -> None:
    regions = [region_of(held, np.cumsum(gaps)) for held in helds]
    asked = asked_of(regions, windows, after, until)
    if search:
        asked = replace(asked, count=np.full_like(asked.count, -1))
    order = np.argsort(asked.count < 0, kind="stable")
    asked = asked.take(order)
    for turn in asked.turns(cells=1):
        found = find_runs(asked.take(turn))
        for number, query in enumerate(order[turn].tolist()):
            region, window = regions[query // len(windows)], windows[query % len(windows)]
            assert as_rows(found, number) == brute(region, window, after, until)


@pytest.mark.slow
@given(
    st.lists(held, min_size=1, max_size=3),
    gaps,
    st.lists(windows, min_size=1, max_size=4),
    st.sampled_from(
        [(ADD, 1, True), (SUM_INT, 2, True), (MAX, 1, False), (MIN, 2, False), (AFFINE, 2, False)]
    ),
    st.data(),
)
def test_a_grid_answers_as_the_runs_of_cells_do(
    helds: list[dict[int, list[int]]],
    gaps: list[int],
    windows: list[Window],
    kind: tuple[int, int, bool],
    data: st.DataObject,
) -> None:
    regions = [region_of(held, np.cumsum(gaps)) for held in helds]
    # As in a view, the cells of one region follow those of the other.
    shift = 0
    for region in regions:
        region.bounds = region.bounds + shift
        region.at = np.concatenate([np.zeros(shift, dtype=np.int64), region.at])
        shift = int(region.bounds[-1])
    asked = asked_of(regions, windows, BEGINNING_OF_TIME, 10**6)
    asked = asked.take(np.flatnonzero(asked.count >= 0))
    if not len(asked.count):
        return
    monoid = Monoid(kind[0], kind[1], invertible=kind[2])
    states = seeded_numpy(shift).integers(0, 1000, (shift, monoid.width))
    found = find_runs(asked)
    queries = len(asked.count)
    first = data.draw(st.integers(0, queries - 1))
    last = data.draw(st.integers(first + 1, queries))
    for some in ([(0, queries)], [(first, last)], [(0, first), (last, queries)]):
        if not any(b > a for a, b in some):
            continue
        from_cells = found.combine(technique("recompute"), monoid, states, some)
        assert found.combine(technique("auto"), monoid, states, some).tolist() == from_cells.tolist()


def test_dense_groups_are_taken_from_a_grid_and_sparse_ones_searched() -> None:
    edges, window = np.arange(100), Window(10, 5)
    dense = region_of({g: set(range(100)) for g in range(5)}, edges)
    assert asked_of([dense], [window], BEGINNING_OF_TIME, 60).count.tolist() == [12]
    few = asked_of([dense], [window], 54, 55)
    assert few.count.tolist() == [-1], "a grid for one window per group costs more than it saves"
    far = region_of({g: {0, 1} for g in range(5)}, np.array([0, 10**12]))
    asked = asked_of([far], [window], BEGINNING_OF_TIME, 2 * 10**12)
    assert asked.count.tolist() == [-1], "a trillion windows hold nothing"
    assert len(find_runs(asked).start) == 5 * 4
    thin = region_of({g: {g} for g in range(100)}, edges)
    assert asked_of([thin], [window] * 9, BEGINNING_OF_TIME, 200).count.tolist() == [-1] * 9, (
        "a grid of holes"
    )


def test_runs_are_found_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MIN_RUNS_PER_TURN", 60)
    region = region_of({g: set(range(20)) for g in range(4)}, np.arange(20))
    asked = asked_of([region], [Window(length, 5) for length in (5, 10, 15, 20)], BEGINNING_OF_TIME, 30)
    turns = list(asked.turns(cells=10))
    assert len(turns) > 1
    assert [n for turn in turns for n in range(turn.start, turn.stop)] == [0, 1, 2, 3]
    runs = asked.count * 4
    assert all(runs[turn].sum() <= 60 or turn.stop - turn.start == 1 for turn in turns)
