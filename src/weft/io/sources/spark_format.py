"""``kind = "spark"`` of a job file: declared here, without Spark, and made by ``weft.spark.readers``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

from weft.errors import JobError
from weft.io.kinds import SourceKind, SparkInput
from weft.io.settings import Options


@dataclass(frozen=True, slots=True)
class FromSpark(SourceKind):
    """Any format that Spark's `readStream` knows (Kafka, rate, Delta, ...)."""

    kind: ClassVar[str] = "spark"

    format: str
    """the name of the format"""
    options: Options = field(default_factory=lambda: Options({}))
    """a table of the format's options"""
    schema: str | None = None
    """columns and types as Spark writes them: `"ts timestamp, price double"`"""

    def make(self) -> NoReturn:
        """Refuse: only Spark reads it."""
        raise JobError(
            "kind = 'spark' needs Spark: leave out --engine local, or use kind = 'files' or 'kafka'"
        )

    def spark_input(self) -> SparkInput:
        """Return the format with its options and columns."""
        return SparkInput(self.format, self.options, self.schema)
