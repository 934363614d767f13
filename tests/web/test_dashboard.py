"""Each thing a person does on the dashboard, in a real browser."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from support.dashboard_page import Dashboard, behind_http, open_browser
from support.web_world import NEW, SCHEMA, START, World
from weft.web.guard import RequestGuard

EVIL = "<img src=x onerror=\"document.title='taken'\"><b>&amp;"


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def visit(browser: webdriver.Chrome) -> Iterator[Callable[..., Dashboard]]:
    """Opens the dashboard of a world; in the end, nothing may have gone wrong on the page."""
    serving: list[Any] = []
    pages: list[Dashboard] = []

    def open_page(world: World, **guard: Any) -> Dashboard:
        server = behind_http(RequestGuard(world.api, **guard))
        serving.append(server)
        pages.append(Dashboard(browser, server.__enter__()))
        return pages[-1]

    yield open_page
    for page in pages:
        page.check()
        page.close()
    for server in serving:
        server.__exit__(None, None, None)


@pytest.fixture
def page(world: World, visit: Callable[..., Dashboard]) -> Dashboard:
    """The dashboard of a run that has answered two windows of ten seconds."""
    for second in (1, 11, 21):
        world.feed(second, ("A", second + 0.5, second), ("B", 3.0, 2 * second))
    return visit(world)


def test_a_page_that_was_opened_shows_how_the_run_does(world, page):
    page.until(lambda: page.names() == ["shares", "top"])
    assert page.text("#state").startswith("running in-process, queries version 1")
    tiles = dict(zip(page.texts("#tiles dt"), page.texts("#tiles dd:nth-of-type(1)")))
    assert tiles["Batches"] == "3"
    assert tiles["Late rows"] == "0"
    assert tiles["Results"] == "6"
    assert {"Rows per second", "Latency of a step", "Watermark lag", "State"} <= tiles.keys()
    assert "p99" in page.text("#tiles div:nth-child(2)")
    rows = page.texts("#query-table tbody tr")
    assert rows[0].startswith("sharesrunning10 ssymbol224the start")
    assert page.texts("#query-table tbody tr:nth-child(1) td")[-1] == "B: shares 22 at 2024-01-01 00:00:20"
    assert rows[1].startswith("toprunning20 s every 10 s")
    assert page.texts("#step-table tbody th") == ["3", "2", "1"]
    # The first query that has answers is shown, with a line of it.
    page.until(lambda: page.legend() == ["shares · shares · A11"])
    world.feed(1, ("A", 1.0, 1))
    page.until(lambda: "1" in page.texts("#tiles .warn dd:nth-of-type(1)"))


def test_the_chart_goes_on_while_the_stream_runs(world, page):
    page.until(lambda: page.legend() == ["shares · shares · A11"])
    assert _points(page) == [2]
    world.feed(31, ("A", 1.0, 99))
    page.until(lambda: page.legend() == ["shares · shares · A21"])
    assert _points(page) == [3]


def test_groups_and_queries_are_compared_on_the_chart(world, page):
    page.until(page.legend)
    page.choose("shares")
    page.show("B")
    page.choose("top")
    page.show("top")
    lines = ["shares · shares · A11", "shares · shares · B22", "top · top11.5"]
    page.until(lambda: page.legend() == lines)
    page.until(lambda: _points(page) == [2, 2, 2])
    # The lines are in the address: they are there again, and can be sent to others.
    page.browser.refresh()
    page.until(lambda: page.legend() == lines)
    page.press("#values summary")
    table = page.until(lambda: page.texts("#values tbody tr"))
    assert table == ["2024-01-01 00:00:20112211.5", "2024-01-01 00:00:10123"]
    page.press('#legend button[aria-label="Remove shares · shares · B"]')
    page.until(lambda: page.legend() == [lines[0], lines[2]])
    page.choose("shares")
    page.show("A")
    page.until(lambda: page.legend() == [lines[2]])
    page.press("#clear")
    page.until(lambda: page.legend() == [])
    assert "lines" not in page.browser.current_url


def test_a_value_is_chosen_and_groups_are_found_and_ordered(world, page):
    both = "SELECT symbol, max(price) AS high, min(volume) AS low FROM trades [RANGE '10 s'] GROUP BY symbol"
    world.served.add(both, "both").future.result(30)
    world.feed(31, ("A", 7.0, 70), ("B", 9.0, 10), ("AB", 8.0, 30))
    world.feed(41, ("A", 7.0, 70))
    page.choose("both")
    page.until(lambda: page.texts("#value option") == ["high", "low"])
    page.select("#value", "low")
    page.show("AB")
    page.until(lambda: "both · low · AB30" in page.legend())
    page.press("#groups thead th:nth-child(4) button")
    page.until(lambda: page.texts("#groups tbody td:nth-of-type(3)") == ["7", "8", "9"])
    page.press("#groups thead th:nth-child(4) button")
    page.until(lambda: page.texts("#groups tbody td:nth-of-type(3)") == ["9", "8", "7"])
    assert page.one("#groups thead th:nth-child(4)").get_attribute("aria-sort") == "descending"
    page.write("#group-search", "b")
    page.until(lambda: page.texts("#groups tbody td:nth-of-type(1)") == ["B", "AB"])


def test_a_query_is_added(world, page):
    page.press("#add")
    page.write("#name", "many")
    page.write("#sql", NEW)
    page.press("#editor-go")
    page.until(lambda: "many" in page.names())
    assert page.text("#notice").startswith("many is running, exact from 2024-01-01 00:00:")
    page.until(lambda: page.text("#query-title") == "many")
    assert page.text("#query-sql") == NEW
    page.until(lambda: page.focused() == "query-title")
    world.feed(31, ("A", 1.0, 1))
    world.feed(42, ("A", 1.0, 1))
    page.until(lambda: page.texts("#groups tbody td:last-child") == ["1"])


def test_what_is_wrong_with_a_query_is_shown_in_place(world, page):
    page.press("#add")
    page.write("#sql", "SELECT symbol,\n  sum(prise) AS s\nFROM trades [RANGE '1 s'] GROUP BY symbol")
    page.press("#editor-go")
    wrong = page.until(lambda: page.text("#editor-problem"))
    assert "prise" in wrong
    assert "line 2, column 7" in wrong
    assert "price" in wrong
    assert page.text("#editor-problem pre") == "  sum(prise) AS s\n      ^"
    # The text is as it was, and the word that is wrong is selected: typing replaces it.
    assert page.one("#sql").get_attribute("aria-invalid") == "true"
    assert page.focused() == "sql"
    page.keys("price")
    page.keys(Keys.CONTROL, Keys.ENTER)
    page.until(lambda: "q1" in page.names())
    assert not page.one("#editor").is_displayed()
    # The 422 that was provoked is the browser's only complaint.
    page.expected = ("422",)


def test_a_name_that_is_taken_and_one_that_cannot_be(world, page):
    page.press("#add")
    page.write("#name", "top")
    page.write("#sql", NEW)
    page.press("#editor-go")
    assert "top" in page.until(lambda: page.text("#editor-problem .wrong"))
    page.write("#name", EVIL)
    page.press("#editor-go")
    page.until(lambda: "<img src=x onerror=" in page.text("#editor-problem"))
    assert page.all("#editor-problem img") == []
    page.press("#editor .cancel")
    assert page.names() == ["shares", "top"]
    page.expected = ("409", "422")


def test_a_query_is_replaced(world, page):
    page.choose("top")
    page.press("#replace")
    assert (
        page.one("#sql").get_attribute("value")
        == "SELECT max(price) AS top FROM trades [RANGE '20 s' SLIDE '10 s']"
    )
    assert not page.one("#name").is_displayed()
    page.write("#sql", "SELECT max(price) AS top FROM trades [RANGE '5 s']")
    page.press("#editor-go")
    page.until(lambda: "windows of 5 s" in page.text("#query-facts"))
    page.until(lambda: page.texts("#query-table tbody tr:nth-child(2) td")[1] == "5 s")


def test_a_query_is_dropped_but_only_when_that_is_meant(world, page):
    page.choose("top")
    page.press("#drop")
    assert page.text("#drop-title") == "Drop top?"
    page.press("#dropping .cancel")
    assert "top" in page.names()
    page.press("#drop")
    page.press("#drop-go")
    page.until(lambda: page.names() == ["shares"])
    assert page.text("#notice") == "top was dropped."
    assert page.text("#query-title") == "No query chosen"
    assert not page.one("#drop").is_enabled()


def test_a_query_that_another_dropped_leaves_the_page(world, page):
    page.until(page.legend)  # the page has put its first line on the chart; else that could be the one of top
    page.choose("top")
    page.show("top")
    page.until(lambda: len(page.legend()) == 2)
    world.served.drop("top").future.result(30)
    page.until(lambda: page.text("#query-title") == "top was dropped")
    page.until(lambda: page.legend()[1] == "top · topgone")
    page.expected = ("404",)


def test_a_change_that_no_batch_has_taken_is_shown_as_waiting(world, page):
    page.until(lambda: page.names() == ["shares", "top"])
    world.held = True
    world.served.add(NEW, "waiting")
    page.until(lambda: "adding" in page.texts("#query-table .badge"))
    page.select("#state-filter", "adding")
    page.until(lambda: page.names() == ["waiting"])
    world.held = False
    page.until(lambda: page.names() == [])
    page.select("#state-filter", "")
    page.until(lambda: page.names() == ["shares", "top", "waiting"])


def test_the_plan_is_a_picture_with_what_is_shared_and_costs(world, page):
    page.until(lambda: page.all("#picture svg"))
    assert "2 queries" in page.text("#picture")
    assert len(page.all("#picture rect.s")) > 2
    assert page.texts("#shared tbody th") == ["symbol", "nothing"]
    work = page.texts("#costs tbody th")
    assert work == ["rows to partials, for all", "answers of tree 0"]
    measured = [float(text.replace(",", "")) for text in page.texts("#costs tbody td:nth-of-type(6)")]
    assert all(each > 0 for each in measured)
    before = page.one("#picture svg")
    world.served.add("SELECT count(*) AS n FROM trades [RANGE '7 s' SLIDE '3 s']", "seven").future.result(30)
    page.until(lambda: "7 s / 3 s" in page.text("#picture"))
    assert before != page.one("#picture svg")


def test_five_hundred_queries_and_ten_thousand_groups(visit):
    text = ";".join(
        f"-- name: q{n:03}\nSELECT symbol, sum(volume) AS v FROM trades [RANGE '{1 + n % 20} s'] "
        f"WHERE volume > {0 if n % 50 == 49 else 10_000} GROUP BY symbol"
        for n in range(500)
    )
    world = World(queries=text)
    try:
        for second in (0, 100):
            world._given.put(_groups(second, 10_000))
        world._given.join()
        page = visit(world)
        page.until(lambda: page.names() == [f"q{n:03}" for n in range(25)])
        assert page.text("#query-pager span") == "1–25 of 500 queries"
        page.until(lambda: page.all("#picture svg"))
        page.press("#query-pager button:last-child")
        page.until(lambda: page.names()[0] == "q025")
        page.write("#search", "q49")
        page.until(lambda: page.names() == [f"q{n}" for n in range(490, 500)])
        page.choose("q499")
        page.until(lambda: page.text("#group-pager span") == "1–10 of 10,000 groups")
        page.write("#group-search", "g09999")
        page.show("g09999")
        page.until(lambda: "q499 · v · g0999910,499" in page.legend())
        world._given.put(_groups(200, 10_000))
        world._given.join()
        # Each group of a query has one answer in its latest window: the first is there still.
        page.until(lambda: _points(page)[-1:] == [2])
        assert page.elements() < 2500
        sizes = page.script("return performance.getEntriesByType('resource').map(e => e.decodedBodySize)")
        assert max(sizes) < 250_000
    finally:
        world.stream.stop()


def test_pages_are_turned_and_queries_ordered(visit):
    text = ";".join(
        f"-- name: q{n:02}\nSELECT count(*) AS n FROM trades [RANGE '{n} s']" for n in range(1, 61)
    )
    world = World(queries=text)
    try:
        page = visit(world)
        page.until(lambda: page.names() == [f"q{n:02}" for n in range(1, 26)])
        for _ in range(5):
            page.press("#query-pager button:last-child")
        page.until(lambda: page.names() == [f"q{n:02}" for n in range(51, 61)])
        assert page.one("#query-pager button:last-child").get_attribute("aria-disabled") == "true"
        page.press('#query-table th[data-by="window"] button')
        page.press('#query-table th[data-by="window"] button')
        page.until(lambda: page.names()[:2] == ["q60", "q59"])
        assert page.one('#query-table th[data-by="window"]').get_attribute("aria-sort") == "descending"
        for _ in range(2):
            page.press("#query-pager button:last-child")
        page.until(lambda: page.names()[-1] == "q01")
        # On the last page when all but a few are gone: the page goes back to where some are.
        for n in range(1, 41):
            world.served.drop(f"q{n:02}")
        page.until(lambda: page.names()[:1] == ["q60"])
        page.expected = ("404",)
    finally:
        world.stream.stop()


def test_everything_by_keyboard_alone(world, page):
    page.until(page.legend)
    page.script("document.activeElement.blur(); document.body.focus()")
    page.keys(Keys.TAB)
    assert page.focused() == "Skip to the queries"
    page.keys(Keys.ENTER)
    _tab_to(page, "search")
    _tab_to(page, "add")
    page.keys(Keys.ENTER)
    page.until(lambda: page.focused() == "name")
    page.keys("typed")
    page.keys(Keys.TAB)
    assert page.focused() == "sql"
    page.keys(NEW)
    page.keys(Keys.TAB)
    assert page.focused() == "editor-go"
    page.keys(Keys.ENTER)
    page.until(lambda: "typed" in page.names())
    page.until(lambda: page.focused() == "query-title")
    _tab_to(page, "drop")
    page.keys(Keys.ENTER)
    page.until(lambda: page.one("#dropping").is_displayed())
    assert page.focused() == "Cancel"
    page.keys(Keys.ESCAPE)
    page.until(lambda: page.focused() == "drop")
    _tab_to(page, "add")
    _tab_to(page, "shares")
    page.keys(Keys.ENTER)
    page.until(lambda: page.text("#query-title") == "shares")
    page.until(lambda: page.focused() == "query-title")
    page.until(lambda: len(page.all("#groups tbody tr")) == 2)
    for _ in range(2):
        _tab_to(page, "Show", "On")
    page.keys(Keys.SPACE)
    page.until(lambda: page.legend() == ["shares · shares · A11", "shares · shares · B22"])
    # While the page is refreshed the focus stays.
    for _ in range(3):
        page.refresh()
    assert page.focused() == "On"
    page.script("document.getElementById('lines').focus()")
    page.keys(Keys.ARROW_LEFT)
    page.until(lambda: page.text("#readout").startswith("2024-01-01 00:00:20: shares · shares · A 11"))
    page.keys(Keys.ARROW_LEFT)
    assert page.text("#readout") == "2024-01-01 00:00:10: shares · shares · A 1; shares · shares · B 2"


def test_light_and_dark_by_the_system_and_by_choice(world, page):
    def system(wanted: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": wanted}]
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def ground() -> float:
        return _luminance(page.script("return getComputedStyle(document.body).backgroundColor"))

    system("light")
    assert ground() > 0.8
    system("dark")
    assert ground() < 0.05
    page.select("#theme", "light")
    assert ground() > 0.8
    page.browser.refresh()
    assert ground() > 0.8
    page.select("#theme", "dark")
    system("light")
    assert ground() < 0.05
    page.select("#theme", "")
    assert ground() > 0.8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(world, page, theme):
    """Every text has a contrast of 4.5 to what is behind it, as WCAG asks for."""
    page.choose("shares")
    page.select("#theme", theme)
    page.press("#add")
    page.write("#sql", "SELECT")
    page.press("#editor-go")
    page.until(lambda: page.text("#editor-problem"))
    page.expected = ("422",)
    seen = page.script(
        """
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
        while (texts.nextNode()) {
          const element = texts.currentNode.parentElement;
          if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
          if (element.closest("[aria-disabled=true], :disabled")) continue;
          let behind = element, ground = "rgba(0, 0, 0, 0)";
          while (ground === "rgba(0, 0, 0, 0)" && behind) {
            ground = getComputedStyle(behind).backgroundColor;
            behind = behind.parentElement;
          }
          const style = getComputedStyle(element), drawn = element instanceof SVGElement;
          found.push([drawn ? style.fill : style.color, ground, texts.currentNode.data]);
        }
        return found;
        """
    )
    assert len(seen) > 100
    for ink, behind, text in {tuple(each) for each in seen}:
        low, high = sorted((_luminance(ink), _luminance(behind)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ink, behind)


def test_a_screen_reader_finds_its_way(world, page):
    page.choose("shares")
    assert [each.aria_role for each in (page.one("header"), page.one("main"), page.one("nav"))] == [
        "banner",
        "main",
        "navigation",
    ]
    for element in page.all(
        "button, input, select, textarea, [role=img], [role=region], table, section, dialog"
    ):
        if element.is_displayed():
            assert element.accessible_name, element.get_attribute("outerHTML")
    levels = page.script(
        "return [...document.querySelectorAll('main h2, main h3, h1')].map(e => +e.tagName[1])"
    )
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    for table in page.all("table"):
        heads = table.find_elements("css selector", "thead th")
        assert all(head.get_attribute("scope") == "col" for head in heads)
    assert (
        page.script("return document.querySelectorAll('tbody tr > :first-child:not(th[scope=row])').length")
        == 0
    )
    assert page.script("return document.documentElement.lang") == "en"
    assert "latest 11" in page.one("#lines").accessible_name
    assert page.one("#problem").get_attribute("role") == "alert"
    ids = page.script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_a_small_screen_needs_no_scrolling_sideways(world, page):
    page.choose("shares")
    try:
        page.browser.set_window_size(500, 800)
        width = page.script("return [document.documentElement.scrollWidth, innerWidth]")
        assert width[0] <= width[1]
    finally:
        page.browser.set_window_size(1400, 1000)


def test_values_of_groups_are_text_whatever_they_look_like(world, visit):
    for second in (1, 11):
        world.feed(second, (EVIL, 1.0, 5), (None, 1.0, 6), ("", 1.0, 7), ("a=b&c", 1.0, 8))
    page = visit(world)
    page.choose("shares")
    page.until(lambda: EVIL in page.texts("#groups td"))
    for group, value in ((EVIL, 5), ("null", 6), ("(empty)", 7), ("a=b&c", 8)):
        if f"shares · shares · {group}{value}" not in page.legend():
            page.script(
                "[...document.querySelectorAll('#groups button[aria-label]')]"
                ".find(b => b.getAttribute('aria-label').endsWith(': ' + arguments[0])).click()",
                group,
            )
        page.until(lambda g=group, v=value: f"shares · shares · {g}{v}" in page.legend())
    page.browser.refresh()
    page.until(lambda: f"shares · shares · {EVIL}5" in page.legend())
    page.write("#group-search", "onerror")
    page.until(lambda: page.texts("#groups td:nth-of-type(1)") == [EVIL])
    assert page.browser.title == "weft"
    assert page.all("img, #groups b, #legend b b") == []


def test_large_integers_are_not_rounded(world, visit):
    large = 2**62 + 1
    world.served.add("SELECT volume, max(volume) AS v FROM trades [RANGE '10 s'] GROUP BY volume", "big")
    for second in (1, 11):
        world.feed(second, ("A", 1.0, large))
    page = visit(world)
    page.until(lambda: page.text("#query-title") == "big")
    assert page.texts("#groups tbody td") == [str(large), "2024-01-01 00:00:10", str(large)]
    page.until(lambda: any(line.startswith(f"big · v · {large}") for line in page.legend()))
    page.until(lambda: _points(page) == [1])


def test_a_run_without_queries_has_a_page_too(world, visit):
    for name in ("shares", "top"):
        world.served.drop(name).future.result(30)
    page = visit(world)
    page.until(lambda: page.text("#query-pager span") == "no queries")
    page.press("#add")
    page.write("#sql", NEW)
    page.press("#editor-go")
    page.until(lambda: page.names() == ["q1"])


def test_an_address_with_nonsense_is_an_empty_chart(world, visit):
    page = visit(world)
    for nonsense in ("{", "[[1]]", '[["gone","v",{"k":"<b>"}]]', "7"):
        page.browser.get(f"{page.address}/?lines={nonsense}")
        page.until(lambda: page.names() == ["shares", "top"])
    page.expected = ("404",)


def test_a_token_is_asked_for_and_kept(world, visit):
    world.feed(1, ("A", 1.0, 5))
    world.feed(11, ("A", 1.0, 5))
    page = visit(world, token="a" * 20)
    page.expected = ("401",)
    page.until(lambda: page.one("#asking").is_displayed())
    assert page.names() == []
    page.one("#token").send_keys("wrong", Keys.ENTER)
    page.until(lambda: "wrong" in page.text("#token-problem"))
    page.until(lambda: page.one("#asking").is_displayed())
    page.one("#token").send_keys("a" * 20, Keys.ENTER)
    page.until(lambda: page.names() == ["shares", "top"])
    assert not page.one("#asking").is_displayed()
    page.browser.refresh()
    page.until(lambda: page.names() == ["shares", "top"])
    assert page.script("return [Object.keys(sessionStorage), document.cookie]") == [["weft-token"], ""]


def test_whoever_has_no_token_is_not_asked_again_and_again(world, visit):
    page = visit(world, token="a" * 20)
    page.expected = ("401",)
    page.until(lambda: page.one("#asking").is_displayed())
    page.press("#asking .cancel")
    page.until(lambda: "token is needed" in page.text("#problem"))
    assert page.text("#pause") == "Go on"
    page.press("#pause")
    page.until(lambda: page.one("#asking").is_displayed())


def test_where_all_may_read_only_changes_need_the_token(world, visit):
    page = visit(world, token="a" * 20, open_reads=True)
    page.expected = ("401",)
    page.until(lambda: page.names() == ["shares", "top"])
    page.press("#add")
    page.write("#sql", NEW)
    page.press("#editor-go")
    page.until(lambda: page.one("#asking").is_displayed())
    page.one("#token").send_keys("a" * 20, Keys.ENTER)
    page.until(lambda: page.names() == ["q1", "shares", "top"])


def test_a_run_that_fails_says_so_and_can_still_be_read(world, page):
    page.until(page.legend)
    world.fail()
    page.until(lambda: "the disk is full" in page.text("#problem"))
    assert page.text("#state .badge") == "failed"
    assert page.browser.title == "failed – weft"
    page.choose("shares")
    assert page.texts("#groups tbody td:nth-of-type(1)") == ["A", "B"]


def test_a_server_that_went_away_is_said_and_found_again(world, browser):
    with behind_http(RequestGuard(world.api)) as at:
        page = Dashboard(browser, at)
        page.until(lambda: page.names() == ["shares", "top"])
    page.until(lambda: "does not answer" in page.text("#problem"))
    page.close()


def test_a_pause_stops_asking(world, page):
    page.until(page.legend)
    page.press("#pause")
    page.requests()
    world.feed(31, ("A", 1.0, 99))
    page.script("return new Promise(done => setTimeout(done, 2500))")
    assert page.requests() == []
    assert page.one("#pause").get_attribute("aria-pressed") == "true"
    page.press("#pause")
    page.until(lambda: page.legend() == ["shares · shares · A21"])


def _points(page: Dashboard) -> list[int]:
    """How many points each line of the chart has."""
    paths = page.script("return [...document.querySelectorAll('#lines path')].map(p => p.getAttribute('d'))")
    return [path.count("M") + path.count("L") for path in paths]


def _tab_to(page: Dashboard, *wanted: str) -> None:
    for _ in range(60):
        page.keys(Keys.TAB)
        if page.focused() in wanted:
            return
    raise AssertionError(f"no way to {wanted} by the Tab key, but to {page.focused()}")


def _luminance(colour: str) -> float:
    """Relative luminance of ``rgb(...)``, by WCAG."""
    values = [float(v) / 255 for v in colour.partition("(")[2].rstrip(")").split(",")[:3]]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _groups(second: int, count: int) -> pa.Table:
    """A row of each of many groups, all in one second."""
    times = (
        pa.array([START.timestamp() * 1e6 + second * 1e6] * count)
        .cast(pa.int64())
        .cast(SCHEMA.field("ts").type)
    )
    names = pa.array([f"g{n:05}" for n in range(count)])
    prices, volumes = pa.array([1.0] * count), pa.array(range(500, 500 + count), pa.int64())
    return pa.table([times, names, prices, volumes], schema=SCHEMA)
