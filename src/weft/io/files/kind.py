"""``kind = "files"`` of a job file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from weft.errors import JobError
from weft.io.files.source import FORMATS, Files
from weft.io.kinds import SourceKind, SparkInput
from weft.io.settings import Options

ANY_AGE = "1000000d"
"""Spark would pass over files that are a week older than the newest."""


def check_format(name: str, section: str) -> None:
    """Raise JobError for a format of files that weft does not read."""
    if name not in FORMATS:
        raise JobError(f"[{section}] format must be one of {', '.join(FORMATS)}, not '{name}'")


@dataclass(frozen=True, slots=True)
class FromFiles(SourceKind):
    """A folder of files, as it is now or as files arrive, oldest first."""

    kind: ClassVar[str] = "files"

    path: Path
    """a folder (with all below it), a glob or a file"""
    format: str = "parquet"
    """`"parquet"`, `"csv"` or `"json"` (one object per line)"""
    schema: Options | None = None
    """a table of columns and types: `{ ts = "timestamp", price = "double" }`. Left out: from the first
    file"""
    max_files_per_batch: int | None = None
    """at most so many files in one step, the oldest first. Left out: all there are"""
    direct: bool = True
    """weft's tasks read the files; `false` lets Spark read them and hand the rows over"""
    on_bad_file: str = "fail"
    """`"skip"` leaves a file that cannot be read out, and reports it"""
    delimiter: str = ","
    """what stands between the values of a CSV file"""
    header: bool = True
    """whether a CSV file begins with the names of its columns; without them it needs a `schema`"""
    quote: str = '"'
    """what stands around values of a CSV file that hold a delimiter"""

    def check(self, section: str) -> None:
        """Refuse formats that weft does not read."""
        check_format(self.format, section)

    def make(self) -> Files:
        """Make the files, read by weft itself."""
        return Files(
            self.path,
            format=self.format,
            schema=self.schema,
            max_files_per_batch=self.max_files_per_batch,
            on_bad_file=self.on_bad_file,
            delimiter=self.delimiter,
            header=self.header,
            quote=self.quote,
        )

    def spark_input(self) -> SparkInput | None:
        """Return the files as Spark reads them, unless weft's tasks do."""
        if self.direct:
            return None
        options = {"maxFileAge": ANY_AGE}
        if self.max_files_per_batch is not None:
            options["maxFilesPerTrigger"] = str(self.max_files_per_batch)
        if self.format == "csv":
            options |= {"header": str(self.header).lower(), "sep": self.delimiter, "quote": self.quote}
        return SparkInput(self.format, options, self.make().stream_schema(), str(self.path))
