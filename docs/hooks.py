"""Hooks of mkdocs (see mkdocs.yml): pages from files outside docs/, the menu, the ranking of search results.

The changelog, the page for contributors, the examples and the list of decisions become pages, and links that
leave docs/ lead to them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, TypeAlias

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages that stand beside docs/."""
LANGUAGES = {".toml": "toml", ".sql": "sql", ".py": "python", ".sh": "sh"}
HISTORY_BOOST = 0.2
"""The weight of decisions and the changelog in search results: below that of pages which explain a word."""

Menu: TypeAlias = list[Any]
"""Entries of ``nav``: the name of a page, or a mapping from one title to the entries below it."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add all decisions to the menu, and pages that `nav` does not name as its last part.

    An entry of `nav` without a page is left for mkdocs to warn of, which fails a strict build.
    """
    pages = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))]
    menu: Menu = config.nav or []
    menu[-1]["Decisions"] += [page for page in pages if page.startswith("decisions/")]
    if unnamed := sorted({*pages, *generated()} - set(_pages_of(menu))):
        menu.append({"More": unnamed})
    config.nav = menu
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here, and the examples as they are."""
    for name, text in generated().items():
        files.append(File.generated(config, name, content=text))
    for path in examples():
        files.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to their targets on the site, and rank history below other pages."""
    if page.file.src_uri.startswith(("decisions/", "CHANGELOG")):
        page.meta.setdefault("search", {"boost": HISTORY_BOOST})
    return LINK.sub(lambda link: _on_the_site(link, page.file.src_uri), markdown)


def generated() -> dict[str, str]:
    """Return the pages that are made here, by name."""
    return {
        **{name: (ROOT / name).read_text().replace("](docs/", "](") for name in ROOT_PAGES},
        "decisions/index.md": _list_of_decisions(),
        "examples.md": _list_of_examples(),
    }


def examples() -> list[Path]:
    """List the files of examples/ that can be shown."""
    return sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in LANGUAGES)


def _on_the_site(link: re.Match[str], page: str) -> str:
    """Return a link that leaves docs/ as one to its target on the site, or as plain text without one."""
    folder = posixpath.dirname(page)
    target = posixpath.normpath(posixpath.join(folder, link[2]))
    if not target.startswith("../"):
        return link[0]
    place = target.removeprefix("../")
    if place.split("/")[0] == "examples":
        place = place if ROOT / place in examples() else "examples.md"
    elif place.partition("#")[0] not in ROOT_PAGES:
        return link[1]
    return f"[{link[1]}]({posixpath.relpath(place, folder or '.')})"


def _pages_of(menu: Menu) -> list[str]:
    """List all pages of a menu."""
    return [
        page
        for entry in menu
        for page in ([entry] if isinstance(entry, str) else _pages_of(next(iter(entry.values()))))
    ]


def _list_of_decisions() -> str:
    lines = [
        "# Decisions",
        "Choices that were not obvious: what they were about, what was chosen, what follows.",
        "",
    ]
    for path in sorted((DOCS / "decisions").glob("*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines)


def _list_of_examples() -> str:
    lines = ["# Examples", "Each is one command, from the folder that holds `examples`.", ""]
    for path in examples():
        name = path.relative_to(ROOT)
        lines += [f"## {name}", "", f"[The file]({name})", ""]
        lines += [f"```{LANGUAGES[path.suffix]}", path.read_text().rstrip(), "```", ""]
    return "\n".join(lines)
