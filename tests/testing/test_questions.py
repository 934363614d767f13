"""Seeded sets of questions: read by weft as they are written, the same from the same seed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import weft
from weft.testing.questions import Question, sliding, text, varied

MAKERS = [sliding, varied]


@pytest.mark.parametrize("make", MAKERS)
def test_questions_are_queries_of_the_same_names_and_windows(make: Callable[..., list[Question]]) -> None:
    questions = make(30)
    queries = weft.sql(text(questions))
    assert [query.name for query in queries] == [question.name for question in questions]
    seconds = [(query.window.range // 10**6, query.window.slide // 10**6) for query in queries]
    assert seconds == [(question.range, question.slide) for question in questions]


@pytest.mark.parametrize("make", MAKERS)
def test_questions_are_their_seed(make: Callable[..., list[Question]]) -> None:
    assert make(20, seed=3) == make(20, seed=3) != make(20, seed=4)
