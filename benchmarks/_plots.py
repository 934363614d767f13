"""The look of the benchmarks' plots, and saving them: SVG files that are the same for the same numbers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "weft",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
}
MARKERS = "osD^vPX*<>"


def axes(
    title: str, x: str, y: str, *, panels: int = 1, width: float = 5.6, height: float = 3.4
) -> tuple[Figure, list[Axes]]:
    """A figure with so many panels side by side, which share the second axis."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.suptitle(title, fontsize=10)
        places = figure.subplots(1, panels, sharey=True, squeeze=False)[0]
    for place in places:
        place.set_xlabel(x)
    places[0].set_ylabel(y)
    return figure, list(places)


def spread(place: Axes, values: Iterable[float]) -> None:
    """A logarithmic first axis, where the values are far apart; about 0 it is linear."""
    some = list(values)
    if min(some) > 0 and max(some) / min(some) > 20:
        place.set_xscale("log")
    elif min(some) == 0 and max(some) >= 20:
        place.set_xscale("symlog", linthresh=1)


def legend(figure: Figure, place: Axes) -> None:
    """One legend, beside the panels."""
    handles, labels = place.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)


def save(figures: dict[str, Figure], folder: Path) -> list[Path]:
    """Each figure as FOLDER/NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with matplotlib.rc_context(STYLE):
        for name, figure in figures.items():
            paths.append(folder / f"{name}.svg")
            figure.savefig(paths[-1], metadata={"Date": None})
    return paths
