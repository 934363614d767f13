"""The ``weft`` command: reads arguments, calls the packages below, prints. Errors are one line on stderr.

Exit codes: 0 done, 1 a run failed, 2 the input (command line, queries, job file, checkpoint) is at fault.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from importlib import metadata
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weft.cli import bench as benchmarks
from weft.cli import demo as demonstration
from weft.cli import serve as commands
from weft.cli.checkpoint import checkpoint
from weft.errors import CheckpointError, JobError, QueryError, WeftError
from weft.expr.types import UTC
from weft.io.json_values import json_rows
from weft.io.sinks import MemorySink
from weft.io.sources.generated import KINDS, Generated
from weft.jobs import job as jobs
from weft.jobs import launch
from weft.jobs.job import Engine
from weft.jobs.report import Report, step_bar
from weft.local import sample
from weft.model.join import JoinQuery
from weft.planning.compare import Compared, compare
from weft.planning.cost import constants
from weft.planning.explain import explain
from weft.planning.plan import Plan
from weft.planning.planner import plan as make_plan
from weft.sql import sql
from weft.sql.define import defined_in, load_aggregates

app = typer.Typer(
    help="Hundreds of sliding-window queries over one stream for the price of about one, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
out = Console()
err = Console(stderr=True)


def main() -> None:
    """The entry point: `app`, with errors turned into one line and an exit code."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if "--debug" in sys.argv[1:2]:
            raise
        at_fault = isinstance(error, QueryError | JobError | CheckpointError)
        message = str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
        print(f"weft: {' '.join(message.split())}", file=sys.stderr)
        if not isinstance(error, WeftError):
            print("weft: `weft --debug ...` shows where", file=sys.stderr)
        sys.exit(2 if at_fault else 1)


def _version(requested: bool) -> None:
    if requested:
        print(f"weft {metadata.version('weft')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (before the command).")] = False,
) -> None:
    """Options that stand before a command."""


@app.command()
def plan(  # noqa: PLR0913 - the options of the command
    queries: Annotated[
        Path, typer.Argument(help="A file of SQL queries, or a job file.", metavar="QUERIES.sql")
    ],
    rate: Annotated[
        float | None, typer.Option(help="Rows per second of each stream; 1,000 unless said.")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="Which queries share slices; 'all' compares every way.", metavar="NAME")
    ] = "share-all",
    nodes: Annotated[int, typer.Option(help="How many places work can run at.")] = 1,
    technique: Annotated[str, typer.Option(help="How windows are answered.", metavar="NAME")] = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the plan into this file.", metavar="FILE")] = None,
    why: Annotated[
        str | None, typer.Option("--explain", help="Say why this query is where it is.", metavar="QUERY")
    ] = None,
    aggregates: Annotated[
        list[Path] | None,
        typer.Option(help="A Python file that defines aggregates; can be given again.", metavar="FILE"),
    ] = None,
    chain: Annotated[
        str,
        typer.Option(help="How joins are sliced: mem-opt, cpu-opt, or the most rows kept.", metavar="SHAPE"),
    ] = "mem-opt",
    rows: Annotated[
        Path | None,
        typer.Option(
            "--sample",
            help="Rows of the stream (Parquet, CSV, JSON), to count what they share.",
            metavar="FILE",
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--time", help="The sample's time column, where several could be.", metavar="COLUMN"),
    ] = None,
) -> None:
    """Show what window queries and joins would share, and what that should cost."""
    if sum((json, svg is not None, why is not None)) > 1:
        raise JobError("--json, --svg FILE and --explain QUERY exclude each other; run the command again")
    job = jobs.load(queries) if queries.suffix == ".toml" else None
    load_aggregates([*(aggregates or ()), *(job.aggregates if job else ())])
    parsed = sql(_read(queries) if job is None else job.sql)
    streams = job.streams if job else None
    joined = any(isinstance(q, JoinQuery) for q in parsed)
    if strategy == "all" and (svg or why or rows or joined):
        remedy = "put the joins into a file of their own" if joined else "name one strategy to see its plan"
        raise JobError(f"--strategy all gives a table or --json, for window queries; {remedy}")
    options: dict[str, Any] = {
        "rate": 1000.0 if rate is None else rate,
        "nodes": nodes,
        "technique": technique,
        "constants": constants(),
        "streams": streams,
        "chain": chain,
    }
    if strategy == "all":
        _print_comparisons(compare(parsed, **options), json)
        return
    chosen = make_plan(parsed, strategy=strategy, **options)
    zone = (job.zone if job else None) or UTC
    sampled = sample.sharing(_sampled(chosen), sample.read_sample(rows), column, zone=zone) if rows else []
    if svg:
        _write(svg, chosen.to_svg())
    elif json:
        sharing_data: dict[str, Any] = {"sharing": [asdict(choice) for choice in sampled]} if rows else {}
        print(dumps(chosen.to_dict() | sharing_data, indent=2))
    elif why:
        print(_explained(chosen, why))
    else:
        print("\n".join([str(chosen), *defined_in(chosen.queries), *map(str, sampled)]))
        if rate is None and chosen.trees:
            print(f"{chosen.rate:,.6g} rows/s are assumed; --rate says how many there are")


