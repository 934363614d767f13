"""The benchmark of the ring, at its smallest."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weft.cli import bench
from weft.cli.bench import BenchmarkResult

ring = bench.load("ring")


@pytest.fixture(scope="module")
def result() -> BenchmarkResult:
    scale = ring.Scale((1, 2, 12), (0.1,), ("small",), 13, (4,), 32, (3, 9), 15)
    return ring.measure(scale, lambda *_: None)


@pytest.mark.slow
def test_latency_has_its_minimum_where_theorem_9_puts_it(result: BenchmarkResult) -> None:
    some = [row for row in result.rows if row["part"] == "nodes"]
    assert [row["nodes"] for row in some] == [1, 2, 6, 12]
    assert min(some, key=lambda row: row["response"])["nodes"] == some[0]["theorem"] == 6
    assert min(some, key=lambda row: row["model"])["nodes"] == 6
    assert result.figures["theorem_over_best_max"] == 1


def test_state_of_the_schemes_is_in_the_thesis_order(result: BenchmarkResult) -> None:
    state = {row["scheme"]: row["state"] for row in result.rows if row["part"] == "schemes"}
    assert list(state) == list(ring.schemes(ring.chain(3, 0.1)[0], 4))
    assert state["PSP"] < state["PSP-I"] < state["CTR"] < state["ATR purged"] < state["ATR"]


def test_adaptation_pays_when_the_rate_rises(result: BenchmarkResult) -> None:
    rates = {(row["factor"], row["way"]): row for row in result.rows if row["part"] == "rate"}
    assert len(rates) == 6
    for factor in (2, 3):
        assert rates[factor, "aggressive"]["nodes"] > rates[factor, "fixed"]["nodes"]
        assert result.figures[f"fixed_over_aggressive_x{factor}"] > 1
        assert rates[factor, "passive"]["moved"] == 0 < rates[factor, "aggressive"]["moved"]


def test_tables_plots_and_the_docs_have_everything(result: BenchmarkResult, tmp_path) -> None:
    console = Console(width=200, file=io.StringIO())
    console.print(ring.render(result))
    (chosen,) = (r for r in result.rows if r["part"] == "nodes" and r["nodes"] == r["theorem"])
    assert f" 6 │ {chosen['response']:.1f} │" in console.file.getvalue()
    paths = ring.draw(result, tmp_path / "one")
    assert [path.stem for path in paths] == ["figure_16_2", "figure_16_4_state", "figure_16_7"]
    again = ring.draw(result, tmp_path / "two")
    assert [path.read_text() for path in paths] == [path.read_text() for path in again]
    text = (bench.folder().parent / "docs" / "benchmarks.md").read_text()
    section = text.split("## ring\n")[1].split("\n## ")[0]
    for figure in result.figures:
        assert f"`{figure}`".replace("_4`", "_N`") in section, figure
