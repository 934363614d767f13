"""What the site needs beyond its pages: a menu of the pages there are, and files from outside docs/.

Called by mkdocs (see mkdocs.yml). The changelog, the examples and the list of decisions become pages, and
links that leave docs/ lead to them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")
LANGUAGES = {".toml": "toml", ".sql": "sql", ".py": "python", ".sh": "sh"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The menu: pages of `nav` that are not there leave it, pages that it does not name come last."""
    pages = [str(path.relative_to(DOCS)) for path in sorted(DOCS.rglob("*.md"))]
    known = {*pages, *generated()}
    menu = [kept for entry in config.nav or [] if (kept := _present(entry, known))]
    menu[-1]["Decisions"] += [page for page in pages if page.startswith("decisions/")]
    if unnamed := sorted(known - set(_named(menu))):
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
    """Links from docs/ to what is beside it lead to where that is on the site."""
    return LINK.sub(lambda found: _on_the_site(found, page.file.src_uri), markdown)


def generated() -> dict[str, str]:
    """Pages that no one writes, by name.

    The changelog's links are those of a file beside docs/.
    """
    changes = (ROOT / "CHANGELOG.md").read_text()
    return {
        "CHANGELOG.md": changes.replace("](docs/", "]("),
        "decisions/index.md": _list_of_decisions(),
        "examples.md": _list_of_examples(),
    }


def examples() -> list[Path]:
    """The files of examples/ that can be shown."""
    return sorted(path for path in (ROOT / "examples").rglob("*") if path.suffix in LANGUAGES)


def _on_the_site(found: re.Match[str], page: str) -> str:
    """A link that leaves docs/ leads to where its target is on the site, or is plain text."""
    folder = posixpath.dirname(page)
    target = posixpath.normpath(posixpath.join(folder, found[2]))
    if not target.startswith("../"):
        return found[0]
    place = target.removeprefix("../")
    if place.split("/")[0] == "examples":
        place = place if ROOT / place in examples() else "examples.md"
    elif not place.startswith("CHANGELOG.md"):
        return found[1]
    return f"[{found[1]}]({posixpath.relpath(place, folder or '.')})"


def _present(entry: Any, known: set[str]) -> Any:
    """What is left of a part of the menu when the pages that are not there are gone."""
    if isinstance(entry, str):
        return entry if entry in known else None
    left = {
        title: [kept for each in part if (kept := _present(each, known))] for title, part in entry.items()
    }
    return {title: part for title, part in left.items() if part}


def _named(menu: list[Any]) -> list[str]:
    """All pages of a menu."""
    return [
        page
        for entry in menu
        for page in ([entry] if isinstance(entry, str) else _named(next(iter(entry.values()))))
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
