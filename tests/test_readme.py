"""What the README and the docs say is true: Python runs, SQL parses, links and tables are complete."""

from __future__ import annotations

import ast
import collections
import dataclasses
import re
import tomllib
from pathlib import Path

import pytest
import servers
from brokers import Broker

import weft
from weft import aggregates, bench, expr, job, job_sinks

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_readme_runs(spark, capsys):
    python = blocks("README.md", "python")
    assert len(python) >= 2
    names: dict[str, object] = {}
    for block in python:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "window_start" in printed
    assert int(printed.split()[-1]) == names["answers"]["calm"].num_rows


def test_python_in_the_docs_runs(capsys):
    names: dict[str, object] = {}
    for block in blocks("docs/queries.md", "python"):
        exec(compile(block, "docs/queries.md", "exec"), names)
    first, second = capsys.readouterr().out.splitlines()
    assert [round(g, 9) for g in ast.literal_eval(first)] == [4.0, 5.0]
    assert second in (ROOT / "docs/queries.md").read_text()


@pytest.mark.parametrize("page", ["docs/sources.md", "docs/sinks.md"])
def test_python_about_sources_and_sinks_runs(page, tmp_path, monkeypatch, capsys):
    """Against a broker, a database and a web server that stand for those of the text."""
    monkeypatch.chdir(tmp_path)
    broker = Broker()
    broker.send("trades", [{"ts": "2024-01-01T00:00:01Z", "symbol": "A", "price": 2.0, "volume": 700}])
    python = blocks(page, "python")
    assert python
    names: dict[str, object] = {}
    with servers.postgres() as database, servers.hook() as hook:
        real = {
            "localhost:9092": broker.servers,
            "postgresql://weft@localhost/answers": database.address,
            "https://example.org/alerts": hook.url,
        }
        for block in python:
            for written, meant in real.items():
                block = block.replace(written, meant)
            exec(compile(block, page, "exec"), names)
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", ["docs/sources.md", "docs/sinks.md"])
def test_job_sections_in_the_docs_are_good(page, monkeypatch):
    monkeypatch.setenv("ALERT_TOKEN", "secret")
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    for block in blocks(page, "toml"):
        given = tomllib.loads(block)
        missing = "" if "source" in given else "[source]\nkind = 'generator'\n"
        missing += "[queries]\nsql = 'SELECT 1'\n" + ("" if "stream" in given else "[stream]\ntime = 'ts'\n")
        assert job.parse(f"{block}\n{missing}")


def test_joins_in_the_docs_run(capsys):
    names: dict[str, object] = {}
    for block in blocks("docs/joins.md", "python"):
        exec(compile(block, "docs/joins.md", "exec"), names)
    printed = capsys.readouterr().out
    assert names["answers"]["hot"].column("value").to_pylist() == [33, 33, 33, 36, 36]
    assert "2 joins of humidity and temperature" in printed


@pytest.mark.parametrize("page", ["docs/queries.md", "docs/joins.md"])
def test_sql_in_the_docs_parses(page):
    for block in blocks(page, "sql"):
        assert weft.sql(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_aggregate_is_documented():
    text = (ROOT / "docs/queries.md").read_text()
    for name, function in (aggregates.FUNCTIONS | aggregates.SKETCHES).items():
        assert function.summary in text
        assert f"| `{'count(*)' if name == 'count_star' else name + '('}" in text
    for alias in aggregates.ALIASES:
        assert f"`{alias}`" in text


def test_every_function_is_documented():
    text = (ROOT / "docs/queries.md").read_text()
    written = {
        "and": "AND",
        "or": "OR",
        "not": "NOT",
        "in": "IN",
        "like": "LIKE",
        "case": "CASE",
        "cast": "CAST",
    }
    written |= {"is_null": "IS NULL", "div": "div", "negate": "-"}
    for name in expr.FUNCTIONS:
        shown = written.get(name, f"`{name}`" if name.isidentifier() else name)
        assert shown in text, f"{name} is not in docs/queries.md"


def test_every_key_of_a_job_file_is_documented():
    text = (ROOT / "docs/job_file.md").read_text()
    kinds = {**job.SOURCES, **job_sinks.SINKS}
    for kind in kinds:
        assert f'"{kind}"' in text
    for form in (*kinds.values(), job.Stream, job.Queries, job.FromTable, job.Spark):
        for key in dataclasses.fields(form):
            assert f"`{key.name}`" in text, f"{key.name} is not in docs/job_file.md"


@pytest.mark.parametrize("name", ["spark-native", "bounded-state"])
def test_every_figure_of_a_benchmark_is_explained(name):
    text = (ROOT / "docs/benchmarks.md").read_text()
    assert f"## {name}\n" in text
    rows = [collections.defaultdict(lambda: 1.0) for _ in range(8)]
    for figure in bench.load(name).figures(rows):
        assert f"`{figure}`" in text


def test_the_version_is_said_once_and_the_same():
    from importlib import metadata

    assert weft.__version__ == metadata.version("weft")
