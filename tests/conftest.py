"""Fixtures that many tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import strategies  # noqa: F401  (loads the Hypothesis profile before any test is defined)

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
