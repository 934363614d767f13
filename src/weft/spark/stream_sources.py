"""Any mix of DataFrames, files and ranges as one stream of Spark's, which drives them and keeps all offsets.

One stream alone is its DataFrame as it is, the names of its files or its ranges. Several are united: ``tag``
is the number of a row's stream, and rows of DataFrames have columns of their own. Names and ranges come to
the driver, which shares them out to tasks; rows never do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple, TypeAlias

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, lit

from weft.errors import JobError
from weft.io.files import Files
from weft.io.sources.ranges import Range, Ranged, between, share_out
from weft.runner.reads import Reads
from weft.spark.batch_files import NAMES, ByStream, in_order, names_of
from weft.spark.failure import surfaced
from weft.spark.file_steps import FileSteps, Settle
from weft.spark.pace import Pace
from weft.spark.ranges import RANGE_COLUMNS, ranges_of
from weft.spark.stream_inputs import (
    SHARE,
    SHARE_TAG,
    TAG,
    FileShare,
    FrameRows,
    RangeShare,
    Share,
    StreamInput,
    one_task,
)

Source: TypeAlias = DataFrame | Files | Ranged
RangesByStream: TypeAlias = Mapping[str, Sequence[Range]]

FIRST_LOOK_ROWS = 1024
"""Rows in which names and ranges are looked for, before rows of DataFrames."""


class JobRows(NamedTuple):
    """The rows of a step: a frame, how its tasks read them, and the files left out because they are bad."""

    frame: DataFrame
    input: StreamInput
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BatchPart:
    """The part of a batch that one step takes; ``taken`` is how far it is taken then, None: to its end."""

    rows: Callable[[Reads], JobRows]
    taken: int | None = None


def sources_of(sources: Mapping[str, Source], spark: SparkSession, pace: Pace | None = None) -> StreamSources:
    """Return the one source of batches that drives all streams; ``pace`` is for those of files."""
    return StreamSources(sources, spark, pace)


def rows_now(sources: Mapping[str, Source], spark: SparkSession, reads: Reads) -> JobRows:
    """Return all rows that there are now, of sources that are no streams of Spark's."""
    kinds = _Kinds(sources)
    ranges: dict[str, Sequence[Range]] = {}
    for stream, source in kinds.ranged.items():
        start = source.first()
        ranges[stream] = between(start, source.latest(start))
        source.check(ranges[stream])
    files = {stream: source.find() for stream, source in kinds.files.items()}
    frames = {stream: frame for stream, frame in kinds.frames.items() if stream in reads}
    return kinds.job(kinds.united(frames) if frames else None, files, ranges, reads, spark)


class StreamSources:
    """Batches of all streams; ``frame`` is the streaming DataFrame that drives them."""

    def __init__(self, sources: Mapping[str, Source], spark: SparkSession, pace: Pace | None = None) -> None:
        self._kinds = kinds = _Kinds(sources)
        if pace is not None and not kinds.files:
            raise JobError("target_batch needs a source of files that weft reads itself, weft.Files")
        self._steps = FileSteps(kinds.files, pace)
        names = {stream: names_of(files, spark) for stream, files in kinds.files.items()}
        ranges = {stream: ranges_of(source, spark) for stream, source in kinds.ranged.items()}
        # With all columns: a query that is added later may read any of them.
        with surfaced():
            self.frame = kinds.united({**names, **ranges, **kinds.frames})

    def parts(self, batch: DataFrame, batch_id: int, taken: int, settle: Settle) -> Iterator[BatchPart]:
        """Yield one of Spark's batches as one or more steps, without what is ``taken`` of it.

        The first has all that are no files. The next is asked for when the step is done.
        """
        kinds, session = self._kinds, batch.sparkSession
        rows = kinds.descriptors(batch)
        listed = {s: in_order(files, kinds.of(s, rows)) for s, files in kinds.files.items()}
        ranges = {
            s: [Range(*(row[c] for c in RANGE_COLUMNS)) for row in kinds.of(s, rows)] for s in kinds.ranged
        }
        for step in self._steps.of_batch(batch_id, listed, taken, settle):
            others = (None, {}) if taken else (batch, ranges)
            yield BatchPart(partial(self._job, others, step.files, session), step.taken)
            taken = step.taken or 0

    def _job(
        self,
        others: tuple[DataFrame | None, RangesByStream],
        files: ByStream,
        session: SparkSession,
        reads: Reads,
    ) -> JobRows:
        return self._kinds.job(others[0], files, others[1], reads, session)


