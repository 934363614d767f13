"""The dashboard in a real browser, as a person has it: what is seen, pressed and typed."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select
from starlette.types import ASGIApp

from support import chromium
from weft.web.server import listening, up, url_of

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1400,1000"
)
TIMEOUT_SECONDS = 60.0


@contextmanager
def open_browser() -> Iterator[webdriver.Chrome]:
    """A browser of its own, without a past."""
    browser, driver = chromium.find()
    with tempfile.TemporaryDirectory(prefix="weft-browser-", ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in (*FLAGS.split(), f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        opened = webdriver.Chrome(options=options, service=Service(driver))
        try:
            yield opened
        finally:
            opened.quit()


@contextmanager
def behind_http(app: ASGIApp) -> Iterator[str]:
    """The address of an application, served."""
    with listening("127.0.0.1", 0) as listener, up(app, listener):
        yield url_of(listener)


class Dashboard:
    """The page at an address; ``expected`` are console messages that a test provokes."""

    def __init__(self, browser: webdriver.Chrome, at: str) -> None:
        self.browser, self.address = browser, at
        self.expected: tuple[str, ...] = ()
        browser.get_log("browser"), browser.get_log("performance")
        browser.get(f"{at}/")

    def check(self) -> None:
        """No error in the console, and no request to anywhere else."""
        said = [each["message"] for each in self.browser.get_log("browser") if each["level"] == "SEVERE"]
        assert [each for each in said if not any(known in each for known in self.expected)] == []
        for url in self.requests():
            assert url.startswith((self.address, "about:", "chrome:", "data:")), url

    def requests(self) -> list[str]:
        """Every URL that the browser has asked for."""
        events = [json.loads(e["message"])["message"] for e in self.browser.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        """Leave the page, forgetting what it kept."""
        self.browser.execute_script("sessionStorage.clear(); localStorage.clear()")
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.browser.get("about:blank")

    def one(self, selector: str) -> WebElement:
        """The element."""
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """All such elements."""
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Return the text of an element, as the page has it now."""
        return self.script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of several elements."""
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
        )

    def script(self, code: str, *arguments: Any) -> Any:
        """Run a script in the page; return its result."""
        return self.browser.execute_script(code, *arguments)

    def until(self, done: Callable[[], Any]) -> Any:
        """Wait until something is so; the page is asked to look again meanwhile."""
        end = time.monotonic() + TIMEOUT_SECONDS
        last_refresh = time.monotonic()
        while True:
            found = done()
            if found:
                return found
            assert time.monotonic() < end, (done, self.text("main"))
            if time.monotonic() - last_refresh > 0.4:
                self.refresh()
                last_refresh = time.monotonic()
            time.sleep(0.05)

    def refresh(self) -> None:
        """Let the page ask the server now: it does so when it goes on after a pause."""
        self.script("for (const _ of [1, 2]) document.getElementById('pause').click()")

    def press(self, selector: str) -> None:
        """Click on something, once it is there."""
        self.until(lambda: self.all(selector))
        self.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", self.one(selector))
        self.one(selector).click()

    def write(self, selector: str, text: str) -> None:
        """Put a text into a field."""
        field = self.one(selector)
        self.until(field.is_enabled)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.BACKSPACE)
        field.send_keys(text)

    def select(self, selector: str, value: str) -> None:
        """Choose from a list."""
        Select(self.one(selector)).select_by_value(value)

    def keys(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        self.browser.switch_to.active_element.send_keys(*keys)

    def focused(self) -> str:
        """The id of what has the focus, or else its text."""
        return self.script("const e = document.activeElement; return e.id || e.textContent")

    def names(self) -> list[str]:
        """The queries in the table."""
        return self.texts("#query-table tbody th button")

    def choose(self, name: str) -> None:
        """Choose a query in the table."""
        self.until(lambda: name in self.names())
        self.press(f'#query-table button[data-query="{name}"]')
        self.until(lambda: self.text("#query-title") == name)

    def show(self, group: str) -> None:
        """Put a group of the chosen query on the chart, or take it away."""
        where = f'#groups button[aria-label$=": {group}"]'
        self.until(lambda: self.all(where))
        self.press(where)

    def legend(self) -> list[str]:
        """The lines of the chart with their latest values."""
        return [text.removesuffix("×") for text in self.texts("#legend li")]

    def elements(self) -> int:
        """Return the number of elements in the page."""
        return self.script("return document.querySelectorAll('*').length")
