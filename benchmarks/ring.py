"""Joins of many streams over simulated nodes: latency by nodes, PSP against ATR and CTR, adaptation.

The experiments of Wang's thesis, chapter 16, on the simulator of lab.ring: rows come in Poisson fashion at
a tenth of the thesis' rate, in windows of 10 seconds; every step of every join order has one condition of
the selectivity chosen. Times are simulated, so figures are the same on every machine; every scheme of a
setting must give the same results.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from _papers import beside
from _plots import MARKERS, axes, legend, save
from matplotlib.figure import Figure
from rich.console import Group
from rich.table import Table

from lab.ring.adapt import Adapter
from lab.ring.atr import Atr
from lab.ring.cost import Model
from lab.ring.ctr import Ctr
from lab.ring.machine import Account, Costs, Scheme
from lab.ring.multijoin import MultiJoin, Row, rows_of
from lab.ring.psp import Psp
from lab.ring.psp_d import PspD
from lab.ring.psp_i import PspI
from lab.ring.statistics import Statistics
from weft.cli.bench import BenchmarkResult, Progress

WINDOW, RATE = 10.0, 5.0
COSTS = Costs(join=1e-4, purge=1e-6, insert=1e-6, send=2.5e-5, hop=2.5e-4)
JOIN_COSTS = {"small": 1, "middle": 2, "large": 4}
SELECTIVITIES = (0.05, 0.1, 0.5)
NODES = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 19)
MAX_NODES = 19
"""Processing nodes of the thesis' cluster."""
FASTER_COSTS = Costs(join=6e-5, purge=1e-6, insert=1e-6, send=1.5e-5, hop=1.5e-4)
"""For adaptation: at three times the rate, a ring of the right length keeps up and the first one does not."""


@dataclass(frozen=True)
class Scale:
    """The amount that is run."""

    nodes: Sequence[int]
    selectivities: Sequence[float]
    join_costs: Sequence[str]
    seconds: float
    scheme_nodes: Sequence[int]
    scheme_seconds: float
    ways: Sequence[int]
    adapt_seconds: float


