"""The counted work of weft in the quick benchmarks spark-native, peers and join: equal to the last digit.

    python benchmarks/counted --save benchmarks/counted/before.json
    python benchmarks/counted --compare benchmarks/counted/before.json

Rows, cells, combines, answers, jobs, tasks and shuffled bytes depend on no clock, so a change that only moves
or renames code leaves them as they are. Rivals are not run. One slot on Spark, with two tasks to a stage,
keeps them in one order: with more, it is chance which worker has what in its caches.

Left out, because it differs from run to run: seconds, and the bytes of notes between tasks and of a
checkpoint's own metadata (they hold seconds, random tokens or task numbers). In Spark's workers the clock
that notes are stamped with stands still, so that shuffled bytes can be compared. Costs that calibration has
measured are not used: chains of least work are those by comparisons.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CORES = 2
CONF = {
    "spark.driver.memory": "4g",
    "spark.default.parallelism": str(CORES),
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.python.daemon.module": "counted_daemon",
    "spark.ui.retainedJobs": "100000",
    "spark.ui.retainedStages": "100000",
}
JOIN_RATE, JOIN_SECONDS = 100.0, 36
Scenario = tuple[str, Callable[[], Iterable[tuple[str, Any]] | None]]


def pin(folder: Path) -> None:
    """Leave nothing to the machine: no measured costs, a fixed number of cores; counters in all processes."""
    os.environ["WEFT_COSTS"] = str(folder / "no-costs.json")
    os.environ[counters.LOG] = str(folder / "log")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.cpu_count = lambda: CORES


def scenarios(folder: Path, spark: Any) -> Iterator[Scenario]:
    """All that is counted, by name."""
    yield from join_scenarios()
    yield from peers_scenarios(folder / "peers", spark)
    yield from native_scenarios(folder / "native", spark)


def native_scenarios(folder: Path, spark: Any) -> Iterator[Scenario]:
    """The sides of ``weft bench spark-native --quick`` that are weft's."""
    import pyarrow.dataset as ds
    import spark_native

    import weft
    from weft.testing import write_parquet
    from weft.testing.questions import sliding, text

    trades = str(folder / "trades")
    write_parquet(trades, spark_native.QUICK_ROWS, files=spark_native.FILES)
    for count in spark_native.COUNTS:
        queries = weft.sql(text(sliding(count)))
        sides: dict[str, Callable[[], Mapping[str, Any]]] = {
            "inprocess": lambda q=queries: weft.run(q, ds.dataset(trades).to_batches(), time="ts"),
            "dataframe": lambda q=queries: weft.share(spark.read.parquet(trades), q, time="ts").to_arrow(),
            "direct": lambda q=queries: weft.share(weft.Files(trades), q, time="ts").to_arrow(),
            "stream": lambda q=queries: spark_native.weft_stream(folder, q),
        }
        for side, work in sides.items():
            yield f"spark-native/{side}/N={count}", lambda work=work: work().items()


def peers_scenarios(folder: Path, spark: Any) -> Iterator[Scenario]:
    """The ways of ``weft bench peers --quick`` that are weft's."""
    import peers

    from weft.testing import write_parquet
    from weft.testing.questions import sliding

    (path,) = write_parquet(folder / "trades", peers.QUICK_ROWS, files=1, rate=peers.RATE)
    world = peers.World(str(path), folder, spark, settled=0)
    for rival in peers.RIVALS:
        if not rival.name.startswith("weft, "):
            continue
        for count in (*peers.COUNTS, *peers.LARGE_COUNTS) if rival is peers.RIVALS[0] else peers.COUNTS:
            side = rival.name.removeprefix("weft, ").lower().replace(" ", "-")
            yield (
                f"peers/{side}/N={count}",
                lambda ask=rival.answers, count=count: ask(world, sliding(count)),
            )


def join_scenarios() -> Iterator[Scenario]:
    """The strategies and chains of ``weft bench join --quick``, and 16 joins by ``weft.run``."""
    import join

    import weft
    from lab.joins.baselines import STRATEGIES
    from weft.planning.joins.rates import assumed
    from weft.planning.joins.shape import cpu_opt, mem_opt

    streams = [join.stream(JOIN_RATE, JOIN_SECONDS, seed) for seed in (1, 2)]
    steps, schema = list(zip(*streams)), streams[0][0].schema
    schemas = dict.fromkeys(join.TIMES, schema)
    for windows, selection, share in join._settings():
        members = join.queries(join.WINDOWS[windows], (None, selection, selection), share)
        for name, strategy in STRATEGIES.items():
            setting = f"{windows.replace(' ', '-')},selection={selection},join={share}"
            yield (
                f"join/{name}/{setting}",
                lambda make=strategy, m=members: drop(join.feed(make(m, schemas, join.TIMES), steps)),
            )
    for windows in join.MANY_WINDOWS:
        for count in (12, 24):
            members = join.queries(join.MANY_WINDOWS[windows](count), [None] * count, 0.025)
            # By comparisons, as in the thesis: the benchmark itself measures what they cost.
            ends = {
                "mem-opt": mem_opt(members),
                "cpu-opt": cpu_opt(members, assumed(members, JOIN_RATE, 0.025)),
            }
            for name, some in ends.items():
                yield (
                    f"join/{name}/{windows.replace(' ', '-')},N={count}",
                    lambda m=members, e=some: drop(join.feed(join.chain_of(m, e, schema), steps)),
                )
    queries = weft.sql(sixteen_joins())
    batches = dict(zip(join.TIMES, streams))
    yield "join/run/N=16", lambda: weft.run(queries, batches, time="ts").items()


