"""docs/algorithms.md: what the registry generates, with a picture for each technique."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from lab import cards
from weft.final import TECHNIQUES


def test_the_page_is_what_the_registry_generates():
    written = (cards.DOCS / "algorithms.md").read_text()
    assert written == cards.page(), "run `python -m lab.cards`"


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_technique_has_a_small_picture(name):
    picture = cards.DOCS / "algorithms" / f"{name}.svg"
    assert picture.stat().st_size < 12_000
    ElementTree.parse(picture)


def test_page_and_pictures_are_written(tmp_path):
    row = {"part": "one query", "operation": "max", "mode": "batch", "n": 1, "flatfit": 3.0, "bint": 2.0}
    rows = [row, row | {"n": 1024}, row | {"mode": "slide by slide"}, {"part": "memory", "n": 1}]
    cards.write(tmp_path, {"rows": rows, "machine": {"processor": "some <processor>"}})
    assert (tmp_path / "algorithms.md").read_text() == cards.page()
    lines = ElementTree.parse(tmp_path / "algorithms" / "flatfit.svg").getroot().findall(".//{*}path")
    assert [line.get("class") for line in lines].count("max b") == 1
