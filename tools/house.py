"""Count what makes the tree easy or hard to find one's way in: ``make house``.

The counts stand beside those of the tree before it was rearranged. With ``--check`` a count beyond its bound
is an error. Names of modules are read from the tree and from pyproject.toml, none is written here.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from import_graph import Module, cycles, import_graph, longest_path, reachable, read_modules

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class House:
    """Counts of a tree, and what was counted."""

    entries: list[str]  # of the package's own folder
    layers: list[str]
    repeated_classes: dict[str, list[str]]  # class name -> the modules that define it
    unreached: dict[str, int]  # module that no job reaches -> its lines
    documented: list[str]  # those of ``unreached`` that the documentation offers to users of Python
    path: list[str]  # longest chain of imports, importers first
    deferred_path: list[str]  # the same with imports inside functions
    cycles: list[tuple[str, ...]]  # imports inside functions included
    modules: dict[str, int]  # by package
    lines: dict[str, int]  # by package
    lab_modules: dict[str, int]
    lab_lines: dict[str, int]

    def counts(self) -> dict[str, int]:
        """Return the numbers that are compared, by name."""
        return {
            "entries": len(self.entries),
            "layers": len(self.layers),
            "repeated_classes": len(self.repeated_classes),
            "unreached_modules": len(self.unreached),
            "unreached_lines": sum(self.unreached.values()),
            "path": len(self.path),
            "deferred_path": len(self.deferred_path),
            "cycles": len(self.cycles),
            "modules": sum(self.modules.values()),
            "lines": sum(self.lines.values()),
            "lab_modules": sum(self.lab_modules.values()),
            "lab_lines": sum(self.lab_lines.values()),
        }


# Counts of commit 7f68420, the last before the first move, made by this script.
BASELINE = {
    "entries": 62,
    "layers": 27,
    "repeated_classes": 31,
    "unreached_modules": 21,
    "unreached_lines": 2448,
    "path": 34,
    "deferred_path": 39,
    "cycles": 2,
    "modules": 353,
    "lines": 46697,
    "lab_modules": 0,
    "lab_lines": 0,
}
# A driver imports the program, and the program both operators: the longest chain goes from Spark's driver
# through the stage of joins down to the kernels of expressions.
BOUNDS = {"entries": 21, "layers": 13, "repeated_classes": 3, "path": 31, "cycles": 0}
TITLES = {
    "entries": "entries at the top of the package",
    "layers": "layers of the import contract",
    "repeated_classes": "class names defined more than once",
    "unreached_modules": "modules that no job reaches",
    "unreached_lines": "lines of those",
    "path": "longest chain of imports, in modules",
    "deferred_path": "the same with imports inside functions",
    "cycles": "cycles of imports",
    "modules": "modules of src",
    "lines": "lines of src",
    "lab_modules": "modules of lab",
    "lab_lines": "lines of lab",
}


def main(arguments: list[str] | None = None) -> int:
    """Print the counts; return 1 where they are checked and one is beyond its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to count")
    parser.add_argument("--json", action="store_true", help="print everything that was counted as JSON")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is broken")
    options = parser.parse_args(arguments)
    house = read_house(options.root)
    broken = broken_bounds(house)
    if options.json:
        print(json.dumps(as_data(house), indent=2))
    else:
        print(report(house))
    if options.check:
        for line in broken:
            print(line, file=sys.stderr)
    return int(options.check and bool(broken))


def read_house(root: Path) -> House:
    """Count the tree below a folder that has pyproject.toml and src."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    package = project["project"]["name"]
    modules = read_modules(root / "src", package)
    lab = read_modules(root, "lab")
    unreached = sorted(modules.keys() - reachable(modules, _entry_points(root, project, package)))
    offered = reachable(modules, _documented(root, modules))
    deferred = import_graph(modules, deferred=True)
    return House(
        entries=sorted(
            path.name
            for path in (root / "src" / package).iterdir()
            # A folder that a move left behind has nothing but what Python compiled there.
            if path.is_file() or any("__pycache__" not in p.parts for p in path.rglob("*") if p.is_file())
        ),
        layers=_layers(project),
        repeated_classes=repeated_classes(modules),
        unreached={name: modules[name].lines for name in unreached},
        documented=[name for name in unreached if name in offered],
        path=longest_path(import_graph(modules)),
        deferred_path=longest_path(deferred),
        cycles=cycles(deferred),
        modules=_by_package(modules, lambda module: 1),
        lines=_by_package(modules, lambda module: module.lines),
        lab_modules=_by_package(lab, lambda module: 1),
        lab_lines=_by_package(lab, lambda module: module.lines),
    )


def repeated_classes(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return the class names that are defined more than once, private and nested ones included, and where."""
    definitions: dict[str, list[str]] = defaultdict(list)
    for name, module in modules.items():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                definitions[node.name].append(name)
    return {name: homes for name, homes in sorted(definitions.items()) if len(homes) > 1}


