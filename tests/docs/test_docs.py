"""The documentation is true: its code runs, its SQL and jobs are read, its commands exist, the site builds.

What a page shows is told by its fences. ``python`` is run, all blocks of a page in order and in one folder;
``text`` after it is what it prints, with ``...`` for what may differ. ``py`` is only shown. ``bash`` is run,
in the background if it ends with ``&``; ``sh``, ``console`` and nothing at all may show commands, which must
exist. ``sql`` is parsed and ``toml`` read as a job, or as sections of one. A block with a title is a file.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
import typer

import weft
from support import chromium
from support.places import ROOT
from weft.cli import main as cli
from weft.jobs import job

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
COMMAND = typer.main.get_command(cli.app)
FENCE = re.compile(r"^```(\w*)([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ANY_JOB = """
[source]
kind = "generator"
[stream]
time = "ts"
[queries]
sql = "SELECT count(*) AS n FROM trades [RANGE '1 min']"
"""
WEFT = """#!/bin/sh
case "$1" in
  serve) set -- "$@" --port {port} ;;
  query) set -- "$@" --server http://127.0.0.1:{port} ;;
esac
exec {python} -c 'from weft.cli.main import main; main()' "$@"
"""


class Block(NamedTuple):
    """A fenced block: its language, its title, its text, the line it begins at, and what it must print."""

    language: str
    title: str
    text: str
    line: int
    prints: str | None


def blocks(page: Path) -> list[Block]:
    text, found = page.read_text(), []
    for fence in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', fence[2])
        after = FENCE.match(text, fence.end() + 1) or FENCE.match(text, fence.end() + 2)
        prints = after[3] if after and after[1] == "text" else None
        line = text.count("\n", 0, fence.start(3)) + 1
        found.append(Block(fence[1], title[1] if title else "", fence[3], line, prints))
    return found


def pages_with(*languages: str) -> list[object]:
    found = [page for page in PAGES if any(b.language in languages for b in blocks(page))]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in found]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("python", "bash"))
def test_what_a_page_shows_runs(page, request, tmp_path, monkeypatch):
    shown = blocks(page)
    if re.search(r"weft\.(session|share|stream)\(", "".join(b.text for b in shown if b.language == "python")):
        request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with terminal(tmp_path) as run_command:
        for block in shown:
            if block.title:
                Path(block.title).write_text(block.text)
            if block.language == "python":
                assert_printed(block, run_python(block, page, names), page)
            elif block.language == "bash":
                assert_printed(block, run_command(block.text), page)


def run_python(block: Block, page: Path, names: dict[str, object]) -> str:
    padded = "\n" * (block.line - 1) + block.text
    with redirect_stdout(StringIO()) as out:
        exec(compile(padded, str(page), "exec"), names)
    return out.getvalue()


def assert_printed(block: Block, printed: str, page: Path) -> None:
    alike = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    right = block.prints is None or doctest.OutputChecker().check_output(block.prints, printed, alike)
    assert right, f"{page.name}, line {block.line} prints\n{printed}"


@contextmanager
def terminal(folder: Path) -> Iterator[Callable[[str], str]]:
    """A function that runs commands of bash; what it left running ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    weft_command = folder / "bin" / "weft"
    weft_command.parent.mkdir()
    weft_command.write_text(WEFT.format(port=port, python=shlex.quote(sys.executable)))
    weft_command.chmod(0o755)
    environment = os.environ | {"PATH": f"{weft_command.parent}:{os.environ['PATH']}"}
    left: list[subprocess.Popen[str]] = []

    def run_command(text: str) -> str:
        if text.rstrip().endswith("&"):
            command = ["bash", "-ec", f"exec {text.rstrip().removesuffix('&')}"]
            left.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, text=True))
            wait_for(f"http://127.0.0.1:{port}/health", left[-1])
            return ""
        done = subprocess.run(
            ["bash", "-ec", text], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        yield run_command
    finally:
        for process in left:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server has ended"
        try:
            urllib.request.urlopen(url, timeout=10).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"no answer from {url}")


@pytest.mark.parametrize("page", pages_with("py"))
def test_what_is_only_shown_is_python(page):
    for block in blocks(page):
        if block.language == "py":
            compile(block.text, str(page), "exec")


@pytest.mark.parametrize("page", pages_with("sql"))
def test_sql_parses(page):
    for block in blocks(page):
        if block.language == "sql":
            assert weft.sql(block.text)


@pytest.mark.parametrize("page", pages_with("toml"))
def test_job_files_are_valid(page, tmp_path):
    for block in blocks(page):
        if block.language == "toml":
            sections = re.findall(r"^\[(\w+)", block.text, re.MULTILINE)
            rest = re.split(r"^(?=\[)", ANY_JOB.lstrip(), flags=re.MULTILINE)
            missing = [s for s in rest if s and re.match(r"\[(\w+)", s)[1] not in sections]
            for name in re.findall(r'^file = "(.+)"', block.text, re.MULTILINE):
                (tmp_path / name).write_text("SELECT count(*) AS n FROM trades [RANGE '1 min']")
            read = job.parse("\n".join([block.text, *missing]), tmp_path)
            assert weft.sql(read.sql)


