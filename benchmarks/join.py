"""Shared window joins: state-slice against pull-up, push-down and isolated; Mem-Opt against CPU-Opt chains.

The experiments of Wang's thesis, chapter 8: rows come in Poisson fashion for 90 seconds, the join condition
is an expression that no index can help with (nested loops, as in the thesis), and its selectivity is chosen.
Memory is rows kept, the mean of the last quarter of the run; the service rate is results per second of
processor time. At last sixteen joins on equal keys are run as users run them, by ``weft.run``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import mean
from typing import Any

import _joins_run
import numpy as np
import pyarrow as pa
from _papers import beside
from _timing import fewest
from rich.console import Group
from rich.table import Table

import weft
from lab.joins.baselines import STRATEGIES
from lab.joins.clock import Clock
from weft.cli.bench import BenchmarkResult, Progress
from weft.io.files import Chunk
from weft.model.instants import END_OF_TIME
from weft.model.join import JoinQuery
from weft.operators.joins.chain import Chain
from weft.operators.joins.clock import OrderedRows
from weft.operators.joins.program import compile_joins
from weft.planning.joins.member import Member, member
from weft.planning.joins.rates import ChainCosts, assumed
from weft.planning.joins.shape import cpu_opt, mem_opt, priced

WINDOWS = {"mostly small": (5, 10, 30), "uniform": (10, 20, 30), "mostly large": (20, 25, 30)}
SELECTIONS, JOINS = (0.2, 0.5, 0.8), (0.025, 0.1, 0.4)
MANY_WINDOWS: dict[str, Callable[[int], list[float]]] = {
    "uniform": lambda n: [30 * (k + 1) / n for k in range(n)],
    "mostly small": lambda n: [10 * (k + 1) / (n - 2) for k in range(n - 2)] + [20, 30],
    "small-large": lambda n: (
        [6 * (k + 1) / (n // 2) for k in range(n // 2)] + [24 + 6 * (k + 1) / (n // 2) for k in range(n // 2)]
    ),
}
SECOND = 1_000_000
TIMES = {"a": "ts", "b": "ts"}


@dataclass(frozen=True)
class Setting:
    """One experiment of section 8.2."""

    windows: str
    selection: float
    join: float
    rate: float


def run(quick: bool, progress: Progress) -> BenchmarkResult:
    """Sections 8.2 and 8.3."""
    rates, seconds, tries = ((100.0,), 36, 1) if quick else ((50.0, 100.0, 200.0), 90, 2)
    settings = [Setting(w, s, j, rate) for rate in rates for w, s, j in _settings()]
    counts = (12, 24) if quick else (12, 24, 36)
    chains = list(product(MANY_WINDOWS, counts, rates[-1:]))
    compare_strategies(settings[0], 3, 1)  # so that nobody pays for what is compiled or loaded once
    rows: list[dict[str, Any]] = []
    for number, setting in enumerate(settings):
        progress(f"{setting.windows}, {setting.rate:.0f} rows/s", number, len(settings) + len(chains))
        rows += compare_strategies(setting, seconds, tries)
    costs = calibrate(rates[-1], seconds)
    for number, (windows, count, rate) in enumerate(chains, len(settings)):
        progress(f"{count} queries, {windows} windows", number, len(settings) + len(chains))
        rows.append(compare_chains(windows, count, rate, seconds, tries, costs))
    progress("weft.run", len(settings) + len(chains), len(settings) + len(chains))
    rows.append(_joins_run.measure())
    notes = [
        f"{seconds} s of both streams, batches of 1 s, best of {tries}, processor time.",
        f"One slice costs as much per row as probing {costs.system:,.0f} rows, one more window to route to "
        f"{costs.route:.2f} (measured).",
    ]
    return BenchmarkResult("join", rows, figures(rows), notes)


def _settings() -> list[tuple[str, float, float]]:
    """Figures 8.1 and 8.2 vary one thing at a time around the middle."""
    found = [(w, 0.5, 0.1) for w in WINDOWS] + [("uniform", s, 0.1) for s in SELECTIONS]
    return list(dict.fromkeys(found + [("uniform", 0.5, j) for j in JOINS]))


def stream(rate: float, seconds: int, seed: int) -> list[pa.Table]:
    """One stream, second by second: arrival by Poisson, a number to select by and one to join by."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.exponential(SECOND / rate, int(2 * rate * seconds) + 10)).astype(np.int64)
    times = times[times < seconds * SECOND]
    table = pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "s": random.random(times.size),
            "r": random.integers(0, 1000, times.size),
        }
    )
    cuts = np.searchsorted(times, np.arange(seconds + 1) * SECOND)
    return [table.slice(low, high - low) for low, high in pairwise(cuts.tolist())]


