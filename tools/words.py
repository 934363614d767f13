"""Check the words of the tree: names, docstrings, constants, returned values and messages; ``make check``.

Prints ``file:line: message [rule subject]`` for every word that breaks a rule. An exception is a line
``rule subject: reason`` in words_allowed.txt beside this file; one that is not needed any more is an error.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from findings import Finding, Source
from word_checks import RULES, phrases_of

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "lab", "tests/support", "tools", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "docs")
ALLOWED = Path(__file__).parent / "words_allowed.txt"


class AllowedError(Exception):
    """A line of the list of exceptions that cannot be read."""


def main(arguments: list[str] | None = None) -> int:
    """Print the findings; return 1 where there are any."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to check")
    parser.add_argument("--allowed", type=Path, default=ALLOWED, help="the list of exceptions")
    parser.add_argument(
        "--select", nargs="+", choices=RULES, default=list(RULES), metavar="RULE", help="rules"
    )
    parser.add_argument("--count", action="store_true", help="print counts by package instead of findings")
    options = parser.parse_args(arguments)
    try:
        exceptions = read_allowed(options.allowed)
    except AllowedError as error:
        print(error, file=sys.stderr)
        return 1
    findings = check(options.root, options.select)
    breaches = [finding for finding in findings if (finding.rule, finding.subject) not in exceptions]
    used = {(finding.rule, finding.subject) for finding in findings}
    unused = sorted(key for key in exceptions if key not in used and key[0] in options.select)
    for line in count_table(breaches) if options.count else breaches:
        print(line)
    for rule, subject in unused:
        print(f"{options.allowed.name}: '{rule} {subject}' is not needed any more")
    return int(bool(breaches or unused))


def check(root: Path, rules: Collection[str] = tuple(RULES)) -> list[Finding]:
    """Return the findings of the rules in a tree, by file and line."""
    sources = read_sources(root)
    findings = [finding for name, rule in RULES.items() if name in rules for finding in rule(sources)]
    if "phrase" in rules:
        findings += _page_findings(root)
    return sorted(findings)


def read_sources(root: Path) -> list[Source]:
    """Parse the Python files of the folders that are checked; their paths are those below the root.

    The lists of avoided words themselves are left out.
    """
    return [
        Source(path.relative_to(root), folder, ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*.py"))
        if path.name != "word_lists.py"
    ]


def read_allowed(path: Path) -> dict[tuple[str, str], str]:
    """Return the reasons of exceptions by rule and subject."""
    exceptions = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, _, reason = line.partition(": ")
        rule, _, subject = key.partition(" ")
        if rule not in RULES or not subject.strip() or not reason.strip():
            raise AllowedError(
                f"{path.name}:{number}: write 'rule subject: reason', rules: {', '.join(RULES)}"
            )
        exceptions[rule, subject.strip()] = reason.strip()
    return exceptions


def count_table(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the lines of a table of counts, packages down and rules across."""
    counts = Counter((package_of(finding.path), finding.rule) for finding in findings)
    packages = sorted({package for package, _ in counts})
    yield f"{'':<20}" + "".join(f"{rule:>11}" for rule in RULES)
    for package in packages:
        yield f"{package:<20}" + "".join(f"{counts[package, rule]:>11}" for rule in RULES)
    sums = Counter(finding.rule for finding in findings)
    yield f"{'together':<20}" + "".join(f"{sums[rule]:>11}" for rule in RULES)


def package_of(path: Path) -> str:
    """Return the package that a file counts for: ``weft.sql`` in src, else its folder."""
    parts = path.parts
    if parts[0] == "src":
        return ".".join(parts[1:3]) if len(parts) > 3 else f"{parts[1]} (top)"
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def _page_findings(root: Path) -> Iterator[Finding]:
    """Find retired phrases in the pages of the documentation."""
    for page in _pages(root):
        name = page.relative_to(root)
        yield from phrases_of(name, 1, name.stem, page.read_text(encoding="utf-8"))


def _pages(root: Path) -> Iterable[Path]:
    """Return the Markdown files that are checked."""
    roots = [root / name for name in PAGES]
    return [page for path in roots for page in ([path] if path.is_file() else sorted(path.rglob("*.md")))]


if __name__ == "__main__":
    sys.exit(main())
