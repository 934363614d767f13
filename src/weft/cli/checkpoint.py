"""``weft checkpoint``: list, copy and take back the checkpoints of streams that do not run."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer
from rich.console import Console

from weft.model.instants import iso
from weft.planning.drawing import aligned
from weft.store.manage import EntrySummary, copy_checkpoint, list_entries, roll_back

checkpoint = typer.Typer(help="List, copy and take back checkpoints; the stream must not run.")
out = Console()

COLUMNS = (
    "entry",
    "step",
    "kind",
    "written",
    "version",
    "rows",
    "files",
    "bytes",
    "delivered",
    "queries",
    "watermarks",
)

Place = Annotated[str, typer.Argument(help="A checkpoint directory, or its address.", metavar="PLACE")]


@checkpoint.command("list")
def list_command(
    place: Place,
    json: Annotated[bool, typer.Option("--json", help="Print the entries as JSON.")] = False,
) -> None:
    """List the entries of a checkpoint: its last steps, and the turns of drivers. Times are in UTC."""
    entries = list_entries(place)
    if json:
        print(dumps([asdict(entry) for entry in entries], indent=2))
        return
    lines = aligned([COLUMNS, *map(_cells, entries)])
    print("\n".join(lines))


@checkpoint.command()
def copy(
    place: Place,
    target: Annotated[str, typer.Argument(help="A directory that is not there yet.", metavar="TARGET")],
    step: Annotated[
        int | None, typer.Option(help="The step whose state is copied; the last unless said.", metavar="N")
    ] = None,
) -> None:
    """Copy a checkpoint: another stream goes on from the state, queries and position of a step.

    The copy has a name of its own, so that sinks keep its results apart.
    """
    entry = copy_checkpoint(place, target, step)
    _say(f"'{target}' goes on after step {entry.seq}; give its run a sink of its own")


@checkpoint.command()
def rollback(
    place: Place,
    to: Annotated[int, typer.Option(help="The step to go on from.", metavar="N")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Take a stream back to an older step: its state, its queries, and its position in the sources.

    The next run first takes back what sinks have of later steps, where they can: files, PostgreSQL. What was
    sent to Kafka, a webhook or the console stays, and the results are sent again.
    """
    if not yes:
        typer.confirm(f"Take '{place}' back to step {to}? Later steps are given up", abort=True)
    done = roll_back(place, to)
    _say(
        f"'{place}' is at step {done.to}; when it is next run, sinks that can remove what they have of steps "
        f"{done.first_left} to {done.last_left}, and others get their results again"
    )


def _cells(entry: EntrySummary) -> list[str]:
    delivered = "" if entry.delivered is None else "yes" if entry.delivered else "not yet"
    marks = (f"{name} {_time(mark) or '-'}" for name, mark in entry.marks.items())
    queries = ", ".join(entry.queries[:3])
    more = f" and {len(entry.queries) - 3} more" if len(entry.queries) > 3 else ""
    return [
        str(entry.entry),
        str(entry.seq) + (" (left)" if entry.left else ""),
        entry.kind,
        _time(entry.written),
        str(entry.version or ""),
        f"{entry.rows:,}",
        str(entry.files),
        f"{entry.bytes:,}",
        delivered,
        queries + more,
        "; ".join(marks),
    ]


def _time(instant: int | None) -> str:
    """Return an instant, in UTC, to the second."""
    return "" if instant is None else iso(instant).replace("T", " ").partition(".")[0].removesuffix("Z")


def _say(text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)