def broken_bounds(house: House) -> list[str]:
    """Return a line for every count beyond its bound."""
    counts = house.counts()
    return [
        f"house: {TITLES[name]}: {counts[name]}, at most {bound}"
        for name, bound in BOUNDS.items()
        if counts[name] > bound
    ]


def as_data(house: House) -> dict[str, Any]:
    """Return the counts, those before, the bounds and what was counted, ready for JSON."""
    return {"counts": house.counts(), "before": BASELINE, "bounds": BOUNDS, "counted": asdict(house)}


def report(house: House) -> str:
    """Return the counts as a table, and under it the names behind them."""
    lines = [f"{'':<42}{'before':>8}{'now':>8}{'bound':>8}"]
    for name, count in house.counts().items():
        bound = f"{BOUNDS[name]:,}" if name in BOUNDS else ""
        broken = "  <-- broken" if name in BOUNDS and count > BOUNDS[name] else ""
        lines.append(f"{TITLES[name]:<42}{BASELINE[name]:>8,}{count:>8,}{bound:>8}{broken}")
    lines += _section("Modules and lines by package", _package_lines(house.modules, house.lines))
    lines += _section("Modules and lines of lab", _package_lines(house.lab_modules, house.lab_lines))
    lines += _section(
        "Class names defined more than once",
        (f"{name}: {', '.join(homes)}" for name, homes in house.repeated_classes.items()),
    )
    lines += _section(
        "Modules that no job reaches",
        (
            f"{name} ({count} lines{', documented for users' if name in house.documented else ''})"
            for name, count in house.unreached.items()
        ),
    )
    lines += _section("Longest chain of imports", house.path)
    lines += _section("Longest chain with imports inside functions", house.deferred_path)
    lines += _section("Cycles of imports", (" <-> ".join(group) for group in house.cycles))
    return "\n".join(lines)


def _section(title: str, items: Iterable[str]) -> list[str]:
    """Return a heading with its lines, nothing where there are none."""
    lines = [f"  {item}" for item in items]
    return ["", f"{title}:", *lines] if lines else []


def _package_lines(modules: Mapping[str, int], lines: Mapping[str, int]) -> list[str]:
    """Return a line per package: modules, lines."""
    return [f"{name:<20}{count:>5}{lines[name]:>8,}" for name, count in modules.items()]


def _by_package(modules: Mapping[str, Module], measure: Callable[[Module], int]) -> dict[str, int]:
    """Sum a measure of modules by the package they are in; modules outside of packages are ``top``."""
    sums: Counter[str] = Counter()
    packages = {name for name, module in modules.items() if module.is_package}
    packages |= {name.rpartition(".")[0] for name in modules}
    for name, module in modules.items():
        first = ".".join(name.split(".")[:2])
        sums[first.partition(".")[2] if first in packages and "." in first else "top"] += measure(module)
    return dict(sorted(sums.items()))


def _layers(project: Mapping[str, Any]) -> list[str]:
    """Return the layers of import-linter's contract, highest first; of the longest of several."""
    contracts = project.get("tool", {}).get("importlinter", {}).get("contracts", [])
    layers = [list(contract["layers"]) for contract in contracts if contract.get("type") == "layers"]
    return max(layers, key=len, default=[])


def _entry_points(root: Path, project: Mapping[str, Any], package: str) -> list[str]:
    """Return the modules that commands start: scripts, ``python -m package``, the Makefile's ``-m``."""
    scripts = [target.partition(":")[0] for target in project["project"].get("scripts", {}).values()]
    makefile = root / "Makefile"
    text = makefile.read_text(encoding="utf-8") if makefile.exists() else ""
    return [*scripts, f"{package}.__main__", *re.findall(rf"-m ({package}[\w.]*)", text)]


def _documented(root: Path, modules: Mapping[str, Module]) -> set[str]:
    """Return the modules whose members the documentation offers (``::: package.module.member``)."""
    offered = set()
    for page in sorted((root / "docs").rglob("*.md")):
        for name in re.findall(r"^::: ([\w.]+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            offered.add(name if name in modules else name.rpartition(".")[0])
    return offered & modules.keys()


if __name__ == "__main__":
    sys.exit(main())
