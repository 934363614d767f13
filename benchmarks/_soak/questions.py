"""Random questions of a few kinds; a question's name begins with its kind, which fixes its columns."""

from __future__ import annotations

import random

from weft.testing.questions import Question

KINDS = {
    "traded": (("symbol",), ("sum(volume) AS shares", "count(*) AS trades")),
    "prices": (("symbol",), ("max(price) AS top", "min(price) AS low")),
    "venues": (("exchange",), ("avg(price) AS mean", "sum(volume) AS shares")),
    "totals": ((), ("count(*) AS trades", "max(volume) AS largest")),
}
NAMES_PER_KIND = 4
NAMES = [f"{kind}_{number}" for kind in KINDS for number in range(NAMES_PER_KIND)]


def question(name: str, chance: random.Random) -> Question:
    """A question of this name, with any window and predicate.

    >>> question("totals_1", random.Random(0)).values
    ('count(*) AS trades', 'max(volume) AS largest')
    """
    group_by, values = KINDS[name.split("_")[0]]
    slide = chance.choice((20, 30, 40, 60, 90))
    where = chance.choice((None, None, "volume > 100", "volume > 300"))
    return Question(name, values, slide * chance.randint(1, 6), slide, group_by, where)
