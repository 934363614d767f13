"""One Spark job for a step: map tasks, exchanges where joins need them, bucket tasks level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.operators.contract import Marks, Note
from weft.operators.joins.stage import JOINED
from weft.operators.times import Seen
from weft.operators.windows.sharing import SharingChoice, total
from weft.runner.clock import StreamTime
from weft.runner.delivery import in_order
from weft.runner.parcels import Parcel, ParcelKind
from weft.runner.program import Program
from weft.runner.request import StepRequest
from weft.spark.failure import surfaced
from weft.spark.parcels import PARCEL_ROWS, from_batches
from weft.spark.session import shipping
from weft.spark.shipping import ShippedProgram, ShippedTables
from weft.spark.step_tasks import BucketTask, MapTask, RelayTask
from weft.spark.stream_inputs import StreamInput, one_task
from weft.store.log import AnswerFile, StateLayer


@dataclass(frozen=True)
class StepJob:
    """A program made ready for tasks, the request of a step, and the tables that it looks up."""

    program: Program
    shipped: ShippedProgram
    request: StepRequest
    tables: ShippedTables

    def plan(self, frame: DataFrame, rows: StreamInput) -> DataFrame:
        """Plan the job as a DataFrame of parcels: reports, and results where there is no checkpoint."""
        job = frame.mapInArrow(MapTask(self.shipped, self.request, rows, self.tables), PARCEL_ROWS)
        behind: list[Any] = [
            RelayTask(self.shipped, self.request, number)
            for number in range(self.program.rounds if self.request.buckets > 1 else 0)
        ]
        behind += [BucketTask(self.shipped, self.request, level) for level in range(len(self.program.levels))]
        for task in behind:
            job = job.repartitionById(self.request.buckets, "bucket").mapInArrow(task, PARCEL_ROWS)
        return job

    def run(self, frame: DataFrame, rows: StreamInput) -> JobOutcome:
        """Run the job and gather the reports of its buckets."""
        with surfaced(), shipping(frame.sparkSession):
            parcels = list(from_batches([self.plan(frame, rows).toArrow()], self.program))
        if not parcels:
            # Spark plans nothing at all for a frame without partitions; the buckets must run all the same.
            return self.run(one_task(frame.sparkSession), StreamInput())
        return outcome_of(parcels, self.program, self.request)


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of a job, put together from the reports of its bucket tasks.

    ``layers`` are those of each stage and bucket, ``answers`` the files that were written; ``results`` are
    there only where there is no checkpoint. Where queries ``failed`` it has given nothing else, and is to be
    run without them.
    """

    reports: Sequence[Mapping[str, Any]]
    failed: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    streams: Mapping[str, StreamTime] = field(default_factory=dict)
    marks: Mapping[str, Marks] = field(default_factory=dict)
    layers: Mapping[str, tuple[tuple[StateLayer, ...], ...]] = field(default_factory=dict)
    answers: tuple[AnswerFile, ...] = ()
    results: Mapping[str, pa.Table] = field(default_factory=dict)
    notes: Mapping[str, Sequence[Note]] = field(default_factory=dict)

    @property
    def first(self) -> Mapping[str, Any]:
        """The report of the first bucket: all have heard the same of the rows."""
        return self.reports[0]

    @property
    def choices(self) -> list[SharingChoice]:
        """The sharing of the rows, group-by by group-by."""
        notes = (note for lots in self.notes.values() for note in lots)
        return total(SharingChoice.from_dict(c) for note in notes for c in note.get("choices", ()))

    @property
    def result_count(self) -> int:
        """The number of results."""
        return sum(sum(report["results"].values()) for report in self.reports)

    def breakdown(self) -> dict[str, float]:
        """Return where the time of the slowest tasks went."""
        laps: dict[str, float] = {"map": self.first["map"]}
        for report in self.reports:
            prefix = "results " if report["level"] else ""
            for name, seconds in report["seconds"].items():
                laps[prefix + name] = max(laps.get(prefix + name, 0.0), seconds)
        return laps


def outcome_of(parcels: Sequence[Parcel], program: Program, request: StepRequest) -> JobOutcome:
    """Read the outcome from the parcels of bucket tasks."""
    reports = sorted(
        (p.content for p in parcels if p.kind is ParcelKind.REPORT),
        key=lambda report: (report["level"], report["bucket"]),
    )
    failed = {name: message for report in reports for name, message in report["failed"].items()}
    if failed:
        return JobOutcome(reports, failed)
    first = reports[0]
    seen = {stream: Seen(**counts) for stream, counts in first["seen"].items()}
    given: dict[str, Seen] = {}
    notes: dict[str, list[Note]] = {}
    for report in reports:
        for own in (report.get("came", {}), report["notes"]):
            for stage, lots in own.items():
                notes.setdefault(stage, []).extend(lots)
        if bad := sum(note.get("bad", 0) for lots in report["notes"].values() for note in lots):
            given[JOINED] = given.get(JOINED, Seen()) + Seen(bad=bad)
        for stream, lots in report.get("given", {}).items():
            for lot in lots:
                given[stream] = given.get(stream, Seen()) + Seen(late=lot["late"], bad=lot["bad"])
                for stage, note in lot["notes"].items():
                    notes.setdefault(stage, []).append(note)
    seen |= given
    tables: dict[str, list[pa.Table]] = {}
    for parcel in sorted((p for p in parcels if p.kind is ParcelKind.RESULT), key=lambda p: p.bucket):
        tables.setdefault(parcel.part, []).append(parcel.content)
    before = request.time.streams
    streams = {
        name: StreamTime(
            before.get(name, StreamTime()).seen + seen.get(name, Seen()), time["mark"], time["heard"]
        )
        for name, time in first["streams"].items()
    }
    for name, counts in given.items():
        earlier = before.get(name, StreamTime())
        streams[name] = replace(earlier, seen=earlier.seen + counts)
    return JobOutcome(
        reports,
        seen=seen,
        streams=streams,
        marks=first["marks"],
        layers=_layers(reports, program),
        answers=tuple(AnswerFile(**r["answers"]) for r in reports if r.get("answers")),
        results={name: in_order(lots) for name, lots in tables.items()},
        notes=notes,
    )


def _layers(
    reports: Sequence[Mapping[str, Any]], program: Program
) -> dict[str, tuple[tuple[StateLayer, ...], ...]]:
    """Return the layers of each stage, bucket by bucket."""
    layers: dict[str, list[tuple[StateLayer, ...]]] = {stage.name: [] for stage in program.stages}
    for report in reports:
        for stage, state in report["stages"].items():
            layers[stage].append(tuple(map(StateLayer.from_dict, state.get("layers", ()))))
    return {stage: tuple(buckets) for stage, buckets in layers.items()}
