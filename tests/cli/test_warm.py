"""Compiling ahead: the demo finds its kernels, and processes that compile together do not mix them up."""

import os
import subprocess
import sys

import pytest

AHEAD = "from weft.cli.warm import warm; warm(demo=True)"
DEMO = """
from rich.console import Console
from weft.cli import demo
demo.run(100, 300_000, "local", Console(quiet=True))
"""
EACH = """
import sys
import numpy as np
from weft.aggregates.monoid import MAX, MIN, Monoid, merge
for width in map(int, sys.argv[1:]):
    for code, expected in ((MIN, 3), (MAX, 5)):
        monoid, into = Monoid(code, width), np.full((1, width), 3 + 2 * (code == MIN))
        merge(monoid, into, np.array([0]), np.array([0]), np.full((1, width), expected))
        assert into.tolist() == [[expected] * width], (code, width, into)
"""


def python(code, *arguments, **environment):
    """Start a process with such variables and the code."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_the_demo_compiles_nothing_that_was_compiled_ahead(tmp_path):
    first = python(AHEAD, NUMBA_CACHE_DIR=str(tmp_path))
    said = first.communicate()[0]
    assert first.returncode == 0, said
    then = python(DEMO, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_DEBUG_CACHE="1")
    said = then.communicate()[0]
    assert then.returncode == 0, said
    assert "data loaded" in said
    assert [line for line in said.splitlines() if "data saved" in line] == []


def test_processes_that_compile_at_once_keep_the_kernels_of_monoids_apart(tmp_path):
    """Each compiles its own, at the same time; a later one loads all of them, and compiles none."""
    halves = [
        python(EACH, *widths, NUMBA_CACHE_DIR=str(tmp_path)) for widths in (("1", "2", "3"), ("4", "5", "6"))
    ]
    for half in halves:
        said = half.communicate()[0]
        assert half.returncode == 0, said
    # It is told once that kernels are compiled.
    assert said.count("weft compiles kernels") == 1
    everything = python(EACH, *"123456", NUMBA_CACHE_DIR=str(tmp_path), NUMBA_DEBUG_CACHE="1")
    said = everything.communicate()[0]
    assert everything.returncode == 0, said
    assert "data saved" not in said
    assert "weft compiles kernels" not in said
