"""The benchmark of final aggregation: C oracle, clock, tables and plots; without timing anything."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

from lab.final.sliding import slide
from support.seeds import seeded_numpy
from weft.cli import bench
from weft.cli.bench import BenchmarkResult
from weft.final import TECHNIQUES

final = bench.load("final")

from _final import ratios, throughput  # noqa: E402  (found beside the benchmark, once that is loaded)
from _final.clock import slide_nanoseconds  # noqa: E402
from _final.memory import peak_memory  # noqa: E402
from _final.operations import OPERATIONS, contestants, usual_operation  # noqa: E402
from _final.oracle import compile_oracles  # noqa: E402

WINDOWS = ([1], [5], [8], [64], [1, 2, 3, 64, 64, 17], [299, 300, 301, 1000, 1], [1500, 700, 20])


@pytest.fixture
def rows() -> list[dict]:
    """One of each kind of row, every rate being that of the technique's place in the registry."""
    rates = {name: float(place + 1) for place, name in enumerate(TECHNIQUES)}
    sweeps = {
        ratios.ONE_QUERY: ("sum", "max"),
        ratios.ALL_QUERIES: ("sum", "max"),
        ratios.MANY_QUERIES: ("sum", "min"),
    }
    found = [
        {"part": part, "operation": operation, "mode": mode, "n": n}
        | {name: rates[name] for name in contestants(operation)}
        for part, operations in sweeps.items()
        for operation in operations
        for mode in (throughput.IN_BATCHES, throughput.SLIDE_BY_SLIDE)
        for n in (1, 64)
    ]
    for operation in ("sum", "max"):
        plain = dict.fromkeys(contestants(operation), 1.1)
        found.append({"part": ratios.AGAINST_C, "operation": operation, "n": 4} | plain)
    for name in TECHNIQUES:
        spent = {key: 5.0 * (at + 1) for at, key in enumerate(final.PERCENTILES)}
        row = {"part": ratios.LATENCY, "technique": name, "operation": usual_operation(name)}
        found.append(row | spent | {"trace": [5.0, 6.0, 7.0]})
    return [*found, *({"part": ratios.MEMORY, "n": n} | dict.fromkeys(TECHNIQUES, 2 * n) for n in (1, 2))]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_c_oracle_answers_as_recompute_does(operation, tmp_path):
    values = seeded_numpy(1).integers(-50, 50, 3000)
    plain = compile_oracles(operation, tmp_path)
    assert set(plain) == set(contestants(operation))
    for windows in WINDOWS:
        expected = slide("recompute", OPERATIONS[operation], values, windows)
        for name, oracle in plain.items():
            got = np.zeros_like(expected)
            oracle(values, windows, got)
            np.testing.assert_array_equal(got, expected, err_msg=f"{name}, windows {windows}")
            short = np.zeros((len(windows), 37, 1), dtype=np.int64)
            oracle(values, windows, short)
            newest = np.arange(3000 - 37, 3000)
            np.testing.assert_array_equal(short[:, newest % 37], expected[:, newest], err_msg=name)


def test_without_a_compiler_there_are_no_oracles(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert compile_oracles("sum", tmp_path) == {}


@pytest.mark.parametrize("name", ["twostacks", "slideside_inv"])
def test_the_clock_sees_every_slide(name):
    values = np.arange(200)
    spent = slide_nanoseconds(name, usual_operation(name), values, 16, tries=4)
    assert spent.shape == (200 - 1 - 16,)


def test_a_wrong_answer_stops_the_benchmark():
    right, wrong = (throughput.slides("sum", ["soe"])["soe"] for _ in range(2))
    contest = {"right": right, "wrong": lambda values, windows, out: wrong(values + 1, windows, out)}
    with pytest.raises(AssertionError, match="wrong and right disagree"):
        throughput.check_answers(contest, np.arange(50), [4], np.zeros((1, 9, 1), dtype=np.int64))


def test_memory_is_that_of_the_fullest_moment():
    values = np.arange(40)[::-1]
    assert {name: peak_memory(name, 6, values) for name in ("recompute", "flatfat", "slickdeque")} == {
        "recompute": 6,
        "flatfat": 16,
        "slickdeque": 12,
    }


def test_ratios_are_of_the_best_rival(rows):
    place = {name: float(at + 1) for at, name in enumerate(TECHNIQUES)}
    found = ratios.figures(rows)
    assert found["bulk_over_slickdeque_sum"] == place["bulk"] / place["slickdeque_inv"]
    assert found["slickdeque_over_next_max_one"] == place["slickdeque"] / place["twostacks"]
    assert found["kernel_over_c_worst"] == 1.1


def test_every_part_has_a_table(rows):
    console = Console(width=200)
    with console.capture() as said:
        console.print(final.render(BenchmarkResult("final", rows, ratios.figures(rows))))
    for title in (
        "One query",
        "All queries",
        "Many queries",
        "plain C",
        "Nanoseconds",
        "Partials",
        "papers'",
    ):
        assert title in said.get()


@pytest.mark.slow
def test_plots_are_svg_and_the_same_for_the_same_numbers(rows, tmp_path):
    pytest.importorskip("matplotlib")
    first, again = (bench.draw(final, BenchmarkResult("final", rows, {}), tmp_path / side) for side in "ab")
    assert len(first) == 11
    for one, other in zip(first, again):
        assert one.read_bytes() == other.read_bytes()
        assert ElementTree.parse(one).getroot().tag.endswith("svg")


@pytest.mark.slow
def test_what_was_not_measured_is_noted_and_not_drawn(rows, tmp_path):
    pytest.importorskip("matplotlib")
    left = [row for row in rows if row["part"] not in (ratios.AGAINST_C, ratios.LATENCY)]
    assert len(final.notes(left)) == len(final.notes(rows)) + 2
    assert len(bench.draw(final, BenchmarkResult("final", left, {}), tmp_path)) == 8
