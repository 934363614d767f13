"""The Spark session, and the settings that make handing rows to Python cheap."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from weft.errors import JobError
from weft.expr.types import UTC, read_zone
from weft.spark.java import provide_java

ZONE = "spark.sql.session.timeZone"

QUIET_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What fails is raised, in one line; Spark's log would put a page of Java before it.
    "spark.log.level": "FATAL",
    ZONE: UTC,
}

WORKER_SETTINGS = {
    # Over TCP, each way between the JVM and a Python worker waits some forty milliseconds for an
    # acknowledgement that is delayed (Nagle's algorithm); Spark turns that off nowhere.
    "spark.python.unix.domain.socket.enabled": "true",
    # Ends workers quietly, and forks them with weft imported.
    "spark.python.daemon.module": "weft.spark.daemon",
}

ARROW_SETTINGS = {
    # The largest value turns off a look at the size of the batch after every single row, which costs
    # more than all the rest of the way from the JVM to Python together: batches end by rows alone.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Batches that end by rows alone may hold more than the 2 GB of text that small offsets reach.
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}

JOB_SETTINGS = ARROW_SETTINGS | {
    # The two stages of a job are known beforehand: planning the second anew after the first gains nothing.
    "spark.sql.adaptive.enabled": "false",
}


def session(
    master: str | None = None, conf: Mapping[str, str] | None = None, zone: str | None = None
) -> SparkSession:
    """Get the running Spark session, or start one: quiet, in UTC, with workers of this very Python.

    ``master`` is ``local[*]`` unless ``conf`` or spark-submit says otherwise. ``zone`` is the time zone that
    the session must have; one that runs is not changed.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        there = zone_of(running)
        if zone is not None and read_zone(zone) != there:
            raise JobError(
                f"the Spark session that is running has its local times in {there}, not in {zone}; "
                f"set its {ZONE}, or leave out zone in [stream]"
            )
        if master is None and not conf:
            return running
        zone = there
    settings = {**_settings(master, conf or {}), **({} if zone is None else {ZONE: read_zone(zone)})}
    provide_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("weft")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if running is None:
        spark.sparkContext.setLogLevel(spark.conf.get("spark.log.level") or QUIET_SETTINGS["spark.log.level"])
    return spark


def zone_of(spark: SparkSession) -> str:
    """The zone of a session's local times."""
    zone = str(spark.conf.get(ZONE))
    try:
        return read_zone(zone)
    except JobError as error:
        raise JobError(f"the session's {ZONE} cannot be used: {error}") from None


def _settings(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    settings = {**QUIET_SETTINGS, **ARROW_SETTINGS, **(WORKER_SETTINGS if os.name == "posix" else {}), **conf}
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is not None:
        settings["spark.master"] = master
    elif not submitted:
        settings.setdefault("spark.master", "local[*]")
    if settings.get("spark.master", "").startswith(("local", "spark://127.0.0.1")):
        # Without a network, the machine's own name may not resolve.
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    if "NUMBA_CACHE_DIR" in os.environ:
        settings.setdefault("spark.executorEnv.NUMBA_CACHE_DIR", os.environ["NUMBA_CACHE_DIR"])
    return settings


@contextmanager
def shipping(spark: SparkSession) -> Iterator[None]:
    """In the block, this session hands rows to Python in the cheapest way."""
    before = {name: spark.conf.get(name, None) for name in JOB_SETTINGS}
    for name, value in JOB_SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, old) if old is not None else spark.conf.unset(name)
