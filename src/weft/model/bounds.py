"""Bounds: the most that one query may ask for, so that no text can take the memory of a process.

docs/queries.md has them as a table, with what happens beyond each.
"""

from __future__ import annotations

MAX_TEXT_CHARACTERS = 2_000_000
"""Characters of a query text."""

MAX_QUERIES = 10_000
"""Queries in one text."""

MAX_TOKENS = 250_000
"""Words, numbers and signs of one query; the parser takes some kilobytes for each."""

MAX_QUERY_NAME = 200
"""Characters of a query's name, which is also that of folders and topics."""

MAX_COLUMN_NAME = 1_000
"""Characters of a column's name."""

MAX_RESULT_COLUMNS = 1_000
"""Result columns of a query; every aggregate is code that is compiled."""

MAX_GROUP_COLUMNS = 100
"""Columns in GROUP BY."""

MAX_NESTING = 100
"""Levels of an expression in a text; everything that walks expressions recurses on them."""

MAX_COMPILED_NESTING = 2 * MAX_NESTING
"""Levels of an expression when it is compiled: FILTER, NOT LIKE and the like add some of their own."""

MAX_PARTS = 100_000
"""Sub-expressions of an expression."""

MAX_IN_VALUES = 20_000
"""Values of an IN list."""

MAX_LIKE_CHARACTERS = 1_000
"""Characters of a LIKE pattern: the time to match a text grows with the product of the two lengths."""

MAX_DIGITS = 1_000
"""Characters of a number."""

MAX_DURATION = 100 * 366 * 86_400 * 1_000_000
"""Microseconds of a window's range and slide."""

MAX_WINDOW_ROWS = 10**12
"""Rows of a window's range and slide."""

MAX_WINDOWS_PER_ROW = 1_000_000
"""Windows that one row is in: range / slide."""

MAX_VALUE_BYTES = 1_000_000
"""Bytes of a text that an expression makes; a longer one is a bad value."""

MAX_CONSTANT_BYTES = 100_000
"""Bytes of a text that is known before any row is seen."""

MAX_BATCH_TEXT_BYTES = 256 * 1024 * 1024
"""Bytes of all texts that expressions hold for one batch; beyond it the batch is evaluated in pieces."""