FULL_SCALE = Scale(NODES, SELECTIVITIES, tuple(JOIN_COSTS), 20, (4, 8, 16), 200, (3, 5, 7, 9), 60)
QUICK_SCALE = Scale(
    (1, 2, 4, 6, 8, 12, 16, 19), (0.05, 0.1), ("small", "middle"), 16, (4, 8), 110, (3, 5, 7), 45
)


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Sections 16.2 to 16.5."""
    return measure(QUICK_SCALE if quick else FULL_SCALE, progress)


def measure(scale: Scale, progress: Progress) -> BenchmarkResult:
    """Every part at a scale."""
    settings = [(cost, share) for cost in scale.join_costs for share in scale.selectivities]
    total = len(settings) + len(scale.scheme_nodes) + len(scale.ways) + 2
    rows: list[dict[str, Any]] = []
    for number, (cost, share) in enumerate(settings):
        progress(f"{cost} join, selectivity {share}", number, total)
        rows += by_nodes(cost, share, scale.nodes, scale.seconds)
    done = len(settings)
    for number, nodes in enumerate(scale.scheme_nodes):
        progress(f"schemes on {nodes} nodes", done + number, total)
        rows += by_scheme(nodes, scale.scheme_seconds)
    done += len(scale.scheme_nodes)
    for number, streams in enumerate(scale.ways):
        progress(f"{streams}-way join", done + number, total)
        rows.append(by_ways(streams, scale.seconds))
    for number, factor in enumerate((2, 3)):
        progress(f"rate times {factor}", total - 2 + number, total)
        rows += by_rate(factor, scale.adapt_seconds)
    notes = [
        f"{RATE:g} rows/s of each stream, windows of {WINDOW:g} s; times are simulated milliseconds. A pair "
        f"costs {1e6 * COSTS.join:g} us to join (small), a row {1e6 * COSTS.send:g} us to send, a hop "
        f"{1e6 * COSTS.hop:g} us.",
    ]
    return BenchmarkResult("ring", rows, figures(rows), notes)


def chain(streams: int, share: float) -> tuple[MultiJoin, dict[tuple[int, int], float]]:
    """Neighbouring streams have a condition; orders go from neighbour to neighbour: one condition a step."""
    bound = round(1000 * share)
    pairs = {(s, s + 1): (lambda a, b: (a + b) % 1000 < bound) for s in range(streams - 1)}
    orders = tuple((*range(s - 1, -1, -1), *range(s + 1, streams)) for s in range(streams))
    return MultiJoin((WINDOW,) * streams, pairs, orders=orders), dict.fromkeys(pairs, share)


@cache
def poisson(streams: int, seconds: float, later: float = 1.0, since: float = 0.0) -> tuple[Row, ...]:
    """Rows of all streams; from ``since`` on, so many times as often."""
    chosen = random.Random(streams)
    given = []
    for stream in range(streams):
        time = 0.0
        while time < seconds:
            time += chosen.expovariate(RATE * (later if since and time >= since else 1.0))
            given.append((stream, time, chosen.randrange(1000)))
    return tuple(rows_of(sorted((one for one in given if one[1] < seconds), key=lambda one: one[1])))


def model_of(streams: int, share: float, costs: Costs, rate: float = RATE) -> Model:
    """The cost model of a chain."""
    join, selectivities = chain(streams, share)
    return Model(Statistics((rate,) * streams, join.windows, selectivities), join.orders, costs)


def numbers(account: Account) -> list[tuple[int, ...]]:
    """Results by the numbers of their rows, to compare schemes."""
    return sorted(tuple(row.number for row in result.rows) for result in account.results)


def summed_up(scheme: Scheme, rows: Sequence[Row]) -> dict[str, float]:
    """Return the figures of a run once the windows are full: milliseconds, and counts per row."""
    account = scheme.account
    peak, mean = account.state(since=WINDOW)
    return {
        "response": 1e3 * account.response(since=WINDOW),
        "latency": 1e3 * account.latency(since=WINDOW),
        "cycle": 1e3 * account.cycle(),
        "state": mean,
        "peak": peak,
        "results": len(account.results),
        "sent": account.messages.total() / len(rows),
        "ENDs": account.ends / len(rows),
        "inserts": account.operations["insert"] / len(rows),
        "comparisons": account.operations["join"] / len(rows),
    }


def by_nodes(cost: str, share: float, nodes: Iterable[int], seconds: float) -> list[dict[str, Any]]:
    """Figure 16.2: response time and state of PSP, a row per number of nodes, and theorem 9's number."""
    costs = replace(COSTS, join=COSTS.join * JOIN_COSTS[cost])
    model, rows = model_of(3, share, costs), poisson(3, seconds)
    theorem = model.ring_length(MAX_NODES)
    points = []
    for count in sorted({*nodes, theorem}):
        ring = Psp(chain(3, share)[0], count, costs)
        ring.run(rows)
        known = {"part": "nodes", "join_cost": cost, "selectivity": share, "nodes": count}
        points.append(
            known | summed_up(ring, rows) | {"model": 1e3 * model.latency(count), "theorem": theorem}
        )
    return points


def schemes(join: MultiJoin, nodes: int) -> dict[str, Scheme]:
    """All that are compared, on so many nodes; PSP-DI is PSP-D with rows interleaved (section 12.6)."""
    return {
        "PSP": Psp(join, nodes, COSTS),
        "PSP-I": PspI(join, nodes, COSTS, limit=4),
        "PSP-D": PspD(join, nodes, COSTS),
        "PSP-DI": PspD(join, nodes, COSTS, limit=4),
        "CTR": Ctr(join, nodes, COSTS, copies=2),
        "ATR": Atr(join, nodes, COSTS, segment=WINDOW),
        "ATR purged": Atr(join, nodes, COSTS, segment=WINDOW, keep=False),
    }


def by_scheme(nodes: int, seconds: float) -> list[dict[str, Any]]:
    """Figures 16.3 to 16.5: every scheme on the same rows."""
    rows, join = poisson(3, seconds), chain(3, 0.1)[0]
    points, results = [], set()
    for name, scheme in schemes(join, nodes).items():
        results.add(tuple(numbers(scheme.run(rows))))
        points.append({"part": "schemes", "scheme": name, "nodes": nodes} | summed_up(scheme, rows))
    if len(results) > 1:
        raise AssertionError(f"the schemes disagree: {[one['results'] for one in points]}")
    return points


def by_ways(streams: int, seconds: float) -> dict[str, Any]:
    """A join of 3 to 9 streams, each step finding one row on average, with theorem 9's number of nodes."""
    share = 1 / (RATE * WINDOW)
    model, rows = model_of(streams, share, COSTS), poisson(streams, seconds)
    ring = PspD(chain(streams, share)[0], model.ring_length(MAX_NODES), COSTS, limit=4)
    ring.run(rows)
    return {"part": "ways", "streams": streams, "nodes": len(ring.nodes)} | summed_up(ring, rows)


