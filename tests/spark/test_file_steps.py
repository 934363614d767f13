"""Steps over the files of a batch: limits, pace, and a batch that goes on with other limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.io.files import Files, ListedFile
from weft.spark.batch_files import Listing
from weft.spark.file_steps import FileSteps
from weft.spark.pace import Pace

Steps = list[tuple[dict[str, list[str]], int | None]]


def listed(counts: Mapping[str, int]) -> dict[str, Sequence[ListedFile]]:
    return {s: [ListedFile(f"{s}{n}", 100) for n in range(count)] for s, count in counts.items()}


def steps_of(limits: Mapping[str, int | None], target: float | None = None) -> FileSteps:
    files = {s: Files("in", "csv", {"x": "bigint"}, max_files_per_batch=n) for s, n in limits.items()}
    return FileSteps(files, None if target is None else Pace(target))


class Notebook:
    """Writes down a listing once."""

    def __init__(self, listing: Listing | None = None) -> None:
        self.listing = listing

    def __call__(self, batch_id: int, listing: Listing) -> Listing:
        self.listing = listing if self.listing is None else self.listing
        return self.listing


def taken_by(
    steps: FileSteps, files: Mapping[str, Any], taken: int = 0, settle: Notebook | None = None
) -> Steps:
    return [
        ({s: [f.path for f in own] for s, own in step.files.items()}, step.taken)
        for step in steps.of_batch(0, files, taken, settle or Notebook())
    ]


def test_one_stream_counts_files() -> None:
    files = listed({"": 5})
    assert taken_by(steps_of({"": 2}), files) == [
        ({"": ["0", "1"]}, 2),
        ({"": ["2", "3"]}, 4),
        ({"": ["4"]}, None),
    ]
    assert taken_by(steps_of({"": None}), files) == [({"": ["0", "1", "2", "3", "4"]}, None)]
    assert taken_by(steps_of({"": 2}), listed({"": 0})) == [({"": []}, None)]


def test_several_streams_are_taken_side_by_side() -> None:
    files = listed({"a": 3, "b": 3, "c": 1})
    assert taken_by(steps_of({"a": 1, "b": 2, "c": None}), files) == [
        ({"a": ["a0"], "b": ["b0", "b1"], "c": ["c0"]}, 1),
        ({"a": ["a1"], "b": ["b2"], "c": []}, 2),
        ({"a": ["a2"], "b": [], "c": []}, None),
    ]


def test_no_files_at_all_are_one_step() -> None:
    assert taken_by(steps_of({}), {}) == [({}, None)]
    assert taken_by(steps_of({"a": 1, "b": 1}, 2.0), listed({"a": 0, "b": 0})) == [({"a": [], "b": []}, None)]


@pytest.mark.parametrize("name", ["", "trades", "renamed"])
def test_a_batch_of_one_stream_that_an_earlier_version_began_goes_on(name: str) -> None:
    before = Notebook({name: listed({"trades": 5})["trades"]})
    rest = taken_by(steps_of({"trades": 2}), listed({"trades": 5}), 3, before)
    assert rest == [({"trades": ["trades3", "trades4"]}, None)]


def test_a_batch_of_several_streams_that_an_earlier_version_began_goes_on() -> None:
    files = listed({"a": 4, "b": 2})
    rest = taken_by(steps_of({"a": 2, "b": 1}), listed({"a": 0, "b": 0}), 1, Notebook(files))
    assert rest == [({"a": ["a2", "a3"], "b": ["b1"]}, None)]


@given(st.data())
def test_every_file_is_taken_once_and_in_order_whatever_a_restart_asks_for(data: st.DataObject) -> None:
    counts = data.draw(st.dictionaries(st.sampled_from("abc"), st.integers(0, 6), min_size=1))
    files, book = listed(counts), Notebook()
    limit, target = st.none() | st.integers(1, 4), st.none() | st.sampled_from([1e-9, 1e9])
    seen: dict[str, list[str]] = {s: [] for s in counts}
    taken: int | None = 0
    while taken is not None:
        limits = {s: data.draw(limit) for s in counts}
        steps = steps_of(limits, data.draw(target))
        # A step or two, and then the run is started anew.
        for _, step in zip(range(data.draw(st.integers(1, 2))), steps.of_batch(7, files, taken, book)):
            taken = step.taken
            for stream, own in step.files.items():
                seen[stream] += [f.path for f in own]
            if taken is None:
                break
    assert seen == {s: [f.path for f in own] for s, own in files.items()}


@given(st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(1, 3))
def test_a_pace_takes_streams_in_step_and_within_their_limits(a: int, b: int, limit: int | None) -> None:
    seen = {"a": 0, "b": 0}
    for step in steps_of({"a": limit, "b": None}, 1e9).of_batch(0, listed({"a": a, "b": b}), 0, Notebook()):
        assert limit is None or len(step.files["a"]) <= limit
        for stream, own in step.files.items():
            seen[stream] += len(own)
        if a and b:
            assert abs(seen["a"] / a - seen["b"] / b) <= max(1 / a, 1 / b) + 1e-9
    assert seen == {"a": a, "b": b}
