"""Every example runs, in small: its alerts are raised, and the README says what it shows."""

from __future__ import annotations

import dataclasses
import json
import runpy
from pathlib import Path

import pytest
from rich.console import Console

from support.places import EXAMPLES
from weft.io.sinks.folders import ToJson
from weft.jobs import launch
from weft.jobs.job import load
from weft.jobs.report import Report
from weft.jobs.sinks import ToSeveral
from weft.sql import sql

JOBS = sorted(EXAMPLES.glob("*/job.toml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", JOBS, ids=lambda p: p.parent.name)
def test_a_job_runs(path: Path, tmp_path: Path) -> None:
    job = load(path)
    rows = job.source.rows // 10
    source = dataclasses.replace(job.source, rows=rows, rate=job.source.rate / 5, batches=2)
    job = dataclasses.replace(job, sources={"": source}, sink=ToSeveral((ToJson(tmp_path),)))
    launch.run(job, "local", Report(Console(quiet=True)))
    names = [query.name for query in sql(job.sql)]
    assert len(names) >= 8
    for name in names:
        results = [
            json.loads(line) for f in (tmp_path / name).iterdir() for line in f.read_text().splitlines()
        ]
        if not name.startswith("alert_"):
            assert results, f"{name} has no results"


def test_the_join_finds_pairs_within_the_band() -> None:
    answers = runpy.run_path(str(EXAMPLES / "iot_join" / "run.py"))["main"](600)
    pairs = answers["alike"].to_pylist()
    assert pairs
    assert all(abs(pair["inside"] - pair["outside"]) <= 0.2 for pair in pairs)
    assert sum(answers["pairs_per_place"].column("pairs").to_pylist()) == len(pairs)
    assert 0 < answers["alike_warm"].num_rows < len(pairs)


def test_each_example_is_in_the_readme_with_its_command() -> None:
    text = (EXAMPLES / "README.md").read_text()
    folders = [p.parent.name for p in JOBS] + ["iot_join"]
    assert len(folders) == 4
    for folder in folders:
        assert f"make example-{folder}" in text