def by_rate(factor: int, seconds: float) -> list[dict[str, Any]]:
    """Figures 16.6, 16.7: the rate rises after a third of the run; the ring stays, or adapts."""
    join, _ = chain(3, 0.1)
    begin = model_of(3, 0.1, FASTER_COSTS).ring_length(MAX_NODES)
    rows = poisson(3, seconds, factor, seconds / 3)
    points = []
    for way in ("fixed", "passive", "aggressive"):
        ring = PspD(join, begin, FASTER_COSTS)
        changes = []
        if way != "fixed":
            changes = Adapter(ring, 4.0, most=MAX_NODES, aggressive=way == "aggressive").changes
        results = ring.run(rows).results
        times = [(r.arrived, 1e3 * (r.joined - r.arrived)) for r in results]
        before = [ms for at, ms in times if at < seconds / 3]
        after = [ms for at, ms in times if at >= seconds * 2 / 3]
        course = []
        for start in range(0, int(seconds), 3):
            delays = [ms for at, ms in times if start <= at < start + 3]
            course += [(start + 1.5, fmean(delays))] if delays else []
        points.append(
            {
                "part": "rate",
                "factor": factor,
                "way": way,
                "began_with": begin,
                "nodes": ring.slicing.nodes,
                "changes": [(change.time, change.nodes) for change in changes],
                "moved": ring.account.messages["moved"],
                "before": fmean(before),
                "after": fmean(after),
                "course": course,
                "results": len(results),
            }
        )
    if len({one["results"] for one in points}) > 1:
        raise AssertionError(f"adaptation changed results: {points}")
    return points


