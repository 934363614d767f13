"""``stream``: any mix of queries over one stream or several, exactly once; Spark drives and replays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Unpack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.errors import CheckpointError, JobError
from weft.io.files import Files
from weft.io.filesystem import join
from weft.io.sinks import CheckingSink, Sink
from weft.io.sources.ranges import Ranged
from weft.model.duration import parse_optional, parse_trigger
from weft.operators.lookups.tables import LookupTables
from weft.operators.watermark import TimeRules
from weft.planning.plan import Plan
from weft.runner.delivery import Delivery
from weft.runner.lateness import read_lateness, time_rules
from weft.runner.opening import claim_turn
from weft.runner.options import filled, with_options
from weft.runner.version_keeper import VersionKeeper
from weft.spark.claim import Claim
from weft.spark.driver import StreamDriver
from weft.spark.failure import surfaced
from weft.spark.options import StreamOptions
from weft.spark.pace import Pace
from weft.spark.run import Run
from weft.spark.session import zone_of
from weft.spark.setup import check_buckets, compiler_of, queries_of, sources_by_name
from weft.spark.sinks import as_sink
from weft.spark.spark_log import LOG, check_log
from weft.spark.stream_sources import sources_of
from weft.sql.read import QueryInput
from weft.store.checkpoint import Checkpoint
from weft.store.log import Entry
from weft.store.split import split_again


@with_options(StreamOptions)
@surfaced()
def stream(
    source: DataFrame | Files | Ranged | Mapping[str, DataFrame | Files | Ranged],
    queries: Iterable[QueryInput] | Plan | str,
    time: str | Mapping[str, str],
    *,
    sink: Sink | Callable[..., Any],
    **options: Unpack[StreamOptions],
) -> Run:
    """Answer all queries over a streaming DataFrame, or over files, a Kafka topic or generated rows as they
    arrive; returns at once.

    Joins, and queries over several streams, are given a mapping from each stream to its source, of any kind;
    ``time`` names the time column of all streams or of each.

    Without a checkpoint, the windows still open are answered at the end, and no row is late unless a
    ``lateness`` is given. With one, they stay open for the run that goes on.

    Local times (``hour(ts)``, dates, literals) are those of the session's time zone, whatever the source; a
    run that goes on with a checkpoint must have the zone that it was written with.

    Queries and joins may come and go while it runs (``Run.add``, ``drop``, ``replace``). A run that goes on
    with a checkpoint has the queries that were there at its end; those given here are compared with those
    given at the start before, and what has changed among them changes with the first batch.
    """
    options = filled(StreamOptions, options, "stream")
    streams = sources_by_name(source, time, options["spark"])
    for name, given in streams.sources.items():
        if isinstance(given, DataFrame) and not given.isStreaming:
            which = f"the DataFrame of {name!r}" if name else "this DataFrame"
            raise JobError(f"{which} is not a stream; make it with spark.readStream, or use weft.share")
    session, timing = streams.session, _Timing.of(options, streams.sources)
    target = parse_optional(options["target_batch"], "target_batch")
    sources = sources_of(streams.sources, session, None if target is None else Pace(target / 1e6))
    claim = Claim(options["checkpoint"])
    checkpoint = Checkpoint(claim.place)
    check_log(checkpoint)
    _check_engine(checkpoint)
    buckets = _buckets(checkpoint.last, options["nodes"], options["buckets"], session)
    lookups, given_sink = LookupTables(options["tables"]), as_sink(sink, session)
    base, plan = queries_of(queries), queries if isinstance(queries, Plan) else None
    compiler = compiler_of(streams, base, plan, lookups, buckets, zone_of(session), options)
    accept = given_sink.check if isinstance(given_sink, CheckingSink) else None
    running, _ = claim_turn(checkpoint, compiler, base, accept)
    split_again(checkpoint, running.program, buckets)
    lateness = {name: rule.lateness for name, rule in timing.rules.items()}
    delivery = Delivery(given_sink, checkpoint.stream if claim.is_kept else "run", options["late"])
    delivery.catch_up(checkpoint, running.program)
    driver = StreamDriver(
        session,
        running,
        checkpoint,
        VersionKeeper(checkpoint, compiler, base, lateness),
        delivery,
        timing.rules,
        lookups,
        buckets,
        None if timing.idle is None else round(timing.idle * 1e6),
    )
    writer = timing.writer(sources.frame, claim.place)
    return Run(writer, driver, sources, timing.idle, timing.close_at_end, options["on_progress"], claim)


def _check_engine(checkpoint: Checkpoint) -> None:
    if checkpoint.last is not None and checkpoint.last.offsets:
        raise CheckpointError(
            f"checkpoint '{checkpoint.place}' was written by the in-process engine, which keeps offsets "
            "itself; go on with it there (weft.run, --engine local), or use another checkpoint directory"
        )


def _buckets(last: Entry | None, nodes: int | None, buckets: int | None, session: SparkSession) -> int:
    """Return the buckets of a run: those asked for, those of its checkpoint, or one for each core.

    Nodes are buckets, in the papers' word for those of joins.
    """
    if nodes is not None and buckets is not None and nodes != buckets:
        raise JobError(f"nodes={nodes} and buckets={buckets} say different things; give one of them")
    asked = buckets if nodes is None else nodes
    if asked is None and last is not None and last.buckets:
        return last.buckets
    return check_buckets(asked, session)


class _Timing(NamedTuple):
    """Rules of the watermarks, seconds without any row after which windows are answered, Spark's trigger."""

    rules: Mapping[str, TimeRules]
    idle: float | None
    trigger: dict[str, Any]
    close_at_end: bool

    @classmethod
    def of(cls, options: StreamOptions, streams: Mapping[str, Any]) -> _Timing:
        """Read the options about time; with a checkpoint, another run may go on."""
        idle, trigger = (
            parse_optional(options["idle_timeout"], "idle_timeout"),
            read_trigger(options["trigger"]),
        )
        ends, goes_on = "availableNow" in trigger, options["checkpoint"] is not None
        closes = options["close_at_end"]
        if closes and not ends:
            raise JobError("close_at_end needs an end: set trigger='available now', or use idle_timeout")
        if closes is None:
            closes = ends and not goes_on
        rules = time_rules(
            read_lateness(options["lateness"], streams),
            parse_optional(options["max_ahead"], "max_ahead"),
            idle,
            tuple(streams) if closes else (),
            goes_on=goes_on,
        )
        # Spark reads in its own order: what is left of the input is not known.
        rules = {name: replace(rule, whole=False) for name, rule in rules.items()}
        return cls(rules, None if idle is None else idle / 1e6, trigger, closes)

    def writer(self, frame: DataFrame, place: str) -> DataStreamWriter:
        """Return Spark's writer of a stream over a checkpoint."""
        writer = frame.writeStream.option("checkpointLocation", join(place, LOG))
        return writer.trigger(**self.trigger) if self.trigger else writer


def read_trigger(trigger: str | None) -> dict[str, Any]:
    """Return the arguments of Spark's ``trigger``.

    >>> read_trigger("available now"), read_trigger("5 s"), read_trigger(None)
    ({'availableNow': True}, {'processingTime': '5000 milliseconds'}, {})
    """
    if trigger is None:
        return {}
    interval = parse_trigger(trigger)
    if interval is None:
        return {"availableNow": True}
    return {"processingTime": f"{interval // 1000} milliseconds"}
