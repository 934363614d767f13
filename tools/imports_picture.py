"""Draw the packages of src/weft and their imports as docs/pictures/packages.svg.

Rows are the layers of the import contract in pyproject.toml, arrows lead from the package that imports to
the one that is imported. An arrow that follows from others is left out. With ``--check`` nothing is written:
a picture that is not what the code has is an error.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from import_graph import import_graph, read_modules

ROOT = Path(__file__).parent.parent
PACKAGE = "weft"
PICTURE = Path("docs/pictures/packages.svg")

WIDTH = 700
BOX_WIDTH, BOX_HEIGHT = 84, 26
BOX_GAP, BEND_WIDTH = 22, 22
ROW_HEIGHT = 52
TOP = 14
ORDERING_SWEEPS = 12
"""Passes over the rows that bring neighbours near each other; the picture is still after a few."""

LABEL = "The packages of weft from the commands down to the errors, and what each imports"
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.s{font-size:10.5px;fill:#666}.m{text-anchor:middle}"
    ".w{fill:#fff}.a{stroke:#777;fill:none;stroke-width:1.2;marker-end:url(#h)}.p{fill:#3f51b5}"
)
ARROWHEAD = (
    '<defs><marker id="h" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>'
)

Edge = tuple[str, str]


class LayersError(Exception):
    """Layers and imports that do not fit together."""


@dataclass(frozen=True)
class Node:
    """A box, or the bend of an arrow where it passes a row."""

    name: str
    arrow: Edge | None = None

    @property
    def width(self) -> int:
        """The room that it takes in its row."""
        return BOX_WIDTH + BOX_GAP if self.arrow is None else BEND_WIDTH


def main(arguments: list[str] | None = None) -> int:
    """Write the picture, or check it; return 1 where it is not what the code has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree whose code is drawn")
    parser.add_argument("--check", action="store_true", help="compare with the picture that is there")
    options = parser.parse_args(arguments)
    picture = draw(read_layers(options.root), read_imports(options.root))
    path = ROOT / PICTURE
    if not options.check:
        path.write_text(picture)
    elif not path.exists() or path.read_text() != picture:
        print(f"{PICTURE} is not what the code has: run `python {Path(__file__).relative_to(ROOT)}`")
        return 1
    return 0


def read_layers(root: Path) -> list[list[str]]:
    """Return the packages of each layer, the highest first, as the contract for imports has them."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(
        c["layers"] for c in contracts if c["type"] == "layers" and c.get("containers") == [PACKAGE]
    )
    return [re.findall(r"\w+", layer) for layer in layers]


def read_imports(root: Path) -> set[Edge]:
    """Return which package imports which, also inside functions; the list of public names is left out."""
    graph = import_graph(read_modules(root / "src", PACKAGE), deferred=True)
    edges = {(_package(name), _package(target)) for name, targets in graph.items() for target in targets}
    return {(above, below) for above, below in edges if above != below and PACKAGE not in (above, below)}


def _package(module: str) -> str:
    """Return the part of a module's name below the root: weft.io.files is in io."""
    return module.split(".")[1] if "." in module else module


def without_implied(edges: Iterable[Edge]) -> set[Edge]:
    """Return the edges that no path of others stands for.

    >>> sorted(without_implied({("a", "b"), ("b", "c"), ("a", "c")}))
    [('a', 'b'), ('b', 'c')]
    """
    below: dict[str, set[str]] = {}
    for above, under in edges:
        below.setdefault(above, set()).add(under)

    def reached(start: str) -> set[str]:
        """Return what lies below a package, itself apart."""
        result: set[str] = set()
        waiting = list(below.get(start, ()))
        while waiting:
            name = waiting.pop()
            if name not in result:
                result.add(name)
                waiting += below.get(name, ())
        return result

    beneath = {name: reached(name) for name in below}
    return {
        (above, under)
        for above, unders in below.items()
        for under in unders
        if not any(under in beneath.get(other, ()) for other in unders - {under})
    }


