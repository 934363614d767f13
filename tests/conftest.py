"""Fixtures that many tests share, and what is shown of tests that fail."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import strategies  # noqa: F401  (loads the Hypothesis profile before any test is defined)
from support.seeds import SEEDS

# Plans and choices must not depend on what the developer's machine was measured to cost.
os.environ["WEFT_COSTS"] = str(Path(__file__).parent / "no-costs.json")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One small Spark for all tests."""
    from weft.spark import session

    running = session("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
    yield running
    running.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for Spark or a browser as slow, unless it is marked as fast."""
    for item in items:
        heavy = {"spark", "browser"}.intersection(getattr(item, "fixturenames", ()))
        if heavy and not item.get_closest_marker("fast"):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    SEEDS.file = collector.nodeid
    return (yield)


def pytest_runtest_protocol(item: pytest.Item) -> None:
    SEEDS.file = item.nodeid.partition("::")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the seeds to the report of a test that fails."""
    report = yield
    used = SEEDS.shown(item.nodeid.partition("::")[0])
    if report.failed and used:
        report.sections.append(("seeds, the latest last", used))
    return report
