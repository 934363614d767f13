"""Quotes of a CSV file, followed while it is read: one that is never closed swallows the rows after it.

pyarrow's reader takes all that follows such a quote for one value, and says nothing. The rules are its own: a
quote counts where a field begins, two within a quoted value stand for one, and quoted values may span lines.
"""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
from numba import njit

from weft.io.files.text import BOM

FIELD, PLAIN, QUOTED, CLOSED = range(4)
"""Where the next byte is: at the start of a field, in one without quotes, within quotes, behind them."""
STATE, LINE, OPENED, BROKEN = range(4)
"""Progress so far: where the next byte is, its line, the line of the last quote that opened a value, and
the line where a value of several lines was followed by other text (0: none was)."""


class QuotedFile(io.RawIOBase):
    """A file that is read by someone else, and the state of its quotes so far."""

    def __init__(self, source: pa.NativeFile, delimiter: str, quote: str) -> None:
        self._source, self._signs = source, (ord(delimiter), ord(quote))
        self._quote = quote.encode()
        self._progress = np.array([FIELD, 1, 0, 0])
        self._at_start, self._at_end = True, False

    def readable(self) -> bool:
        """Return True: the file is there to be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read, and follow the quotes of what is read."""
        data: bytes = self._source.read(size)
        self._at_end = not data
        text = data[len(BOM) :] if self._at_start and data.startswith(BOM) else data
        self._at_start = False
        if self._progress[STATE] >= QUOTED or self._quote in text:
            _follow(np.frombuffer(text, np.uint8), *self._signs, self._progress)
        elif text:
            self._progress[LINE] += text.count(b"\n")
            self._progress[STATE] = FIELD if text[-1] in (*b"\r\n", self._signs[0]) else PLAIN
        return data

    def close(self) -> None:
        """Close what is read."""
        self._source.close()
        super().close()

    @property
    def problem(self) -> str | None:
        """The error in the quotes as far as they were read."""
        state, _, opened, broken = self._progress.tolist()
        if broken:
            return f"the quoted value that begins in line {opened} is followed by text in line {broken}"
        if self._at_end and state == QUOTED:
            return f"the quote in line {opened} is never closed"
        return None


@njit(cache=True, nogil=True)
def _follow(text: np.ndarray, delimiter: int, quote: int, progress: np.ndarray) -> None:
    """Follow the quotes of some more text; ``progress`` is changed."""
    state, line, opened = progress[0], progress[1], progress[2]
    for byte in text:
        if state == 2:
            if byte == quote:
                state = 3
        elif byte == quote and state == 0:
            state, opened = 2, line
        elif byte == quote and state == 3:
            state = 2
        elif byte == delimiter or byte == 10 or byte == 13:
            state = 0
        else:
            if state == 3 and opened != line:
                progress[0], progress[1], progress[2], progress[3] = state, line, opened, line
                return
            state = 1
        if byte == 10:
            line += 1
    progress[0], progress[1], progress[2] = state, line, opened
