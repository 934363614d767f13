"""What a notebook shows of plans, runs and results: HTML in which every text is text."""

from __future__ import annotations

import datetime
import sys
import types
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import weft
from weft.errors import JobError
from weft.local.results import MAX_QUERIES_SHOWN, MAX_ROWS_SHOWN, Results
from weft.runner.notebook import run_html, watch
from weft.runner.progress import Progress

EVIL = "<script>alert(1)</script>&\"'"
TS = [datetime.datetime(2024, 1, 1, 0, minute) for minute in range(20)]
TRADES = pa.table({"ts": TS, "symbol": [EVIL, None] * 10, "price": [float(n) for n in range(20)]})
TEXT = "-- name: {}\nSELECT symbol, max(price) AS top FROM trades [RANGE '{} min'] GROUP BY symbol"


class Seen(HTMLParser):
    """The tags and texts of a page; every tag that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class Run:
    """A run with steps, that ends at the third look."""

    def __init__(self, error: JobError | None = None) -> None:
        self.exception, self.looks, self.progress = error, 0, []

    @property
    def is_active(self) -> bool:
        return self.looks < 3 and self.exception is None

    def await_done(self, timeout: float | None = None) -> bool:
        self.looks += 1
        self.progress.append(_step(self.looks))
        if self.exception is not None:
            raise self.exception
        return not self.is_active

    def _repr_html_(self) -> str:
        return run_html(self)


def _step(seq: int) -> Progress:
    return Progress(
        seq=seq, kind="batch", version=1, queries=2, cost=1.0, rows=1000 * seq, rows_per_second=12345.678,
        late=0, untimed=0, bad=0, watermark=None, watermark_lag=None, results=7, state_rows=3,
        state_bytes=100, seconds=0.25,
    )  # fmt: skip


def test_results_are_arrow_pandas_and_polars_and_shown_as_tables():
    results = weft.run(weft.sql(TEXT.format("a", 1)), TRADES, time="ts", threads=1)
    assert isinstance(results, dict)
    assert isinstance(results["a"], pa.Table)
    frame = results.pandas()["a"]
    assert isinstance(frame, pd.DataFrame)
    other = results.polars()["a"]
    assert isinstance(other, pl.DataFrame)
    assert frame["top"].tolist() == other["top"].to_list() == results["a"].column("top").to_pylist()
    seen = Seen(results._repr_html_())
    assert "a: 20 results" in seen.texts
    assert seen.texts.count(EVIL) == MAX_ROWS_SHOWN / 2
    assert "script" not in seen.tags
    assert seen.tags.count("tr") == MAX_ROWS_SHOWN + 1


def test_results_of_joins_are_shown_too():
    both = weft.sql(
        "SELECT t.price, u.price AS other FROM t [RANGE '1 min'], u [RANGE '1 min'] WHERE t.price = u.price"
    )
    results = weft.run(both, {"t": TRADES, "u": TRADES}, time="ts")
    assert results.pandas()["q1"]["price"].tolist() == [float(n) for n in range(20)]
    assert "q1: 20 results" in Seen(results._repr_html_()).texts


def test_many_results_are_shown_in_part():
    many = Results({f"q{n}": pa.table({"n": range(1000)}) for n in range(MAX_QUERIES_SHOWN + 5)})
    seen = Seen(many._repr_html_())
    assert seen.tags.count("table") == MAX_QUERIES_SHOWN
    assert "and 5 more queries" in seen.texts
    assert Seen(Results()._repr_html_()).texts == ["no query"]


def test_a_plan_is_a_picture_in_a_page_that_stays_as_it_was():
    plan = weft.plan(weft.sql(TEXT.format("a", 3) + ";" + TEXT.format("b", 5)))
    shown = plan._repr_html_()
    seen = Seen(shown)
    assert "svg" in seen.tags
    assert seen.texts[0].startswith("2 queries in 1 tree by share-all")
    # Rules outside of the picture would change the notebook around it.
    style = shown.partition("<style>")[2].partition("</style>")[0]
    rules = style.replace("@media(prefers-color-scheme:dark){", "").split("}")
    assert all(rule.startswith(".weft ") for rule in rules if rule.strip())


def test_a_plan_of_many_trees_is_text():
    text = ";".join(TEXT.format(f"q{n}", n) for n in range(1, 31))
    seen = Seen(weft.plan(weft.sql(text), strategy="no-share")._repr_html_())
    assert ("svg" in seen.tags, "pre" in seen.tags) == (False, True)


def test_a_run_is_its_latest_steps():
    run = Run()
    assert Seen(run._repr_html_()).texts == ["running", "no step yet"]
    while not run.await_done():
        pass
    seen = Seen(run._repr_html_())
    assert seen.texts[0] == "ended"
    assert {"3,000", "12,345.7", "0.25", "rows/s"} <= set(seen.texts)
    failed = Run(JobError(EVIL))
    assert f": {EVIL}" in Seen(failed._repr_html_()).texts


def test_watching_outside_of_a_notebook_prints_each_step_once(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    run = Run()
    watch(run, every=0.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["step 1", "step 2", "step 3"]
    assert "rows 3,000, rows/s 12,345.7" in lines[-1]


def test_watching_in_a_notebook_goes_on_in_one_place(monkeypatch, capsys):
    updates: list[str] = []

    class Handle:
        def update(self, shown: Any) -> None:
            updates.append(shown._repr_html_())

    def display(shown: Any, display_id: bool) -> Handle:
        assert display_id
        return Handle()

    _pretend_notebook(monkeypatch, display)
    watch(Run(), every=0.0)
    assert [Seen(update).tags.count("tr") - 1 for update in updates] == [1, 2, 3]
    assert "ended" in updates[-1]
    assert capsys.readouterr().out == ""
    with pytest.raises(JobError, match="disk"):
        watch(Run(JobError("the disk is full")), every=0.0)
    assert "failed" in updates[-1]


def test_watching_ends_in_time_and_when_interrupted(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", None)
    run = Run()
    watch(run, timeout=0.0)
    assert run.looks == 1

    def interrupted(timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "await_done", interrupted)
    watch(run)
    assert run.is_active


def _pretend_notebook(monkeypatch: pytest.MonkeyPatch, display: Any) -> None:
    """IPython, as far as it is used."""
    for name, content in {
        "IPython": {},
        "IPython.core": {},
        "IPython.core.getipython": {"get_ipython": object},
        "IPython.display": {"display": display},
    }.items():
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
