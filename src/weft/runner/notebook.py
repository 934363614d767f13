"""Views for notebooks: HTML with every text escaped, and a view of a run that goes on.

Nothing here needs a notebook to be there: ``_repr_html_`` is what Jupyter, VS Code and Colab look for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, Protocol

MAX_STEPS_SHOWN = 8
COLUMNS = {
    "seq": "step",
    "kind": "kind",
    "rows": "rows",
    "rows_per_second": "rows/s",
    "late": "late",
    "bad": "bad",
    "results": "results",
    "state_rows": "state rows",
    "seconds": "seconds",
}


class Watched(Protocol):
    """A run as it is watched."""

    @property
    def is_active(self) -> bool: ...
    @property
    def exception(self) -> Exception | None: ...
    @property
    def progress(self) -> list[Any]: ...
    def await_done(self, timeout: float | None = None) -> bool: ...


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table of values.

    >>> html_table(["<a>"], [[1.5], [None]])
    '<table><thead><tr><th>&lt;a&gt;</th></tr></thead><tbody><tr><td>1.5</td></tr><tr><td></td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(v))}</td>' for v in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def run_html(run: Watched) -> str:
    """A run: whether it is running, its error, and what its latest steps did."""
    error = run.exception
    state = (
        f"<p><b>{state_of(run)}</b></p>" if error is None else f"<p><b>failed</b>: {escape(str(error))}</p>"
    )
    steps = run.progress[-MAX_STEPS_SHOWN:]
    rows = [[getattr(step, name) for name in COLUMNS] for step in steps]
    return state + (html_table(list(COLUMNS.values()), rows) if steps else "<p>no step yet</p>")


def state_of(run: Watched) -> str:
    """Running, ended or failed."""
    return "running" if run.is_active else "ended" if run.exception is None else "failed"


def watch(run: Watched, timeout: float | None = None, every: float = 1.0) -> None:
    """Show a run until it ends, or for so many seconds: a table that goes on in a notebook, lines elsewhere.

    An interrupt ends the watching, not the run; what the run fails with is raised.
    """
    show = _shower(run)
    until = None if timeout is None else time.monotonic() + timeout
    try:
        while not run.await_done(every if until is None else max(0.0, min(every, until - time.monotonic()))):
            show()
            if until is not None and time.monotonic() >= until:
                return
    except KeyboardInterrupt:
        pass
    finally:
        show()


def _shower(run: Watched) -> Callable[[], None]:
    """Return a function that shows the run as it is now, in the same place."""
    try:
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        return _Lines(run)
    if get_ipython() is None:
        return _Lines(run)
    handle = display(run, display_id=True)
    return lambda: handle.update(run)


class _Lines:
    """A line for each step that is new."""

    def __init__(self, run: Watched) -> None:
        self.run, self.last = run, 0

    def __call__(self) -> None:
        for step in self.run.progress:
            if step.seq > self.last:
                facts = ((words, getattr(step, name)) for name, words in COLUMNS.items())
                print(", ".join(f"{words} {_text(value)}" for words, value in facts), flush=True)
                self.last = step.seq


def _text(value: Any) -> str:
    """A value as people read it.

    >>> _text(1234567), _text(0.123456789), _text("<b>"), _text(None)
    ('1,234,567', '0.123457', '<b>', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
