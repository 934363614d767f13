"""Stories on Spark: files, micro-batches, Python workers and a checkpoint that is gone on with."""

from __future__ import annotations

import os
from functools import partial

import pytest
from pyspark.sql import SparkSession

from stories.check import tell
from stories.generate import make
from stories.on_spark import on_spark
from stories.story import told

SEED = os.environ.get("WEFT_SEED", "0")
CASES = int(os.environ.get("WEFT_SPARK_STORIES", "12"))


@pytest.mark.slow
def test_stories_on_spark_are_answered_as_the_oracle_answers_them(spark: SparkSession) -> None:
    for number in range(CASES):
        story = make(f"{SEED}:{number}", ["spark"])
        failure = tell(story, partial(on_spark, spark=spark))
        assert failure is None, f"{told(story)}\n{failure}"
