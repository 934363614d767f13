"""Write the tables of docs/job_file.md that list the keys of each kind of source and sink.

They are made from the declarations in src/weft/io: the first line of a kind's docstring, and for each key its
default and the text below it. With ``--check`` nothing is written: a page that is not what the code has is an
error.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

from weft.io.registry import SINKS, SOURCES
from weft.io.settings import Duration
from weft.model.duration import format_duration

ROOT = Path(__file__).parent.parent
PAGE = Path("docs/job_file.md")
PLACES: Mapping[str, Mapping[str, type]] = {"sources": SOURCES, "sinks": SINKS}
"""Kinds by the name of the place in the page where they are listed."""
LEFT_OUT = " Left out: "
"""Stands before what happens without a key, where the default does not say it."""


class UndocumentedKeyError(Exception):
    """A key without a text below it."""


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; return 1 where it is not what the code has."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare with the page that is there")
    options = parser.parse_args(arguments)
    page = (ROOT / PAGE).read_text()
    written = fill(
        page, {place: "\n\n".join(map(describe, kinds.values())) for place, kinds in PLACES.items()}
    )
    if not options.check:
        (ROOT / PAGE).write_text(written)
    elif page != written:
        print(f"{PAGE} is not what the code has: run `python {Path(__file__).relative_to(ROOT)}`")
        return 1
    return 0


def fill(page: str, tables: Mapping[str, str]) -> str:
    """Put tables into their places of a page.

    >>> fill("<!-- a: by a tool -->\\n\\nold\\n\\n<!-- end of a -->", {"a": "new"})
    '<!-- a: by a tool -->\\n\\nnew\\n\\n<!-- end of a -->'
    """
    for place, text in tables.items():
        begin, end = rf"(<!-- {place}: [^\n]*-->\n\n)", rf"(\n\n<!-- end of {place} -->)"
        parts = re.split(rf"{begin}.*?{end}", page, flags=re.DOTALL)
        if len(parts) != 4:
            raise ValueError(f"the page has {len(parts) // 3} places for {place}, and must have one")
        page = "".join([*parts[:2], text, *parts[2:]])
    return page


def describe(kind: Any) -> str:
    """Return a kind's line and the table of its keys."""
    summary = (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".")
    lines = [f'`kind = "{kind.kind}"`: {_uncapitalized(summary)}.']
    rows = [_row(kind, key) for key in fields(kind)]
    if rows:
        lines += ["", "| key | default | meaning |", "|---|---|---|", *rows]
    return "\n".join(lines)


def _uncapitalized(text: str) -> str:
    """Return a sentence as it stands after a colon; names such as JSON stay."""
    is_word = text[1:2].islower() or text[1:2] == " "
    return text[:1].lower() + text[1:] if is_word else text


def _row(kind: Any, key: Field[Any]) -> str:
    texts = key_texts(kind)
    if key.name not in texts:
        raise UndocumentedKeyError(f"say what {kind.__name__}.{key.name} means in a text below it")
    meaning, _, left_out = texts[key.name].partition(LEFT_OUT)
    default = left_out or _default(key, get_type_hints(kind)[key.name])
    return f"| `{key.name}` | {default} | {meaning.rstrip('.')} |"


def key_texts(kind: type) -> dict[str, str]:
    """Return the texts below the fields of a class, as its source has them."""
    tree = ast.parse(Path(inspect.getfile(kind)).read_text())
    declaration = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    texts = {}
    for statement, below in pairwise(declaration.body):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = " ".join(text.split())
    return texts


def _default(key: Field[Any], dtype: Any) -> str:
    """Return the default of a key as a job file has it."""
    if key.default is MISSING:
        return "needed" if key.default_factory is MISSING else "none"
    if key.default is None:
        return "none"
    if dtype is Duration:
        return f'`"{format_duration(key.default)}"`'
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, str):
        return f"`'{key.default}'`" if '"' in key.default else f'`"{key.default}"`'
    return f"{key.default:,g}" if isinstance(key.default, float) else f"{key.default:,}"


if __name__ == "__main__":
    sys.exit(main())
