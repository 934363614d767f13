"""The dashboard over a run on Spark, in a real browser."""

from __future__ import annotations

import pytest
from rich.console import Console

from support.dashboard_page import Dashboard, behind_http, open_browser
from support.served_job import JOB, Folder
from weft.io.sinks.latest import LatestSink
from weft.jobs.job import parse
from weft.jobs.launch import start
from weft.jobs.report import Report
from weft.web.api import make_api
from weft.web.guard import RequestGuard
from weft.web.record import Record
from weft.web.run_service import RunService


@pytest.mark.slow
def test_a_person_watches_and_changes_a_run_on_spark(tmp_path, spark):
    folder, job = Folder(tmp_path), parse(JOB, tmp_path)
    record, latest = Record(), LatestSink()
    report = Report(Console(quiet=True))
    with (
        start(job, "spark", latest, report, on_progress=record.step, serving=True) as running,
        behind_http(RequestGuard(make_api(RunService(running, latest, record, "spark")))) as at,
        open_browser() as browser,
    ):
        page = Dashboard(browser, at)
        page.until(lambda: page.names() == ["total"])
        assert "on Spark" in page.text("#state")
        folder.put(1, 2)
        folder.put(21)
        page.until(lambda: page.legend() == ["total · total3"])
        page.press("#add")
        page.write("#name", "five")
        page.write("#sql", "SELECT sum(m) AS n FROM s [RANGE '5 s']")
        page.press("#editor-go")
        assert "line 1, column 12" in page.until(lambda: page.text("#editor-problem"))
        page.keys("n")
        page.press("#editor-go")
        # Spark makes no batch without rows: until some come, the query waits.
        page.until(lambda: "adding" in page.texts("#query-table .badge"))
        folder.put(22)
        page.until(lambda: page.texts("#query-table .badge") == ["running", "running"])
        folder.put(31)
        page.choose("five")
        page.show("five")
        page.until(lambda: page.legend() == ["total · total43", "five · n43"])
        parts = {
            part.partition(" ")[0] for part in page.texts("#step-table tbody td:last-child")[0].split(", ")
        }
        assert {"map", "final"} <= parts
        measured = page.texts("#costs tbody td:nth-of-type(6)")
        assert all(float(each.replace(",", "")) > 0 for each in measured)
        page.press("#drop")
        page.press("#drop-go")
        folder.put(41)
        page.until(lambda: page.names() == ["total"])
        page.expected = ("404", "422")
        page.check()