def grouped(
    rows: Iterable[dict[str, Any]], part: str, *keys: str
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The rows of a part by the values of some columns."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["part"] == part:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Chapter 16's claims as ratios."""
    off, distance = [], []
    for group in grouped(rows, "nodes", "join_cost", "selectivity").values():
        best = min(group, key=lambda row: row["response"])
        (chosen,) = (row for row in group if row["nodes"] == row["theorem"])
        off.append(chosen["response"] / best["response"])
        distance.append(abs(best["nodes"] - chosen["nodes"]))
    ratios = {"theorem_over_best_max": max(off), "theorem_nodes_off_max": float(max(distance))}
    for (nodes,), group in grouped(rows, "schemes", "nodes").items():
        by_name = {row["scheme"]: row for row in group}
        for name in by_name:
            if name != "PSP":
                key = name.replace("-", "_").replace(" ", "_").lower()
                ratios[f"state_{key}_over_psp_{nodes}"] = by_name[name]["state"] / by_name["PSP"]["state"]
        ratios[f"response_atr_over_psp_{nodes}"] = by_name["ATR"]["response"] / by_name["PSP"]["response"]
        ratios[f"inserts_psp_over_psp_d_{nodes}"] = by_name["PSP"]["inserts"] / by_name["PSP-D"]["inserts"]
    for (factor,), group in grouped(rows, "rate", "factor").items():
        after = {row["way"]: row["after"] for row in group}
        for way in ("passive", "aggressive"):
            ratios[f"fixed_over_{way}_x{factor}"] = after["fixed"] / after[way]
    return ratios


def render(result: BenchmarkResult) -> Group:
    """A table per section, and the thesis beside."""
    f = result.figures
    largest = max(row["nodes"] for row in result.rows if row["part"] == "schemes")
    return Group(
        _nodes_table(result.rows),
        _table(
            "Schemes, 3-way, selectivity 0.1 (figures 16.3 to 16.5)",
            ("scheme", "nodes", "response", "latency", "state", "peak", "sent", "ENDs", "inserts"),
            [row for row in result.rows if row["part"] == "schemes"],
        ),
        _table(
            "Ways, each step finding one row, PSP-D with 4 rows in work",
            ("streams", "nodes", "cycle", "comparisons", "state", "sent", "ENDs"),
            [row for row in result.rows if row["part"] == "ways"],
        ),
        _table(
            "The rate rises (figures 16.6, 16.7), PSP-D",
            ("factor", "way", "began_with", "nodes", "moved", "before", "after"),
            [row for row in result.rows if row["part"] == "rate"],
        ),
        beside(
            "Wang, chapter 16",
            [
                (
                    "response at theorem 9's nodes over the best measured, at worst",
                    "",
                    f["theorem_over_best_max"],
                ),
                ("best number of nodes, small join, selectivity 0.5", 14, _best(result.rows, "small", 0.5)),
                (
                    f"state of PSP-I over PSP, {largest} nodes",
                    "more than 1",
                    f[f"state_psp_i_over_psp_{largest}"],
                ),
                ("... of CTR with 2 copies", 2, f[f"state_ctr_over_psp_{largest}"]),
                (
                    "... of ATR, by the thesis' formula",
                    7 * largest / 3,
                    f[f"state_atr_over_psp_{largest}"],
                ),
                ("response of ATR over PSP", "more than 1", f[f"response_atr_over_psp_{largest}"]),
                (
                    "rate doubled: latency of a fixed ring over an adapted one",
                    "more than 1",
                    f["fixed_over_passive_x2"],
                ),
                ("rate tripled", "more than 1", f["fixed_over_passive_x3"]),
            ],
        ),
    )


def _best(rows: Sequence[dict[str, Any]], cost: str, share: float) -> object:
    some = grouped(rows, "nodes", "join_cost", "selectivity").get((cost, share))
    return min(some, key=lambda row: row["response"])["nodes"] if some else "not run"


def _nodes_table(rows: Sequence[dict[str, Any]]) -> Table:
    shown = Table(title="Response time of PSP by nodes, 3-way (figure 16.2)")
    for heading in ("join", "share", "nodes", "ms", "nodes", "ms", "best", "ms", "th. 9", "ms", "state"):
        shown.add_column(heading, justify="right")
    for (cost, share), group in grouped(rows, "nodes", "join_cost", "selectivity").items():
        best = min(group, key=lambda row: row["response"])
        (theorem,) = (row for row in group if row["nodes"] == row["theorem"])
        cells = [
            f"{v}"
            for row in (group[0], group[-1], best, theorem)
            for v in (row["nodes"], f"{row['response']:.1f}")
        ]
        shown.add_row(cost, f"{share}", *cells, f"{best['state']:.0f}")
    return shown


def _table(title: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Table:
    shown = Table(title=title)
    for column in columns:
        shown.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        values = [row[column] for column in columns]
        shown.add_row(*(f"{v:,.1f}" if isinstance(v, float) else str(v) for v in values))
    return shown


def draw(result: BenchmarkResult, folder: Path) -> list[Path]:
    """Response by nodes (16.2), state by scheme (16.3 to 16.5), and latency in time (16.6, 16.7)."""
    return save(
        {
            "figure_16_2": draw_nodes(result.rows),
            "figure_16_4_state": draw_state(result.rows),
            "figure_16_7": draw_course(result.rows),
        },
        folder,
    )


def draw_nodes(rows: Sequence[dict[str, Any]]) -> Figure:
    """Response time by nodes, a panel per join cost; a ring around theorem 9's number."""
    groups = grouped(rows, "nodes", "join_cost", "selectivity")
    costs = list(dict.fromkeys(cost for cost, _ in groups))
    figure, places = axes(
        "Figure 16.2: PSP, 3-way", "nodes", "response (ms)", panels=len(costs), width=2.6 + 2.2 * len(costs)
    )
    for (cost, share), group in groups.items():
        place, number = places[costs.index(cost)], SELECTIVITIES.index(share)
        place.set_title(f"{cost} join")
        place.set_yscale("log")
        x, y = [row["nodes"] for row in group], [row["response"] for row in group]
        place.plot(
            x, y, marker=MARKERS[number], markersize=3, color=f"C{number}", label=f"selectivity {share}"
        )
        best = x.index(group[0]["theorem"])
        place.plot(x[best], y[best], "o", markersize=10, fillstyle="none", color=f"C{number}")
    legend(figure, places[0])
    return figure


def draw_state(rows: Sequence[dict[str, Any]]) -> Figure:
    """Rows stored by scheme and nodes."""
    figure, (place,) = axes("Figures 16.3 to 16.5: rows stored", "nodes", "rows, mean", width=6.2)
    for number, ((name,), some) in enumerate(grouped(rows, "schemes", "scheme").items()):
        place.plot(
            [row["nodes"] for row in some],
            [row["state"] for row in some],
            marker=MARKERS[number],
            markersize=4,
            label=name,
        )
    place.set_yscale("log")
    legend(figure, place)
    return figure


def draw_course(rows: Sequence[dict[str, Any]]) -> Figure:
    """Latency in the course of time when the rate rises."""
    groups = grouped(rows, "rate", "factor")
    figure, places = axes("Figures 16.6, 16.7: the rate rises", "seconds", "latency (ms)", panels=2, width=7)
    for place, ((factor,), some) in zip(places, groups.items()):
        place.set_title(f"times {factor}")
        place.set_yscale("log")
        for number, row in enumerate(some):
            place.plot(*zip(*row["course"]), marker=MARKERS[number], markersize=3, label=row["way"])
    legend(figure, places[0])
    return figure
