"""Options of ``share`` and ``stream``, the two ways to run on Spark."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Annotated, Any

from pyspark.sql import SparkSession

from weft.io.sinks import Sink
from weft.runner.lateness import Lateness
from weft.runner.options import Default, PlanningOptions
from weft.runner.progress import Progress


class ShareOptions(PlanningOptions, total=False):
    """Options of ``weft.share``: queries over rows that are there."""

    buckets: int | None
    """The parts that groups are spread over: one per core, or as many as a checkpoint has; another number
    given over a checkpoint splits its state again."""

    spark: SparkSession | None
    """The session for sources that weft reads itself; the running one, or a new one, where not given."""


class StreamOptions(ShareOptions, total=False):
    """Options of ``weft.stream``."""

    lateness: Lateness
    """The time to wait for rows out of order, of all streams or of each by its name. A run that has an end
    and no checkpoint waits for all rows where it is not given."""

    checkpoint: str | os.PathLike[str] | None
    """The directory that state is kept in, for a run that goes on with it. Without one, state lives in a
    temporary folder and ends with the run."""

    trigger: str | None
    """When a batch begins: as soon as the last is done (None), at an interval such as ``"5 seconds"``, or
    ``"available now"``: take the rows that are there and end."""

    idle_timeout: str | datetime.timedelta | None
    """Answer the windows still open whenever no row has come for so long; rows that come for them later are
    late. A partition of a topic (after a minute), or one of several joined streams, that has been silent for
    so long holds the watermark back no more."""

    close_at_end: bool | None
    """Answer the windows still open at the end. Where not given: if there is no checkpoint; with one, they
    stay open for the run that goes on."""

    on_progress: Callable[[Progress], Any] | None
    """A function that is called after each step."""

    late: Sink | None
    """A sink for the rows that missed a window, in a table ``late``: the columns, the reason and the
    watermark then."""

    target_batch: str | datetime.timedelta | None
    """The time that a step over files should take: each takes as many files, of those that Spark has found,
    as the steps before suggest."""

    max_ahead: str | datetime.timedelta | None
    """A row that is further ahead of the clock (an hour, where not given) counts in its own windows and moves
    no watermark."""

    nodes: int | None
    """The nodes that the state of joins is spread over: another word for buckets."""

    chain: Annotated[str | float, Default("mem-opt")]
    """The slices of joins: ``mem-opt``, ``cpu-opt``, or the most rows they may keep; the last two are chosen
    anew when measured rates make others clearly cheaper."""
