"""The keys of job files are listed as they are declared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import job_keys
import pytest

from weft.io.settings import Duration, Options

TWO_SECONDS = Duration(2_000_000)


@dataclass(frozen=True)
class ToNowhere:
    """A place of no return."""

    kind: ClassVar[str] = "nowhere"

    place: str
    """where; or
    somewhere"""
    wait: Duration = TWO_SECONDS
    """how long"""
    rate: float = 2000.0
    """how fast. Left out: as fast as can be"""
    share: float = 0.5
    """how much"""
    rows: int = 1000
    """how many"""
    header: bool = True
    """whether"""
    quote: str = '"'
    """which"""
    options: Options = field(default_factory=lambda: Options({}))
    """what else"""


@dataclass(frozen=True)
class ToNobody:
    """Results that nobody explains."""

    kind: ClassVar[str] = "nobody"

    place: str


def test_a_kind_is_a_table_of_its_keys() -> None:
    assert job_keys.describe(ToNowhere).split("\n") == [
        '`kind = "nowhere"`: a place of no return.',
        "",
        "| key | default | meaning |",
        "|---|---|---|",
        "| `place` | needed | where; or somewhere |",
        '| `wait` | `"2 s"` | how long |',
        "| `rate` | as fast as can be | how fast |",
        "| `share` | 0.5 | how much |",
        "| `rows` | 1,000 | how many |",
        "| `header` | `true` | whether |",
        "| `quote` | `'\"'` | which |",
        "| `options` | none | what else |",
    ]


def test_a_key_without_a_text_is_an_error() -> None:
    with pytest.raises(job_keys.UndocumentedKeyError, match=r"ToNobody\.place"):
        job_keys.describe(ToNobody)


def test_a_page_needs_each_place_once() -> None:
    with pytest.raises(ValueError, match="the page has 0 places for sinks"):
        job_keys.fill("# Page", {"sinks": "x"})


def test_the_page_is_what_the_code_has() -> None:
    assert job_keys.main(["--check"]) == 0
