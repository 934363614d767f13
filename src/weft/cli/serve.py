"""``weft serve`` and ``weft query``: a job behind HTTP, and changes to its queries from the command line."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weft.errors import JobError
from weft.io.sinks.latest import DEFAULT_LATEST_ROWS
from weft.jobs import job as jobs
from weft.jobs.report import Report
from weft.web.client import DEFAULT_SERVER, Client
from weft.web.limits import Limits

out = Console()
query = typer.Typer(help="List, add, drop and replace the queries of a server, and read results.")

Server = Annotated[str, typer.Option("--server", help="Where `weft serve` listens.", metavar="URL")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="WEFT_TOKEN", help="The server's token; better in WEFT_TOKEN.", metavar="TEXT"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print what the server said, as JSON.")]
Wait = Annotated[float, typer.Option("--wait", help="Seconds to wait for a batch to take it.", min=0, max=60)]
Sql = Annotated[
    str, typer.Argument(help="The query's text; '-' reads it from standard input.", metavar="SQL")
]
Name = Annotated[str, typer.Argument(help="The query's name.", metavar="NAME")]


def serve(  # noqa: PLR0913 - the options of the command
    job: Annotated[Path, typer.Argument(help="A job file; see docs/job_file.md.", metavar="JOB.toml")],
    port: Annotated[
        int, typer.Option(help="Where to listen; 0 takes any free port.", min=0, max=65535)
    ] = 8787,
    host: Annotated[
        str, typer.Option(help="The address to listen on; all but loopback need a token.")
    ] = "127.0.0.1",
    engine: Annotated[jobs.Engine, typer.Option(help="Where the work runs.")] = jobs.Engine.spark,
    master: Annotated[
        str | None, typer.Option(help="The Spark master, over the job's.", metavar="URL")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WEFT_TOKEN",
            help="What clients must send, better in WEFT_TOKEN; made and printed once where it is needed.",
            metavar="TEXT",
        ),
    ] = None,
    open_reads: Annotated[
        bool, typer.Option("--open-reads", help="Let everyone read without the token.")
    ] = False,
    keep: Annotated[
        int, typer.Option(help="Results kept of each query.", min=1, max=1_000_000)
    ] = DEFAULT_LATEST_ROWS,
    max_queries: Annotated[int, typer.Option(help="The most queries at once.", min=1)] = 1000,
) -> None:
    """Run a job and serve it: queries come and go over HTTP, results, plan and metrics can be read."""
    from weft.web.server import ServerAddress
    from weft.web.server import serve as serve_job

    address = ServerAddress(host, port, token or None, open_reads)
    with Report(out) as report:
        serve_job(
            jobs.load(job),
            engine.value,
            report,
            address,
            master=master,
            keep=keep,
            limits=Limits(queries=max_queries),
        )


@query.command("list")
def list_queries(server: Server = DEFAULT_SERVER, token: Token = None, json: Json = False) -> None:
    """List the queries."""
    queries = Client(server, token).queries()
    if json:
        print(dumps(queries, indent=2))
        return
    table = Table("name", "state", "window", "since", "exact from", "results")
    for entry in queries:
        table.add_row(
            entry["name"],
            entry["state"],
            entry["window"],
            _instant(entry["since"]),
            _instant(entry["exact_from"]) or "all",
            f"{entry['results']:,}",
        )
    out.print(table)


@query.command()
def add(
    sql: Sql,
    name: Annotated[str | None, typer.Option(help="Its name, unless the text has one.")] = None,
    wait: Wait = 10.0,
    server: Server = DEFAULT_SERVER,
    token: Token = None,
    json: Json = False,
) -> None:
    """Add a query."""
    _print(Client(server, token).add(_text(sql), name, wait), json)


@query.command()
def replace(
    name: Name,
    sql: Sql,
    wait: Wait = 10.0,
    server: Server = DEFAULT_SERVER,
    token: Token = None,
    json: Json = False,
) -> None:
    """Replace the query of this name by another."""
    _print(Client(server, token).replace(name, _text(sql), wait), json)


@query.command()
def drop(
    name: Name, wait: Wait = 10.0, server: Server = DEFAULT_SERVER, token: Token = None, json: Json = False
) -> None:
    """Drop a query; its open windows are not answered."""
    _print(Client(server, token).drop(name, wait), json)


@query.command()
def results(
    name: Name,
    limit: Annotated[int, typer.Option(help="The most rows.", min=1, max=10_000)] = 20,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only groups with column=value; can be given again.", metavar="COLUMN=VALUE"),
    ] = None,
    server: Server = DEFAULT_SERVER,
    token: Token = None,
    json: Json = False,
) -> None:
    """Read the latest results of a query, the newest first."""
    answer = Client(server, token).results(name, limit, tuple(where or ()))
    if json:
        print(dumps(answer, indent=2))
        return
    table = Table(*answer["columns"])
    for row in answer["rows"]:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in answer["columns"]))
    out.print(table)


def _print(change: dict[str, Any], json: bool) -> None:
    if json:
        print(dumps(change, indent=2))
        return
    text = f"{change['name']}: {change['state']}, version {change['version']}"
    if change["state"] == "running":
        since = _instant(change["exact_from"])
        text += f", exact from {since}" if since else ", exact from the first window"
        text += "" if change["history"] else ", without rows from before it was added"
    elif change["state"] != "dropped":
        text += "; the next batch takes it"
    out.print(text, highlight=False, markup=False)


def _instant(text: str | None) -> str:
    return "" if text is None else text.replace("T", " ").removesuffix("Z").partition(".")[0]


def _text(sql: str) -> str:
    if sql != "-":
        return sql
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise JobError(f"standard input is not text in UTF-8 ({error.reason})") from error
