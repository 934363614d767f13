"""Errors of SQL texts, and the places that they name."""

from __future__ import annotations

import re

import pytest

import weft


def caught(marked: str) -> weft.QueryError:
    """The error of a text, checked to be where the mark is."""
    before, _, after = marked.partition("^")
    lines = re.split(r"\r\n|\r|\n", before)
    with pytest.raises(weft.QueryError) as raised:
        weft.sql(before + after)
    assert raised.value.position == (len(lines), len(lines[-1]) + 1), raised.value
    assert raised.value.hint
    assert "\x1b" not in str(raised.value)
    return raised.value
