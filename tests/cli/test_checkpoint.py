"""``weft checkpoint`` as a person meets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.places import GOLDEN
from weft.cli.main import app
from weft.errors import CheckpointError

runner = CliRunner()


@pytest.fixture
def place(tmp_path: Path) -> str:
    shutil.copytree(GOLDEN / "checkpoints" / "format-3-windows" / "checkpoint", tmp_path / "checkpoint")
    return str(tmp_path / "checkpoint")


def test_entries_are_printed(place: str) -> None:
    printed = runner.invoke(app, ["checkpoint", "list", place], env={"COLUMNS": "200"})
    assert printed.exit_code == 0
    for text in ("by_pair, by_level, all and 1 more", "180", "windows: 2024-01-01 01:27:23", "batch"):
        assert text in printed.output


def test_entries_are_printed_as_json(place: str) -> None:
    entries = json.loads(runner.invoke(app, ["checkpoint", "list", place, "--json"]).output)
    assert [(entry["seq"], entry["rows"]) for entry in entries] == [(1, 60), (2, 120), (3, 180)]


def test_a_copy_says_from_where_it_goes_on(place: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy")
    printed = runner.invoke(app, ["checkpoint", "copy", place, target, "--step", "2"])
    assert printed.output == f"'{target}' goes on after step 2; give its run a sink of its own\n"
    assert "2" in {
        str(e["seq"]) for e in json.loads(runner.invoke(app, ["checkpoint", "list", target, "--json"]).output)
    }


def test_a_rollback_asks_first_and_says_what_becomes_of_sinks(place: str) -> None:
    refused = runner.invoke(app, ["checkpoint", "rollback", place, "--to", "1"], input="n\n")
    assert refused.exit_code == 1 and "Later steps are given up" in refused.output
    assert len(json.loads(runner.invoke(app, ["checkpoint", "list", place, "--json"]).output)) == 3
    done = runner.invoke(app, ["checkpoint", "rollback", place, "--to", "1", "--yes"])
    assert (
        "is at step 1; when it is next run, sinks that can remove what they have of steps 2 to 3"
        in done.output
    )


def test_errors_are_those_of_the_store(place: str) -> None:
    error = runner.invoke(app, ["checkpoint", "rollback", place, "--to", "7", "--yes"]).exception
    assert isinstance(error, CheckpointError) and "there are: 1, 2, 3" in str(error)


@pytest.mark.parametrize("command", ["list", "copy", "rollback"])
def test_every_command_has_help(command: str) -> None:
    shown = runner.invoke(app, ["checkpoint", command, "--help"])
    assert shown.exit_code == 0 and "PLACE" in shown.output