class _Kinds:
    """Sources by kind, each stream with its tag: files and ranges before DataFrames, and then by name.

    Spark keeps offsets by the place of a source in the union: this order is part of the checkpoint's format.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        streams = sorted(sources, key=lambda stream: (isinstance(sources[stream], DataFrame), stream))
        self.tags = {stream: number for number, stream in enumerate(streams)}
        self.frames = {s: f for s in streams if isinstance(f := sources[s], DataFrame)}
        self.files = {s: f for s in streams if isinstance(f := sources[s], Files)}
        self.ranged = {s: f for s in streams if isinstance(f := sources[s], Ranged)}

    @property
    def is_alone(self) -> bool:
        """Return whether there is one stream only, whose rows need no tag."""
        return len(self.tags) == 1

    def united(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Return the frames of streams as one: of files their names, of ranged sources the ranges."""
        if self.is_alone:
            (frame,) = frames.values()
            return frame
        tagged = []
        for stream in sorted(frames, key=self.tags.__getitem__):
            frame = frames[stream]
            if stream in self.frames:
                # Names that need no quotes, and that no other stream has.
                frame = frame.toDF(*(self._column(stream, n) for n in range(len(frame.columns))))
            tagged.append(frame.select(lit(self.tags[stream]).alias(TAG), "*"))
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), tagged)

    def descriptors(self, batch: DataFrame) -> list[Row]:
        """Collect the names of files and the ranges of a batch.

        Spark hands over a batch as rows to be computed, whatever is left of them then: a filter does not keep
        it from reading DataFrames to the end. But rows come in the order of the union, and Spark stops with
        the rows it was asked for: it reads hardly any but those at its front.
        """
        if not self.files and not self.ranged:
            return []
        if not self.frames:
            return batch.collect()
        columns = [TAG, *(NAMES if self.files else ()), *(RANGE_COLUMNS if self.ranged else ())]
        first_frame, looked_at = len(self.files) + len(self.ranged), FIRST_LOOK_ROWS
        while True:
            rows = batch.select(*columns).take(looked_at)
            if len(rows) < looked_at or rows[-1][TAG] >= first_frame:
                return [row for row in rows if row[TAG] < first_frame]
            looked_at *= 8

    def of(self, stream: str, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the descriptors of one stream."""
        return rows if self.is_alone else [row for row in rows if row[TAG] == self.tags[stream]]

    def job(
        self,
        batch: DataFrame | None,
        files: ByStream,
        ranges: RangesByStream,
        reads: Reads,
        spark: SparkSession,
    ) -> JobRows:
        """Make the frame of a job: the rows of ``batch`` that are of DataFrames, and shares of the rest.

        Streams and columns that are not read are left out.
        """
        shares, skipped = self._shares(files, ranges, reads, spark.sparkContext.defaultParallelism)
        frames = tuple(self._frame_rows(s, reads) for s in self.frames if s in reads and batch is not None)
        tasks = one_task(spark, max(1, len(shares)))
        read = StreamInput(frames, tuple(shares))
        if batch is None or not frames:
            return JobRows(tasks, read, skipped)
        if self.is_alone:
            names = reads[frames[0].stream].schema.names
            quoted = ["`" + name.replace("`", "``") + "`" for name in names]
            columns = [col(name).alias(alias) for name, alias in zip(quoted, frames[0].columns)]
            return JobRows(batch.select(*columns), read, skipped)
        read_columns = [name for frame in frames for name in frame.columns]
        rows = batch.where(col(TAG).isin([frame.tag for frame in frames])).select(TAG, *read_columns)
        if shares:
            numbers = tasks.select(lit(SHARE_TAG).alias(TAG), SHARE)
            rows = rows.unionByName(numbers, allowMissingColumns=True)
        return JobRows(rows, read, skipped)

    def _shares(
        self, files: ByStream, ranges: RangesByStream, reads: Reads, tasks: int
    ) -> tuple[list[Share], tuple[str, ...]]:
        """Share out the files and ranges that are read to at most so many tasks a stream."""
        shares: list[Share] = []
        skipped: list[str] = []
        for stream, source in self.files.items():
            present = [file for file in files[stream] if file.size] if stream in reads else []
            if present:
                splits, left_out = source.splits(present, tasks)
                shares += [FileShare(stream, source, share) for share in splits]
                skipped += left_out
        for stream, spans in ranges.items():
            if spans and stream in reads:
                shares += [RangeShare(stream, self.ranged[stream], s) for s in share_out(spans, tasks)]
        return shares, tuple(skipped)

    def _frame_rows(self, stream: str, reads: Reads) -> FrameRows:
        if self.is_alone:
            return FrameRows(stream, tuple(f"c{n}" for n in range(len(reads[stream].schema))))
        places = {name: n for n, name in enumerate(self.frames[stream].columns)}
        columns = tuple(self._column(stream, places[name]) for name in reads[stream].schema.names)
        return FrameRows(stream, columns, self.tags[stream])

    def _column(self, stream: str, number: int) -> str:
        return f"c{self.tags[stream]}_{number}"
