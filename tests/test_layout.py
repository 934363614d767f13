"""The tree of tests mirrors src and lab, and ``make test-fast`` covers every package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.places import ROOT, TESTS

SOURCES = ROOT / "src" / "weft"
PACKAGES = sorted(path.parent.name for path in SOURCES.glob("*/__init__.py"))
BESIDE = {"benchmarks", "docs", "golden", "lab", "mutants", "stories", "support", "tools"}
"""Folders of tests that are not named after a package."""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_tests_that_are_not_slow(package: str) -> None:
    assert any(fast_tests(path) for path in (TESTS / package).rglob("test_*.py"))


def fast_tests(path: Path) -> list[str]:
    """The names of the tests of a file that ``make test-fast`` runs."""
    tree = ast.parse(path.read_text())
    tests = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    return [test.name for test in tests if not is_slow(test)]


def is_slow(test: ast.FunctionDef) -> bool:
    """Whether a test is marked as slow, by itself or because it asks for Spark (``conftest.py``)."""
    marks = {ast.unparse(decorator).removeprefix("pytest.mark.") for decorator in test.decorator_list}
    return "slow" in marks or (any(a.arg == "spark" for a in test.args.args) and "fast" not in marks)


def test_folders_of_tests_are_named_after_packages() -> None:
    """At every depth: tests/operators/windows for weft.operators.windows, tests/lab/ring for lab.ring."""
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path()}
    mirrored = {folder for folder in folders if folder.parts[0] not in BESIDE}
    assert [str(f) for f in sorted(mirrored) if not (SOURCES / f / "__init__.py").exists()] == []
    lab = {folder for folder in folders if folder.parts[0] == "lab"}
    assert [str(f) for f in sorted(lab) if not (ROOT / f / "__init__.py").exists()] == []


def test_the_product_does_not_import_the_lab() -> None:
    """The wheel has no lab: what imported it would break where weft is installed."""
    importers = [
        str(path.relative_to(ROOT))
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "lab")
        or (isinstance(node, ast.Import) and any(n.name.partition(".")[0] == "lab" for n in node.names))
    ]
    assert importers == []
