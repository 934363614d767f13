"""Mixes on Spark: window queries, joins and aggregates over joins of the same streams, beside each alone."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from stories import mixes
from stories.on_spark import mix_on_spark
from stories.runners import in_this_process

SEED = os.environ.get("WEFT_SEED", "0")
CASES = int(os.environ.get("WEFT_SPARK_MIXES", "4"))


@pytest.mark.slow
def test_a_mix_on_spark_answers_as_each_query_alone(spark: SparkSession) -> None:
    for number in range(CASES):
        story = mixes.make(f"{SEED}:{number}", ["spark"])
        with mix_on_spark(story, spark) as stream:
            together = mixes.outcome_of(story, stream)
        with in_this_process(story.most_layers):
            failure = mixes.compare(story, together)
        assert failure is None, f"{mixes.told(story)}\n{failure}"
