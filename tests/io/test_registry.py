"""Kinds of sources and sinks: found where they are declared, and all that a kind must have is there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from weft.io.kinds import SinkKind, SourceKind
from weft.io.registry import SINKS, SOURCES, find_kinds

KINDS = [*SOURCES.values(), *SINKS.values()]


def test_the_kinds_of_this_version() -> None:
    assert set(SOURCES) == {"files", "kafka", "generator", "spark"}
    assert set(SINKS) == {"console", "memory", "parquet", "json", "postgres", "kafka", "webhook", "python"}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_is_frozen_settings_that_say_what_they_are(kind: type[SourceKind] | type[SinkKind]) -> None:
    assert is_dataclass(kind) and kind.__dataclass_params__.frozen
    assert kind.__doc__ and kind.__doc__.rstrip().endswith(".")
    needed = [key.name for key in fields(kind) if key.default is key.default_factory]
    assert kind(**dict.fromkeys(needed, "x")).kind == kind.kind


def write_package(folder: Path, **modules: str) -> Path:
    package = folder / "kinds_of_a_test"
    package.mkdir(exist_ok=True)
    for name, text in {"__init__": "", **modules}.items():
        (package / f"{name}.py").write_text(text)
    return package


NEW = """
from dataclasses import dataclass
from typing import ClassVar
from weft.io.kinds import SourceKind
from weft.io.sources.generated import Generated

@dataclass(frozen=True, slots=True)
class FromCounter(SourceKind):
    kind: ClassVar[str] = "counter"
    rows: int = 3

    def make(self) -> Generated:
        return Generated(rows=self.rows)
"""


def test_a_new_kind_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = write_package(tmp_path, counter=NEW)
    kinds = find_kinds(SourceKind, package, package.name)
    assert list(kinds) == ["counter"]
    source = kinds["counter"]()
    assert (sum(chunk.table.num_rows for chunk in source.make()), source.is_endless) == (3, False)
    assert source.spark_input() is None
    write_package(tmp_path, again=NEW)
    with pytest.raises(TypeError, match=r"FromCounter.*has the name of another kind"):
        find_kinds(SourceKind, package, package.name)


def test_kinds_are_known_without_the_libraries_that_they_need() -> None:
    text = """
import sys
for name in ("pyspark", "confluent_kafka", "psycopg"):
    sys.modules[name] = None
from weft.io.registry import SINKS, SOURCES
print(len(SOURCES), len(SINKS))
"""
    printed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert printed.split() == [str(len(SOURCES)), str(len(SINKS))]
