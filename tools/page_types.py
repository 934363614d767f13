"""Check the types of the Python that the pages show: README.md and docs; ``make check``.

All ``python`` blocks of a page are one module, at the lines where they stand, so that an error names the page
and its line. Functions in a page need no annotations.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LENIENT = "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls"


def main() -> int:
    """Print the errors of mypy by page; return 1 where there are any."""
    with tempfile.TemporaryDirectory(prefix="weft-pages-") as folder:
        pages = {}
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            name = page.relative_to(ROOT).as_posix()
            file = Path(folder) / (re.sub(r"\W", "_", name) + ".py")
            if source := module_of(page.read_text(encoding="utf-8")):
                file.write_text(LENIENT + source, encoding="utf-8")  # the first line is never one of Python
                pages[str(file)] = name
        report, errors, status = api.run(list(pages))
    for path, name in pages.items():
        # By the file's name alone: a cached error has the path of the run before.
        report = re.sub(rf"\S*/{Path(path).name}", name, report)
    print(report if status else f"The Python of {len(pages)} pages is typed.", end="" if status else "\n")
    print(errors, end="", file=sys.stderr)
    return status


def module_of(text: str) -> str:
    r"""Return the Python of a page, each block at its own lines; nothing where there is none.

    >>> module_of("Run\n```python\nx = 1\n```\nand\n```python\ny = 2\n```\n")
    '\n\nx = 1\n\n\n\ny = 2\n'
    """
    source = ""
    for fence in FENCE.finditer(text):
        line = text.count("\n", 0, fence.start(1))
        source += "\n" * (line - source.count("\n")) + fence[1]
    return source


if __name__ == "__main__":
    sys.exit(main())