def queries(windows: Sequence[float], selections: Sequence[float | None], join: float) -> list[Member]:
    """Joins of a and b in these windows, each with its selection on a."""
    members = []
    for number, (window, selection) in enumerate(zip(windows, selections)):
        where = f"(a.r + b.r) % 1000 < {round(1000 * join)}"
        where += "" if selection is None else f" AND a.s < {selection}"
        span = f"[RANGE '{round(window * SECOND)} us']"
        (query,) = weft.sql(f"SELECT a.r, b.r AS q FROM a {span}, b {span} WHERE {where}")
        assert isinstance(query, JoinQuery)
        members.append(member(query.renamed(f"q{number}")))
    return members


def feed(joined: Any, steps: Sequence[tuple[pa.Table, pa.Table]]) -> dict[str, float]:
    """Run to the end; processor seconds, results, and rows kept (the mean of the last quarter)."""
    clocks, state_rows, results = [Clock("ts"), Clock("ts")], [], 0
    began = time.process_time()
    for step in steps:
        timed: list[OrderedRows] = [clock.admit(Chunk(table), now=0)[0] for clock, table in zip(clocks, step)]
        tables = joined.step(timed, [clock.watermark for clock in clocks])
        results += sum(table.num_rows for table in tables.values())
        state_rows.append(joined.state_rows)
    results += sum(table.num_rows for table in joined.step([None, None], [END_OF_TIME, END_OF_TIME]).values())
    seconds = time.process_time() - began
    return {"seconds": seconds, "results": results, "rows": mean(state_rows[-(len(state_rows) // 4) :])}


def compare_strategies(setting: Setting, seconds: int, tries: int) -> list[dict[str, Any]]:
    """Section 8.2: three queries, the two longer ones with a selection, run in every way."""
    windows = WINDOWS[setting.windows]
    members = queries(windows, (None, setting.selection, setting.selection), setting.join)
    steps = list(zip(stream(setting.rate, seconds, 1), stream(setting.rate, seconds, 2)))
    schemas = dict.fromkeys(TIMES, steps[0][0].schema)
    runs: dict[str, dict[str, float]] = {}
    rounds = []
    for _ in range(tries):
        for name, strategy in STRATEGIES.items():
            runs[name] = feed(strategy(members, schemas, TIMES), steps)
            rounds.append({name: runs[name]["seconds"]})
    if len({run["results"] for run in runs.values()}) > 1:
        raise AssertionError(f"the strategies disagree: {runs}")
    best = fewest(rounds)
    return [
        {
            "part": "strategies",
            "windows": setting.windows,
            "selection": setting.selection,
            "join": setting.join,
            "rate": setting.rate,
            "strategy": name,
            "rows": runs[name]["rows"],
            "service_rate": runs[name]["results"] / best[name],
            "results": runs[name]["results"],
        }
        for name in STRATEGIES
    ]


def chain_of(members: Sequence[Member], ends: list[list[int]], schema: pa.Schema) -> Chain:
    """A chain of these slices."""
    return Chain(compile_joins(members, dict.fromkeys(TIMES, schema), TIMES), ends)


def calibrate(rate: float, seconds: int) -> ChainCosts:
    """Measure the cost of a slice and of a window to route to, in rows probed."""
    steps = list(zip(stream(rate, seconds, 1), stream(rate, seconds, 2)))
    schema, count = steps[0][0].schema, 12
    many = queries(MANY_WINDOWS["uniform"](count), [None] * count, 0.025)
    one = [[30 * SECOND], [30 * SECOND]]
    rounds = [
        {
            "alone": feed(chain_of(many[-1:], one, schema), steps)["seconds"],
            "routed": feed(chain_of(many, one, schema), steps)["seconds"],
            "sliced": feed(chain_of(many, mem_opt(many), schema), steps)["seconds"],
        }
        for _ in range(3)
    ]
    took = fewest(rounds)
    probes = 2 * rate**2 * 30 * seconds
    probe = took["alone"] / probes
    system = max(0.0, took["sliced"] - took["routed"]) / (2 * rate * seconds * (count - 1)) / probe
    route = max(0.0, took["routed"] - took["alone"]) / (probes * 0.025 * (count - 1)) / probe
    return ChainCosts(purge=0.0, route=route, system=system)


def compare_chains(
    windows: str, count: int, rate: float, seconds: int, tries: int, costs: ChainCosts
) -> dict[str, Any]:
    """Section 8.3: the chain with a slice per window against the one with the least work."""
    members = queries(MANY_WINDOWS[windows](count), [None] * count, 0.025)
    steps = list(zip(stream(rate, seconds, 1), stream(rate, seconds, 2)))
    rates = assumed(members, rate, 0.025)
    schema = steps[0][0].schema
    measured, papers = cpu_opt(members, rates, costs), cpu_opt(members, rates)
    rounds = []
    for _ in range(tries):
        mem = feed(chain_of(members, mem_opt(members), schema), steps)
        cpu = feed(chain_of(members, measured, schema), steps)
        rounds.append({"mem": mem["seconds"], "cpu": cpu["seconds"]})
    if mem["results"] != cpu["results"]:
        raise AssertionError(f"the chains disagree: {mem} and {cpu}")
    best = fewest(rounds)
    return {
        "part": "chains",
        "windows": windows,
        "queries": count,
        "rate": rate,
        "slices": len(measured[0]),
        "slices_by_comparisons": len(papers[0]),
        "mem_opt": mem["results"] / best["mem"],
        "cpu_opt": cpu["results"] / best["cpu"],
        "comparisons_saved": 1
        - sum(s.cpu for s in priced(members, papers, rates))
        / sum(s.cpu for s in priced(members, mem_opt(members), rates)),
    }


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The thesis' claims as ratios; each compares with a rival at the same setting."""
    compared = [row for row in rows if row["part"] == "strategies"]
    by_setting: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in compared:
        key = (row["windows"], row["selection"], row["join"], row["rate"])
        by_setting.setdefault(key, {})[row["strategy"]] = row
    saved, faster = [], []
    by_rival: dict[str, list[float]] = {}
    for one in by_setting.values():
        sliced, rivals = one["state-slice"], [one["pull-up"], one["push-down"]]
        saved.append(1 - sliced["rows"] / min(r["rows"] for r in rivals))
        faster.append(sliced["service_rate"] / max(r["service_rate"] for r in rivals))
        for name in ("pull-up", "push-down", "isolated"):
            rival = name.replace("-", "_")
            by_rival.setdefault(f"memory_saved_over_{rival}_max", []).append(
                1 - sliced["rows"] / one[name]["rows"]
            )
            gain = sliced["service_rate"] / one[name]["service_rate"]
            by_rival.setdefault(f"service_rate_over_{rival}_max", []).append(gain)
    chosen = {
        "memory_saved_min": min(saved),
        "memory_saved_mean": mean(saved),
        "memory_saved_max": max(saved),
        "service_rate_over_better_min": min(faster),
        "service_rate_over_better_max": max(faster),
        **{name: max(values) for name, values in by_rival.items()},
    }
    for row in rows:
        if row["part"] == "chains":
            kind = row["windows"].replace(" ", "_").replace("-", "_")
            chosen[f"cpu_opt_over_mem_opt_{kind}_{row['queries']}"] = row["cpu_opt"] / row["mem_opt"]
        if row["part"] == "run":
            chosen["run_apart_over_together"] = row["apart"] / row["together"]
    return chosen


def render(result: BenchmarkResult) -> Group:
    """Rows kept and service rate of every strategy, the chains of 8.3, and the thesis' numbers beside."""
    names = list(STRATEGIES)
    tables = []
    compared = [row for row in result.rows if row["part"] == "strategies"]
    for title, value in (("Rows kept", "rows"), ("Results per processor second", "service_rate")):
        shown = Table(title=f"{title} (section 8.2)")
        for heading in ("windows", "selected", "joined", "rows/s", *names):
            shown.add_column(heading, justify="right")
        for at in range(0, len(compared), len(names)):
            some = compared[at : at + len(names)]
            first = some[0]
            what = (first["windows"], str(first["selection"]), str(first["join"]), f"{first['rate']:.0f}")
            shown.add_row(*what, *(f"{row[value]:,.0f}" for row in some))
        tables.append(shown)
    chains = Table(title="Mem-Opt and CPU-Opt chains (section 8.3)")
    for heading in ("windows", "queries", "slices", "by comparisons", "Mem-Opt/s", "CPU-Opt/s", "gain"):
        chains.add_column(heading, justify="right")
    for row in result.rows:
        if row["part"] == "chains":
            chains.add_row(
                *(row["windows"], str(row["queries"]), str(row["slices"]), str(row["slices_by_comparisons"])),
                *(f"{row['mem_opt']:,.0f}", f"{row['cpu_opt']:,.0f}"),
                f"{row['cpu_opt'] / row['mem_opt']:.2f}",
            )
    runs = Table(title="Joins by weft.run, processor seconds")
    for heading in ("queries", "rows", "results", "together", "each alone", "ratio"):
        runs.add_column(heading, justify="right")
    for row in result.rows:
        if row["part"] == "run":
            runs.add_row(
                *(f"{row[name]:,}" for name in ("queries", "rows", "results")),
                *(f"{row[name]:.2f}" for name in ("together", "apart")),
                f"{row['apart'] / row['together']:.1f}",
            )
    f = result.figures
    return Group(
        *tables,
        chains,
        runs,
        beside(
            "Wang, chapter 8",
            [
                ("memory saved over pull-up, at best", "0.2 to 0.3", f["memory_saved_over_pull_up_max"]),
                ("... over push-down, at best", "0.2 to 0.3", f["memory_saved_over_push_down_max"]),
                ("... over the better of both, mean", "", f["memory_saved_mean"]),
                ("service rate over the better baseline, at best", 1.4, f["service_rate_over_better_max"]),
                ("... at worst", "1 or more", f["service_rate_over_better_min"]),
                ("CPU-Opt over Mem-Opt, uniform windows", 1.0, f["cpu_opt_over_mem_opt_uniform_12"]),
                ("... small-large windows", "more than 1", f["cpu_opt_over_mem_opt_small_large_12"]),
                ("... and twice the queries", "more", f["cpu_opt_over_mem_opt_small_large_24"]),
            ],
        ),
    )
