"""The counting script on small trees."""

from __future__ import annotations

import json
from pathlib import Path

import house
import import_graph
import pytest

PROJECT = """
[project]
name = "mill"
[project.scripts]
mill = "mill.cli:main"
[[tool.importlinter.contracts]]
type = "layers"
layers = ["cli", "engine | sinks", "model"]
[[tool.importlinter.contracts]]
type = "protected"
"""


def write(root: Path, files: dict[str, str]) -> Path:
    """Write the files of a tree, given by their paths."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package with a command, a registry that walks its folder, a cycle and a module that nothing uses."""
    return write(
        tmp_path,
        {
            "pyproject.toml": PROJECT,
            "Makefile": "warm:\n\tpython -m mill.warm\n",
            "docs/python.md": "::: mill.testing.oracle\n",
            "src/mill/__init__.py": "if TYPE_CHECKING:\n    import mill.idle\n",
            "src/mill/cli.py": "from .engine import step\nfrom mill.model import Row\nNAME = 'mill.daemon'\n",
            "src/mill/daemon.py": "",
            "src/mill/idle.py": "class Row: ...\nclass Idle: ...\n",
            "src/mill/model.py": "class Row:\n    class _Cell: ...\n",
            "src/mill/picture.py": "from . import model\ndef draw():\n    from .engine import step\n",
            "src/mill/testing.py": "",
            "src/mill/warm.py": "import mill.model\n",
            "src/mill/engine/__init__.py": "",
            "src/mill/engine/step.py": "from ..picture import draw\nfrom .techniques import names\n",
            "src/mill/engine/techniques/__init__.py": "",
            "src/mill/engine/techniques/names.py": "import pkgutil\nNAMES = pkgutil.iter_modules([])\n",
            "src/mill/engine/techniques/plain.py": "class _Cell: ...\n",
            "src/mill/__pycache__/cli.pyc": "",
            "lab/ring/run.py": "\n\n\n",
        },
    )


def test_counts(tree: Path) -> None:
    counted = house.read_house(tree)
    assert counted.entries == [
        "__init__.py",
        "cli.py",
        "daemon.py",
        "engine",
        "idle.py",
        "model.py",
        "picture.py",
        "testing.py",
        "warm.py",
    ]
    assert counted.layers == ["cli", "engine | sinks", "model"]
    assert counted.repeated_classes == {
        "Row": ["mill.idle", "mill.model"],
        "_Cell": ["mill.engine.techniques.plain", "mill.model"],
    }
    assert counted.modules == {"engine": 5, "top": 8}
    assert counted.lines == {"engine": 5, "top": 13}
    assert counted.lab_modules == {"ring": 1}
    assert counted.lab_lines == {"ring": 3}


def test_unreached_modules(tree: Path) -> None:
    """Strings, walked folders, the Makefile and imports inside functions reach; type hints do not."""
    counted = house.read_house(tree)
    assert counted.unreached == {"mill.idle": 2, "mill.testing": 0}
    assert counted.documented == ["mill.testing"]


def test_paths_and_cycles(tree: Path) -> None:
    counted = house.read_house(tree)
    assert counted.path == ["mill.cli", "mill.engine.step", "mill.picture", "mill.model"]
    assert counted.cycles == [("mill.engine.step", "mill.picture")]
    assert len(counted.deferred_path) == 4


def test_a_cycle_is_one_link_of_the_longest_path() -> None:
    graph = {
        "a": frozenset("b"),
        "b": frozenset("c"),
        "c": frozenset("bd"),
        "d": frozenset(),
        "e": frozenset("d"),
    }
    assert import_graph.cycles(graph) == [("b", "c")]
    assert import_graph.longest_path(graph) == ["a", "b", "c", "d"]


def test_a_module_that_imports_its_own_package_is_no_cycle(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "mill/__init__.py": "from mill.a import x",
            "mill/a.py": "try:\n    import mill.b\nfinally:\n    pass",
        },
    )
    write(tmp_path, {"mill/b.py": "match 1:\n    case 1:\n        from mill import a"})
    graph = import_graph.import_graph(import_graph.read_modules(tmp_path, "mill"))
    assert graph == {
        "mill": frozenset({"mill.a"}),
        "mill.a": frozenset({"mill.b"}),
        "mill.b": frozenset({"mill.a"}),
    }
    assert import_graph.cycles(graph) == [("mill.a", "mill.b")]


def test_check_fails_beyond_a_bound(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert house.main(["--root", str(tree)]) == 0
    assert "cycles of imports" in capsys.readouterr().out
    assert house.main(["--root", str(tree), "--check"]) == 1
    assert capsys.readouterr().err == "house: cycles of imports: 1, at most 0\n"
    (tree / "src/mill/picture.py").write_text("")
    assert house.main(["--root", str(tree), "--check"]) == 0


def test_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    house.main(["--root", str(tree), "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["counts"]["entries"] == 9
    assert data["before"].keys() == data["counts"].keys() == house.TITLES.keys()
    assert data["counted"]["cycles"] == [["mill.engine.step", "mill.picture"]]
