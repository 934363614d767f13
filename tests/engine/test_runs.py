"""Windows as runs of cells: looked up in a table, searched group by group, and by trying every cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.engine import runs as finding
from weft.engine.due import NEVER
from weft.engine.runs import Asked, Region, ask, find_runs, in_turns
from weft.query import Window

held = st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 7), min_size=1), max_size=5)
gaps = st.lists(st.sampled_from([1, 2, 3, 10, 1000]), min_size=8, max_size=8)
windows = st.builds(Window, st.integers(1, 40), st.integers(1, 12), st.integers(0, 11))


def region_of(held: dict[int, set[int]], edges: np.ndarray) -> Region:
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


def as_rows(found: finding.Runs, number: int) -> list[tuple[int, ...]]:
    mine = found.part(number, number + 1)
    columns = (found.start, found.group, found.low, found.high, found.end)
    return list(zip(*(column[mine].tolist() for column in columns)))


@given(held, gaps, st.lists(windows, min_size=1, max_size=4), st.integers(-20, 60), st.integers(-20, 3000))
def test_looked_up_or_searched_the_runs_are_those_of_all_cells(
    held: dict[int, set[int]], gaps: list[int], windows: list[Window], after: int, until: int
) -> None:
    region = region_of(held, np.cumsum(gaps))
    chosen = ask((region, window, (after, until)) for window in windows)
    searched = [Asked(region, window, (after, until), None) for window in windows]
    for way in (chosen, searched):
        found = find_runs(way)
        for number, window in enumerate(windows):
            assert as_rows(found, number) == brute(region, window, after, until)


def test_dense_groups_are_looked_up_and_sparse_ones_searched() -> None:
    edges, window = np.arange(100), Window(10, 5)
    dense = region_of({g: set(range(100)) for g in range(5)}, edges)
    (asked,) = ask([(dense, window, (NEVER, 60))])
    assert asked.starts is not None
    (asked,) = ask([(dense, window, (54, 55))])
    assert asked.starts is None, "a table for one window per group costs more than it saves"
    far = region_of({g: {0, 1} for g in range(5)}, np.array([0, 10**12]))
    (asked,) = ask([(far, window, (NEVER, 2 * 10**12))])
    assert asked.starts is None, "a trillion windows hold nothing"
    assert len(find_runs([asked]).low) == 5 * 4


def test_runs_are_found_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "AT_ONCE", 60)
    region = region_of({g: set(range(20)) for g in range(4)}, np.arange(20))
    asked = ask((region, Window(range, 5), (NEVER, 30)) for range in (5, 10, 15, 20))
    turns = list(in_turns(asked, cells=10))
    assert len(turns) > 1
    assert [n for turn in turns for n in range(turn.start, turn.stop)] == [0, 1, 2, 3]
    assert all(sum(a.most for a in asked[turn]) <= 60 or turn.stop - turn.start == 1 for turn in turns)
