"""Metrics of a run in the text form that Prometheus reads, worked out whenever they are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import metadata

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from weft.planning.plan import Plan
from weft.web.overview import watermark
from weft.web.record import Record
from weft.web.run_service import RunService

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTER_HELP = {
    "rows": "Rows taken in.",
    "late": "Rows that missed at least one of their windows.",
    "ahead": "Rows further ahead of the clock than is believed: they move no watermark.",
    "untimed": "Rows without an event time.",
    "bad": "Values and rows that could not be read or computed.",
}


def metrics(served: RunService) -> bytes:
    """Return all metrics of a run, as text."""
    registry = CollectorRegistry()
    registry.register(_Collector(served))
    return generate_latest(registry)


class _Collector:
    def __init__(self, served: RunService) -> None:
        self.served = served

    def collect(self) -> Iterator[Metric]:
        """Every family of metrics."""
        yield InfoMetricFamily("weft", "The version of weft.", value={"version": metadata.version("weft")})
        yield _labelled(
            "weft_run_state",
            "1 for the state that the run is in.",
            "state",
            {state: float(state == self.served.state) for state in ("running", "ended", "failed")},
        )
        yield from _work(self.served.record)
        yield from _now(self.served.record)
        yield from _plan(self.served.running.plan)
        yield from self._queries()

    def _queries(self) -> Iterator[Metric]:
        states = dict.fromkeys(("running", "adding", "replacing", "dropping", "failed"), 0.0)
        for query in self.served.queries():
            states[query.state] += 1
        yield _labelled("weft_queries", "Queries by state.", "state", states)
        version = float(self.served.running.program.version)
        yield GaugeMetricFamily("weft_queries_version", "Version of the queries in force.", value=version)
        results = CounterMetricFamily("weft_query_results", "Results of each query.", labels=["query"])
        for name, count in dict(self.served.latest.delivered).items():
            results.add_metric([name], count)
        yield results


def _work(record: Record) -> Iterator[Metric]:
    """Yield the counters of the work since the start."""
    for name, words in COUNTER_HELP.items():
        label = "weft_rows" if name == "rows" else f"weft_{name}_{'values' if name == 'bad' else 'rows'}"
        yield CounterMetricFamily(label, words, value=record.totals[name])
    yield CounterMetricFamily("weft_results", "Results delivered.", value=record.totals["results"])
    kinds = CounterMetricFamily("weft_batches", "Steps made, by kind.", labels=["kind"])
    for kind in ("batch", "flush"):
        kinds.add_metric([kind], record.kinds[kind])
    yield kinds
    parts = CounterMetricFamily("weft_step_part_seconds", "Seconds spent in parts of steps.", labels=["part"])
    for part, seconds in list(record.parts.items()):
        parts.add_metric([part], seconds)
    yield parts
    steps = SummaryMetricFamily(
        "weft_step_seconds",
        "Seconds that steps took; quantiles of the latest thousand.",
        count_value=sum(record.kinds.values()),
        sum_value=record.totals["seconds"],
    )
    for quantile, value in record.quantiles().items():
        steps.add_sample("weft_step_seconds", {"quantile": str(quantile)}, value)
    yield steps
    work = record.work
    yield CounterMetricFamily(
        "weft_partial_seconds", "Work of making partials, for the queries in force.", value=work.partial
    )
    trees = CounterMetricFamily(
        "weft_tree_seconds", "Work of answering each tree, for the queries in force.", labels=["tree"]
    )
    for number, seconds in enumerate(work.trees):
        trees.add_metric([str(number)], seconds)
    yield trees


def _now(record: Record) -> Iterator[Metric]:
    """Yield the gauges of the latest step."""
    last = record.last
    if last is None:
        return
    yield GaugeMetricFamily("weft_state_rows", "Rows of state.", value=last.state_rows)
    yield GaugeMetricFamily("weft_state_bytes", "Bytes of state.", value=last.state_bytes)
    yield GaugeMetricFamily("weft_last_step_seconds", "Seconds of the latest step.", value=last.seconds)
    mark = watermark(record)
    if mark is not None:
        seconds = mark / 1e6
        yield GaugeMetricFamily("weft_watermark_seconds", "The watermark, in Unix time.", value=seconds)
        lag = time.time() - seconds
        yield GaugeMetricFamily("weft_watermark_lag_seconds", "Clock less watermark.", value=lag)


def _plan(plan: Plan) -> Iterator[Metric]:
    """Yield the estimated costs of the plan in force."""
    total = GaugeMetricFamily("weft_plan_cost", "Estimated cost of the plan.", labels=["unit"])
    alone = GaugeMetricFamily(
        "weft_plan_cost_alone", "Estimated cost of the queries one by one.", labels=["unit"]
    )
    for unit, cost in plan.costs.items():
        total.add_metric([unit], cost.cost)
        alone.add_metric([unit], cost.alone)
    yield total
    yield alone
    trees = GaugeMetricFamily(
        "weft_tree_cost", "Estimated cost of each tree.", labels=["tree", "technique", "node", "unit"]
    )
    for number, tree in enumerate(plan.trees):
        trees.add_metric([str(number), tree.technique, str(tree.node), plan.unit], tree.cost)
    yield trees


def _labelled(name: str, words: str, label: str, values: dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=[label])
    for value, number in values.items():
        family.add_metric([value], number)
    return family
