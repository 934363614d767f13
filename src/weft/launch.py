"""Runs a `Job`: its source and sink made, its queries planned, on Spark or in this process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

import weft
from weft import generate
from weft.engine.program import compile_plan
from weft.errors import JobError
from weft.job import FilesSource, GeneratorSource, Job, SparkSource
from weft.local import LocalRun
from weft.report import Report