def sixteen_joins() -> str:
    """Joins that share two chains: eight on equal values, eight on an expression, half with a selection."""
    texts = []
    for number in range(16):
        span = f"[RANGE '{2 * number + 2} s']"
        where = "a.r = b.r" if number < 8 else "(a.r + b.r) % 1000 < 25"
        where += " AND a.s < 0.5" if number % 2 else ""
        texts.append(
            f"-- name: j{number:02}\nSELECT a.r, b.r AS q, a.s FROM a {span}, b {span} WHERE {where};\n"
        )
    return "\n".join(texts)


def drop(_: object) -> None:
    """Leave out what was measured instead of counted."""


class Jobs:
    """Spark's own counts of the jobs since the last time."""

    def __init__(self, spark: Any) -> None:
        self.context = spark.sparkContext._jsc.sc()
        self.jobs: set[int] = set()

    def take(self) -> Counter[str]:
        """Return the counts since the last time."""
        self.context.listenerBus().waitUntilEmpty()
        store, counts = self.context.statusStore(), Counter[str]()
        listed = store.jobsList(None)
        for job in (listed.apply(at) for at in range(listed.size())):
            if job.jobId() in self.jobs:
                continue
            self.jobs.add(job.jobId())
            counts["spark.jobs"] += 1
            stages = job.stageIds()
            for stage in (store.lastStageAttempt(stages.apply(at)) for at in range(stages.size())):
                counts["spark.stages"] += 1
                counts["spark.tasks"] += stage.numCompleteTasks()
                counts["spark.failed_tasks"] += stage.numFailedTasks()
                counts["spark.input_rows"] += stage.inputRecords()
                counts["spark.shuffled_rows"] += stage.shuffleWriteRecords()
                counts["spark.shuffle_written_bytes"] += stage.shuffleWriteBytes()
                counts["spark.shuffle_read_bytes"] += stage.shuffleReadBytes()
        return counts


def count_all(only: str) -> dict[str, int]:
    """Run every scenario whose name has ``only`` in it."""
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="weft-counted-") as name:
        folder = Path(name)
        pin(folder)
        counters.install()
        import peers

        import weft

        spark = weft.session("local[1]", CONF)
        jobs = Jobs(spark)
        for scenario, work in scenarios(folder, spark):
            if only not in scenario:
                continue
            print(scenario, file=sys.stderr, flush=True)
            tables = dict(work() or ())
            scenario_counts = counters.take() + jobs.take()
            if scenario.startswith("join/"):
                scenario_counts["answers"] = sum(table.num_rows for table in tables.values())
            else:
                for table in tables.values():
                    sums = ("answers", "answers.shares", "answers.trades", "answers.cents", "answers.starts")
                    scenario_counts.update(dict(zip(sums, peers.summary(table))))
            counts |= {f"{scenario}/{name}": count for name, count in scenario_counts.items() if count}
        spark.stop()
    return dict(sorted(counts.items()))


def compare(before: Mapping[str, int], now: Mapping[str, int]) -> int:
    """Print every counter that differs; return how many do."""
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    for name in names:
        print(f"{name}: {before.get(name, 'not there')} before, {now.get(name, 'not there')} now")
    print(f"{len(now)} counters, {len(names)} differ")
    return len(names)


def main() -> int:
    """Count, then save or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", type=Path, help="write the counters to this file")
    parser.add_argument("--compare", type=Path, help="exit with 1 unless all are as in this file")
    parser.add_argument("--only", default="", help="only scenarios with this in their name, as 'stream/N=64'")
    options = parser.parse_args()
    before = json.loads(options.compare.read_text()) if options.compare else None
    counts = count_all(options.only)
    if options.save:
        options.save.write_text(json.dumps(counts, indent=1) + "\n")
    if before is not None:
        wanted = {name: n for name, n in before.items() if options.only in name.rpartition("/")[0]}
        return 1 if compare(wanted, counts) else 0
    return 0


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]
    import counters

    sys.exit(main())