def _sampled(chosen: Plan) -> Plan:
    """Return the part of a plan that a sample of one stream's rows can be counted for."""
    joins = {join.name for join in chosen.joins}
    plans = [part for part in chosen.stream_plans if part.queries[0].name not in joins]
    if len(plans) != 1:
        names = ", ".join(part.trees[0].stream for part in plans) or "none"
        raise JobError(f"--sample FILE has rows of one stream, and window queries are over {names}")
    return plans[0]


def _explained(chosen: Plan, name: str) -> str:
    """Say why a query is where it is: a join in its chain, and what is asked of its results in its tree."""
    chains = [str(c) for c in chosen.chains if name in [m.name for m in c.members]]
    in_tree = not chains or name in [q.name for q in chosen.queries]
    return "\n\n".join([*chains, *([str(explain(chosen, name))] if in_tree else [])])


@app.command()
def run(
    job: Annotated[Path, typer.Argument(help="A job file; see docs/job_file.md.", metavar="JOB.toml")],
    engine: Annotated[Engine, typer.Option(help="Where the work runs.")] = Engine.spark,
    master: Annotated[
        str | None, typer.Option(help="The Spark master, over the job's.", metavar="URL")
    ] = None,
) -> None:
    """Run the queries of a job file over its source, into its sink.

    A query that cannot be answered stops alone; at the end it is named, and the exit code is 1.
    """
    loaded = jobs.load(job)
    with Report(out) as report:
        sink = launch.make_sink(loaded, report)
        try:
            launch.run(loaded, engine.value, report, master, sink)
        finally:
            if isinstance(sink, MemorySink) and sink.steps:
                report.note(results={name: table.num_rows for name, table in sink.tables.items()})
            report.close()


@app.command()
def generate(
    data: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.")],
    rows: Annotated[int, typer.Option(help="How many.", min=0)] = 1000,
    rate: Annotated[float, typer.Option(help="Rows per second of event time.")] = 1000.0,
    keys: Annotated[int, typer.Option(help="How many symbols, sensors, users, houses or cards.")] = 500,
    skew: Annotated[float, typer.Option(help="How unequal they are; 0: all alike.")] = 1.0,
    disorder: Annotated[float, typer.Option(help="Seconds by which rows come late, at most.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Another seed, other rows.")] = 0,
    pace: Annotated[bool, typer.Option("--pace", help="Let them come as time passes, from now on.")] = False,
) -> None:
    """Print made-up rows as lines of JSON, to feed a file or a Kafka topic."""
    source, left = Generated(data, rows, rate, keys, skew, seed, disorder, pace), rows
    for chunk in source.arrivals():
        if chunk is not None:
            print(*json_rows(chunk.table), sep="\n", flush=True)
            left -= chunk.table.num_rows
        if not left:
            return
        time.sleep(0.0 if chunk is not None else 0.05)


app.command()(commands.serve)
app.add_typer(commands.query, name="query", no_args_is_help=True)
app.add_typer(checkpoint, name="checkpoint", no_args_is_help=True)


