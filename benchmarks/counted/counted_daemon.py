"""Spark's daemon of Python workers, with counters in it; Spark runs this module by its name."""

from __future__ import annotations

import runpy
import time

import counters

if __name__ == "__main__":
    counters.install()
    # Notes between tasks say how long work took: with a clock that stands still they have the same bytes,
    # and so has what is shuffled.
    time.perf_counter = lambda: 0.0
    runpy.run_module("weft.spark.daemon", run_name="__main__")
