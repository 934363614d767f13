"""docs/algorithms.md from the techniques' cards: ``python -m lab.cards``.

With a result saved by ``weft bench final --json FILE``, ``python -m lab.cards FILE`` draws the throughput of
each technique, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lab.card_picture import throughput_svg
from weft.final import TECHNIQUES, Technique
from weft.final.card import NEEDS

DOCS = Path(__file__).resolve().parents[1] / "docs"
INTRODUCTION = """\
# Algorithms
How a window is put together from the partial results of its slices: techniques with one contract, `insert`,
`evict` and `query(n)`. `technique="auto"`, the default, chooses; any name below can be given instead, and one
that an aggregate cannot use is refused before anything runs. Where a technique has a variant for aggregates
with an inverse (`_inv`), the name without the suffix stands for both.

*n* is the number of partials in the window. Operations are those that combine two partials or take one back;
the tests count them, on long streams. *All queries* means that windows of 1, 2, ... n partials are asked for
after every slide. Space is in partials.

The pictures show million slides per second by window, for one query: a solid line for answers written in
batches, a dashed one for each answer written before the next value is looked at, and the other techniques
(max, in batches) in grey. They come from `weft bench final` ([benchmarks](benchmarks.md#final)).

<!-- Written by `python -m lab.cards` from the cards in src/weft/final: change those. -->
"""


def page() -> str:
    """Return the whole page.

    >>> page().startswith("# Algorithms")
    True
    """
    return "\n".join([INTRODUCTION, overview(), *map(section, TECHNIQUES.values())])


def overview() -> str:
    """Return all techniques in one table."""
    lines = ["| technique | needs | operations | worst slide | space |", "|---|---|---|---|---|"]
    for name, technique in TECHNIQUES.items():
        card = technique.card
        link, wants = f"[`{name}`](#{anchor(technique)})", ", ".join(sorted(card.needs))
        lines.append(f"| {link} | {wants} | {card.amortised} | {card.worst} | {card.space} |")
    return "\n".join(lines) + "\n"


def section(technique: type[Technique]) -> str:
    """Return one technique's card.

    >>> print(section(TECHNIQUES["soe"]).splitlines()[0])
    ## subtract-on-evict
    """
    card = technique.card
    facts = {
        "name": f"`{technique.name}`",
        "needs": needs(technique),
        "operations per slide": card.amortised,
        "worst slide": card.worst,
        "all queries": card.all_queries,
        "space": card.space,
        "paper": card.paper,
        "in the paper, and mended": card.erratum,
    }
    lines = [f"| {fact} | {words} |" for fact, words in facts.items() if words]
    return "\n".join(
        [
            f"## {card.title}",
            idea(technique),
            "",
            f"![{card.title}: million slides per second by window](algorithms/{technique.name}.svg)",
            "",
            "| | |",
            "|---|---|",
            *lines,
            "",
        ]
    )


def idea(technique: type[Technique]) -> str:
    """Return the technique in one line: the first of its file.

    >>> idea(TECHNIQUES["recompute"])
    'Every window from all of its partials. The oracle of the others, and good for few partials.'
    """
    line = (sys.modules[technique.__module__].__doc__ or "").split("\n")[0]
    summary = line.split(": ", 1)[1]
    return summary[0].upper() + summary[1:]


def needs(technique: type[Technique]) -> str:
    """Return what it asks of an aggregate, in words.

    >>> needs(TECHNIQUES["soe"])
    'an associative combine, an exact inverse'
    """
    return ", ".join(words for need, (words, _) in NEEDS.items() if need in technique.card.needs)


def anchor(technique: type[Technique]) -> str:
    """Return the fragment that its heading gets in rendered Markdown.

    >>> anchor(TECHNIQUES["slickdeque"])
    'slickdeque-non-inv'
    """
    letters = "".join(c for c in technique.card.title.lower() if c.isalnum() or c in " -")
    return letters.replace(" ", "-")


def write(docs: Path, result: dict[str, Any] | None = None) -> None:
    """Write the page, and the pictures where there is a result to draw."""
    (docs / "algorithms.md").write_text(page())
    if result is not None:
        (docs / "algorithms").mkdir(exist_ok=True)
        for name in TECHNIQUES:
            (docs / "algorithms" / f"{name}.svg").write_text(throughput_svg(result, name))


if __name__ == "__main__":
    write(DOCS, json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else None)