@app.command()
def cluster(
    workers: Annotated[int, typer.Option(help="How many workers.", min=1)] = 2,
    cores: Annotated[int, typer.Option(help="Cores of each worker.", min=1)] = 1,
    memory: Annotated[str, typer.Option(help="Memory of each worker.", metavar="SIZE")] = "1g",
    port: Annotated[int, typer.Option(help="The master's port.")] = 7077,
) -> None:
    """Start a small standalone Spark cluster on this machine, until Ctrl-C."""
    from weft.spark.cluster import Cluster

    with Cluster(workers, cores, memory, port) as started:
        out.print(f"Spark master at {started.url} with {workers} workers; Ctrl-C stops them", highlight=False)
        out.print(f"in another terminal: weft run JOB.toml --master {started.url}", highlight=False)
        while started.alive() >= 0:
            time.sleep(1)
        raise WeftError("the Spark master has ended")


@app.command()
def demo(
    queries: Annotated[int, typer.Option(help="How many queries.", min=1)] = 100,
    rows: Annotated[int, typer.Option(help="How many trades.", min=1)] = 2_000_000,
    engine: Annotated[Engine, typer.Option(help="Where the work runs.")] = Engine.spark,
) -> None:
    """Run many queries over generated trades, and a sample of them natively for comparison."""
    demonstration.run(queries, rows, engine.value, out)


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks to run.", metavar="NAME...")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
    run_all: Annotated[bool, typer.Option("--all", help="Run every benchmark.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller input.")] = False,
    minutes: Annotated[
        float | None, typer.Option(help="How long to go on, for those that can (soak).", min=0.1)
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Save rows and figures here.", metavar="FILE")] = None,
    plots: Annotated[Path, typer.Option(help="Draw plots into this folder.", metavar="DIR")] = Path(
        "out/bench"
    ),
) -> None:
    """Measure weft against its peers; every figure is a ratio measured in one run."""
    if show:
        _list()
        return
    chosen = benchmarks.names() if run_all else names or []
    if not chosen:
        raise JobError(f"which benchmark? There are: {', '.join(benchmarks.names())}")
    results = []
    for name, module in [(name, benchmarks.load(name)) for name in chosen]:
        options = {} if minutes is None else benchmarks.with_minutes(module, name, minutes)
        with step_bar(err) as progress:
            result = module.run(quick, progress, **options)
        out.print(module.render(result))
        for note in result.notes:
            out.print(note, style="dim", highlight=False)
        out.print(_figures(result.figures))
        if drawn := benchmarks.draw(module, result, plots / name):
            out.print(f"{len(drawn)} plots in {plots / name}", style="dim", highlight=False)
        results.append(result)
    if json:
        benchmarks.save(results, json)


def _print_comparisons(comparisons: list[Compared], json: bool) -> None:
    """Print every strategy's plan beside the others."""
    if json:
        print(dumps([comparison.to_dict() for comparison in comparisons], indent=2))
    else:
        out.print(_comparison_table(comparisons))


def _comparison_table(comparisons: list[Compared]) -> Table:
    plans = [comparison.plan for comparison in comparisons if comparison.plan is not None]
    unit, spread = f"{plans[0].price.unit}/s", plans[0].nodes > 1
    columns = ["strategy", "trees", unit, "dearer by", *(["busiest node"] * spread), "seconds"]
    table = Table(*columns, title=f"{len(plans[0].queries)} queries at {plans[0].rate:,.6g} rows/s")
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for comparison in comparisons:
        if comparison.plan is None:
            table.add_row(comparison.strategy, "", "", comparison.why)
            continue
        facts = [
            str(len(comparison.plan.trees)),
            f"{comparison.plan.cost:,.6g}",
            f"{comparison.plan.cost / plans[0].cost - 1:+.1%}",
        ]
        facts += [f"{max(comparison.plan.node_costs):,.6g}"] * spread
        table.add_row(comparison.strategy, *facts, f"{comparison.seconds:.3f}")
    return table


def _list() -> None:
    table = Table(box=None, show_header=False)
    for name in benchmarks.names():
        table.add_row(name, benchmarks.summary(name))
    out.print(table)


def _figures(figures: dict[str, float]) -> Table:
    table = Table("figure", "ratio", title="Figures")
    for name, value in figures.items():
        table.add_row(name, f"{value:.2f}")
    return table


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise JobError(f"'{path}' cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise JobError(f"'{path}' is not a text file in UTF-8 ({error.reason})") from error


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise JobError(f"'{path}' cannot be written: {error.strerror}") from error
