"""The benchmark harness: found, listed, run and saved; without measuring anything."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from weft.cli import bench
from weft.errors import JobError

TINY = '''"""What it measures, in one line.

More.
"""
from weft.cli.bench import BenchmarkResult

def run(quick, progress):
    progress("work", 0, 1)
    return BenchmarkResult("tiny", [{"n": 1}], {"gain": 2.0 if quick else 3.0})

def render(result):
    return str(result.rows)
'''


@pytest.fixture
def place(tmp_path):
    (tmp_path / "tiny_one.py").write_text(TINY)
    (tmp_path / "_shared.py").write_text("")
    return tmp_path


def test_found_by_file_name(place):
    assert bench.names(place) == ["tiny-one"]


def test_loaded_run_and_saved(place, tmp_path):
    module = bench.load("tiny-one", place)
    assert bench.summary("tiny-one", place) == "What it measures, in one line."
    steps = []
    result = module.run(True, lambda *step: steps.append(step))
    assert steps == [("work", 0, 1)]
    bench.save([result], tmp_path / "out.json")
    saved = json.loads((tmp_path / "out.json").read_text())
    assert (saved["name"], saved["rows"], saved["figures"]) == ("tiny", [{"n": 1}], {"gain": 2.0})
    assert saved["machine"]["cores"] >= 1


def test_several_results_are_a_list(place, tmp_path):
    result = bench.load("tiny-one", place).run(False, lambda *step: None)
    bench.save([result, result], tmp_path / "out.json")
    assert len(json.loads((tmp_path / "out.json").read_text())) == 2


def test_an_unknown_name_gets_the_closest(place):
    with pytest.raises(JobError, match="did you mean 'tiny-one'"):
        bench.load("tiny-on", place)


def test_a_missing_package_is_named_and_the_list_does_without_it(place):
    (place / "lacking.py").write_text('"""Measures something."""\nimport no_such_package\n')
    assert bench.summary("lacking", place) == "Measures something."
    with pytest.raises(JobError, match="needs the package no_such_package; `make bench` installs it"):
        bench.load("lacking", place)


def test_without_a_checkout_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "__file__", str(tmp_path / "site-packages" / "weft" / "bench.py"))
    with pytest.raises(JobError, match="source checkout"):
        bench.names()


@pytest.mark.parametrize("name", bench.names())
def test_every_benchmark_has_the_two_functions_and_a_line(name):
    module = bench.load(name)
    assert callable(module.run)
    assert callable(module.render)
    assert 20 < len(bench.summary(name)) < 130


def test_costs_are_fitted_and_never_negative():
    module = bench.load("calibrate")
    table = module.features(list(module.CALLS))
    wanted = np.array([5000.0, 2.0, 10.0, 0.0, 0.5])
    found = module.fit(table, table @ wanted, np.ones(len(table)))
    assert found.tolist() == pytest.approx(wanted.tolist(), abs=1e-3)
    less = module.fit(table, table @ np.array([5000.0, 2.0, 10.0, -0.5, 0.5]), np.ones(len(table)))
    assert (less >= 0).all()


@pytest.mark.parametrize("name", ["row", "combine", "answer", "merge", "predicate"])
def test_what_calibration_measures_runs(name, monkeypatch):
    module = bench.load("calibrate")
    monkeypatch.setattr(module, "SPAN", 16)
    monkeypatch.setattr(module, "GROUPS", 2)
    few, many = sorted(module.CONSTANTS[name]().items())
    assert few[0] < many[0]
    for _, work in (few, many):
        work()


def test_predicates_together_and_one_by_one_agree(monkeypatch):
    module = bench.load("predicates")
    monkeypatch.setattr(module, "COUNTS", (2, 40))
    monkeypatch.setattr(module, "ROWS", 20_000)
    result = module.run(True, lambda *step: None)
    assert [row["predicates"] for row in result.rows] == [2, 40] * 3
    assert all(row["signatures"] > 1 for row in result.rows)
    assert all(value > 0 for value in result.figures.values())
    assert module.render(result).row_count == 6


@pytest.mark.slow
def test_the_comparison_with_spark_agrees_and_sums_up(spark, monkeypatch):
    module = bench.load("spark-native")
    monkeypatch.setattr(module, "COUNTS", (1, 5))
    monkeypatch.setattr(module, "QUICK_ROWS", 20_000)
    monkeypatch.setattr(module, "FILES", 2)
    monkeypatch.setattr(module, "TRIES", 1)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        result = module.run(True, lambda *step: None)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert [row["queries"] for row in result.rows] == [1, 5]
    assert all(value > 0 for value in result.figures.values())
    assert module.render(result).row_count == 2


@pytest.mark.slow
def test_peers_agree_and_are_summed_up(spark, monkeypatch, tmp_path):
    module = bench.load("peers")
    monkeypatch.setattr(module, "COUNTS", (1, 3))
    monkeypatch.setattr(module, "LARGE_COUNTS", (5,))
    monkeypatch.setattr(module, "QUICK_ROWS", 300_000)
    monkeypatch.setattr(module, "MAX_STREAMS", 2)
    monkeypatch.setattr(sys.modules["_flink"], "PYTHON", tmp_path / "not set up")
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        result = module.run(True, lambda *step: None)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert len(result.rows) == (len(module.RIVALS) - 1) * 2 + 1
    assert "Flink is not among them; `make flink` sets it up (about 850 MB)." in result.notes
    assert {"spark_streams_over_stream_3", "spark_streams_rows_per_second_3"} < set(result.figures)
    assert all(row["results"] > 0 for row in result.rows)
    assert all(value > 0 for value in result.figures.values())
    assert [path.name for path in module.draw(result, tmp_path)] == ["peers.svg"]
    wrong = [{**row, "answers": {"q000": ((1,), (1,))}} for row in result.rows]
    wrong[-1]["answers"] = {"q000": ((2,), (1,))}
    with pytest.raises(AssertionError, match="Polars, slices and weft disagree on q000"):
        module.agree(wrong)


@pytest.mark.slow
def test_a_breakdown_shows_where_the_time_goes(spark, monkeypatch):
    module = bench.load("breakdown")
    for name, value in {"QUICK_COUNTS": (2,), "QUICK_ROWS": 200_000, "FILES": 3, "SMALL_BATCHES": 3}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "SAMPLE_SECONDS", 0.0005)
    result = module.run(True, lambda *step: None)
    inside, whole, stream, small, *fresh = result.rows
    assert sum(inside["phases"].values()) == pytest.approx(1.0)
    assert inside["phases"]["partials"] > 0
    assert stream["laps"]["map"] > 0
    assert whole["laps"]["map"] > 0 and whole["batch"] >= whole["seconds"]
    assert small["rows"] == 1000
    assert [row["where"] for row in fresh] == ["fresh, in-process", "fresh, stream"]
    assert all(row["first"]["step"] >= row["first"]["tasks"] > 0 for row in fresh)
    first = {
        f"first_{of}_{where}" for of in ("step", "tasks", "compiled") for where in ("inprocess", "stream")
    }
    small_and_rows = {"small_step", "small_batch", "small_logs", "stream_rows_per_second_2"}
    assert set(result.figures) == small_and_rows | first


@pytest.mark.slow
def test_latency_is_measured_on_both_engines(spark, monkeypatch, tmp_path):
    module = bench.load("latency")
    settings = {"QUICK_WARM_UP": 1.0, "QUICK_SECONDS": 1.0, "RATE": 1000, "TRIGGERS": {None: 0}}
    for name, value in settings.items():
        monkeypatch.setattr(module, name, value)
    result = module.run(True, lambda *step: None)
    for row in result.rows:
        assert row["windows"] > 0
        assert row["delay"]["p50"] > 0
        assert row["delay"]["max"] <= row["waiting"]["max"] + row["working"]["max"]
    assert [row["batch"] is None for row in result.rows] == [False, True]
    assert {"spark_delay_p99", "inprocess_keeps_up"} < set(result.figures)
    assert [path.name for path in module.draw(result, tmp_path)] == ["latency.svg"]
    assert len(module.render(result).renderables) == 2


def test_a_delay_is_waiting_for_the_step_and_work_on_it(monkeypatch):
    module = bench.load("latency")
    monkeypatch.setattr(module, "RATE", 10)
    watch = module.Watch()
    for seq, (cut, came, ends) in enumerate([(99, 100, [98]), (102, 103, [98, 101]), (105, 107, [104, 105])]):
        watch.arrived[seq] = came, np.array(ends)
        watch.steps.append(SimpleNamespace(seq=seq, watermark=cut * 1e6, rows=40, seconds=0.5, results=2))
    found = module.summed_up(watch, since=100)
    # Windows that end at 101, 104 and 105, cut off at 102, 105 and 105, and delivered at 103, 107 and 107.
    assert (found["windows"], found["waiting"]["max"], found["working"]["max"]) == (3, 1, 2)
    assert (found["delay"]["p50"], found["delay"]["max"]) == (2, 3)
    assert (found["rows_per_second"], found["keeps_up"]) == (10, 1)
    assert (found["backlog_rows"], found["backlog_growth"]) == (20, 2)


def test_what_comes_is_taken_at_intervals():
    module = bench.load("latency")
    before = time.time()
    taken = module.at_intervals(iter("ab"), 0.01)
    assert (next(taken), next(taken)) == ("a", "b")
    assert time.time() >= before // 0.01 * 0.01 + 0.019


@pytest.mark.slow
def test_memory_is_measured_in_processes_of_their_own(monkeypatch):
    module = bench.load("memory")
    for name, value in {"QUICK_KEYS": (300,), "MINUTES": 6, "QUERIES": 5}.items():
        monkeypatch.setattr(module, name, value)
    result = module.run(True, lambda *step: None)
    sparse, dense = result.rows
    assert (sparse["cells"], dense["cells"]) == (6 * 20, 6 * 300)
    assert all(row["peak_bytes"] >= row["empty_bytes"] > row["state_bytes"] > 0 for row in result.rows)
    assert all(value > 0 for value in result.figures.values() if value)
    assert module.render(result).row_count == 2
    monkeypatch.setattr(module, "QUERIES", 10_000)
    with pytest.raises(RuntimeError, match="300 keys: the process ended with 1"):
        module.in_fresh_process(300, 1, 6)


def test_minutes_are_for_those_that_can_go_on(place):
    with pytest.raises(JobError, match="'tiny-one' ends of itself; leave out --minutes"):
        bench.with_minutes(bench.load("tiny-one", place), "tiny-one", 2.0)
    (place / "endless.py").write_text(TINY.replace("run(quick, progress)", "run(quick, progress, minutes=1)"))
    assert bench.with_minutes(bench.load("endless", place), "endless", 2.0) == {"minutes": 2.0}