def commands(page: Path) -> list[str]:
    """The weft commands of a page, in blocks and in the text."""
    lines = []
    for block in blocks(page):
        if block.language in ("", "sh", "bash", "console"):
            whole = block.text.replace("\\\n", " ")
            lines += re.findall(r"^(?:\$ )?(?:\.venv/bin/)?(weft [a-z-].*)$", whole, re.MULTILINE)
    lines += re.findall(r"`(weft [a-z-][^`]*)`", FENCE.sub("", page.read_text()))
    return lines


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT))) for p in PAGES if commands(p)])
def test_commands_exist_with_their_options(page):
    for line in commands(page):
        words = shlex.split(line, comments=True)
        check_command([word for word in words if word not in ("&", "...", "…")], line)


def check_command(words: list[str], line: str) -> None:
    command, rest = COMMAND, words[1:]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"there is no command '{line}'"
        command, rest = command.commands[rest[0]], rest[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {
        "--help"
    }
    for word in rest:
        assert not word.startswith("--") or word.partition("=")[0] in known, f"no option {word} in '{line}'"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        shown = [b.text for b in blocks(page) if b.language in ("", "sh", "console")]
        named = re.findall(r"`make ([a-z-]+)", FENCE.sub("", page.read_text()))
        named += re.findall(r"^make ([a-z-]+)", "\n".join(shown), re.MULTILINE)
        assert set(named) <= targets, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        made = "://" in target or target in ("examples.md", "decisions/index.md")
        assert made or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_plots_are_drawn_from_their_results():
    drawn = runpy.run_path(str(DOCS / "plots.py"))["plots"]()
    assert drawn
    for name, picture in drawn.items():
        assert (DOCS / "benchmarks" / f"{name}.svg").read_text() == picture, "run `python docs/plots.py`"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_measured_gains_are_those_of_the_plot(page):
    figures = json.loads((DOCS / "benchmarks/spark-native.json").read_text())["figures"]
    said = re.search(r"\*\*Measured:\*\*.*", (ROOT / page).read_text())[0]
    assert all(f"{gain:g} times" in said for gain in figures.values())


@pytest.mark.parametrize(
    "picture", [*DOCS.glob("pictures/*.svg"), *DOCS.glob("benchmarks/*.svg")], ids=lambda p: p.stem
)
def test_pictures_are_small_and_say_what_they_show(picture):
    assert picture.stat().st_size < 12_000
    assert ElementTree.parse(picture).getroot().get("aria-label")


class Loaded(HTMLParser):
    """What a page of the site loads, and whether it has something that makes a script load more."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "src" in given:
            self.addresses.append(given["src"])
        if tag == "link" and given.get("rel") != "canonical":
            self.addresses.append(given["href"])
        assert "mermaid" not in given.get("class", ""), "Material loads mermaid from another host"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` does; whatever mkdocs warns of fails it."""
    folder = tmp_path_factory.mktemp("site")
    built = build_site(folder, ROOT / "mkdocs.yml")
    assert built.returncode == 0, built.stderr
    return folder


def build_site(folder: Path, settings: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command += ["--config-file", str(settings)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_the_site_has_every_page(site):
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()
    assert "tutorial.html" in (site / "index.html").read_text()
    assert (site / "search" / "search_index.json").stat().st_size > 10_000


@pytest.mark.slow
def test_search_works_in_pages_opened_as_files(site):
    browser, _ = chromium.find()
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]
    for page in ("index.html", "decisions/index.html"):
        address = f"{(site / page).as_uri()}?q=watermark"
        shown = subprocess.run([*command, address], capture_output=True, text=True, timeout=120).stdout
        form = re.search(r'<div class="md-search"[^>]*>', shown)
        assert form and "hidden" not in form[0]
        assert re.search(r"\d+ matching documents", shown)
        assert re.search(r'<a href="[^"]*operations\.html[^"]*" class="md-search-result__link', shown)


@pytest.mark.slow
def test_an_entry_of_the_menu_needs_a_page(tmp_path):
    settings = (ROOT / "mkdocs.yml").read_text().replace("- tutorial.md", "- tutorial.md\n      - gone.md")
    copy = tmp_path / "mkdocs.yml"
    copy.write_text(
        re.sub(r"(?m)^(docs_dir: |  - |            extensions: \[)(?=docs)", rf"\g<1>{ROOT}/", settings)
    )
    built = build_site(tmp_path / "site", copy)
    assert built.returncode != 0
    assert "gone.md" in built.stderr


@pytest.mark.slow
def test_the_site_loads_nothing_from_another_host(site):
    for page in site.rglob("*.html"):
        loaded = Loaded()
        loaded.feed(page.read_text())
        assert loaded.addresses
        assert [a for a in loaded.addresses if "://" in a or a.startswith("//")] == [], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text()), style.name


@pytest.mark.slow
def test_examples_of_the_python_reference_are_blocks(site):
    outside = re.sub(r"<(pre|code)\b.*?</\1>", "", (site / "python.html").read_text(), flags=re.DOTALL)
    assert "&gt;&gt;&gt;" not in outside
    fenced = runpy.run_path(str(DOCS / "doctests.py"))["fenced"]
    assert fenced("Add.\n\n>>> 1 + 1\n2\n\nAll.") == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nAll."


def test_the_python_reference_has_everything_public():
    shown = re.findall(r"^(?:::: | +heading: )weft\.(\w+)$", (DOCS / "python.md").read_text(), re.MULTILINE)
    assert set(shown) == set(weft.__all__)