def draw(layers: Sequence[Sequence[str]], imports: Iterable[Edge]) -> str:
    """Return the picture of layers and imports."""
    row_of = {name: row for row, names in enumerate(layers) for name in names}
    for above, below in sorted(imports):
        if above not in row_of or below not in row_of:
            raise LayersError(f"{above} or {below} is in no layer")
        if row_of[above] >= row_of[below]:
            raise LayersError(f"{above} imports {below}, which is not below it")
    paths = {edge: _nodes_of(edge, row_of) for edge in sorted(without_implied(imports))}
    rows = _ordered([[Node(name) for name in names] for names in layers], paths)
    places = {
        node: (x, TOP + row * ROW_HEIGHT)
        for row, nodes in enumerate(rows)
        for node, x in _spaced(nodes).items()
    }
    height = TOP + len(layers) * ROW_HEIGHT + 6
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" '
        f'aria-label="{LABEL}"><style>{STYLE}</style>{ARROWHEAD}'
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fafafa"/>'
    ]
    lines += [_arrow([places[node] for node in nodes]) for nodes in paths.values()]
    for node, (x, y) in places.items():
        if node.arrow is None:
            left = x - BOX_WIDTH // 2
            lines.append(
                f'<rect x="{left}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="3" class="p"/>'
            )
            lines.append(f'<text x="{x}" y="{y + 17}" class="w m">{node.name}</text>')
    caption = "An arrow: imports. Those that follow from others are left out."
    lines.append(f'<text x="14" y="{height - 10}" class="s">{caption}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _nodes_of(edge: Edge, row_of: Mapping[str, int]) -> list[Node]:
    """Return the nodes of an arrow: its ends, and a bend in every row between them."""
    above, below = edge
    rows = range(row_of[above] + 1, row_of[below])
    return [Node(above), *(Node(str(row), edge) for row in rows), Node(below)]


def _ordered(boxes: Sequence[Sequence[Node]], paths: Mapping[Edge, Sequence[Node]]) -> list[list[Node]]:
    """Return boxes and bends of each row, in an order that keeps arrows short."""
    rows = [list(row) for row in boxes]
    row_of = {node: number for number, row in enumerate(rows) for node in row}
    neighbours: dict[Node, list[Node]] = {}
    for nodes in paths.values():
        for above, below in pairwise(nodes):
            row_of[below] = row_of[above] + 1
            if below not in rows[row_of[below]]:
                rows[row_of[below]].append(below)
            neighbours.setdefault(above, []).append(below)
            neighbours.setdefault(below, []).append(above)
    for sweep in range(ORDERING_SWEEPS):
        step = 1 if sweep % 2 == 0 else -1
        for number in range(len(rows))[::step]:
            if 0 <= number - step < len(rows):
                fixed = _spaced(rows[number - step])

                def mean_place(node: Node, fixed: Mapping[Node, int] = fixed) -> float:
                    """Return the mean place of a node's neighbours in the row before."""
                    places = [fixed[other] for other in neighbours.get(node, ()) if other in fixed]
                    return sum(places) / len(places) if places else WIDTH / 2

                rows[number].sort(key=mean_place)
    return rows


def _spaced(nodes: Sequence[Node]) -> dict[Node, int]:
    """Return the middle of each node of a row, side by side around the middle of the picture."""
    left = (WIDTH - sum(node.width for node in nodes)) // 2
    places = {}
    for node in nodes:
        places[node] = left + node.width // 2
        left += node.width
    return places


def _arrow(points: Sequence[tuple[int, int]]) -> str:
    """Return a smooth line from the foot of the first box, past the bends, to the head of the last."""
    stops = [(points[0][0], points[0][1] + BOX_HEIGHT)]
    for x, y in points[1:-1]:
        stops += [(x, y), (x, y + BOX_HEIGHT)]
    stops.append((points[-1][0], points[-1][1] - 1))
    path = [f"M{stops[0][0]} {stops[0][1]}"]
    for (x0, y0), (x1, y1) in pairwise(stops):
        middle = (y0 + y1) // 2
        path.append(f"L{x1} {y1}" if x0 == x1 else f"C{x0} {middle} {x1} {middle} {x1} {y1}")
    return f'<path class="a" d="{"".join(path)}"/>'


if __name__ == "__main__":
    sys.exit(main())
