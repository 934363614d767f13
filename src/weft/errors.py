"""The errors weft raises on purpose: each says what was wrong, where, and what to do."""

from __future__ import annotations


class WeftError(Exception):
    """Base of every error that weft raises on purpose."""


class QueryError(WeftError):
    """A query that cannot run: names the query, the position in its text, and the remedy.

    >>> print(QueryError("unknown column 'prise'", query="busy", position=(2, 8), hint="is it 'price'?"))
    query 'busy', line 2, column 8: unknown column 'prise'; is it 'price'?
    """

    def __init__(
        self,
        message: str,
        *,
        query: str | None = None,
        position: tuple[int, int] | None = None,
        hint: str | None = None,
    ) -> None:
        self.message, self.query, self.position, self.hint = message, query, position, hint
        super().__init__(message)

    def __str__(self) -> str:
        where = [f"query '{self.query}'"] if self.query else []
        if self.position:
            where.append(f"line {self.position[0]}, column {self.position[1]}")
        text = f"{', '.join(where)}: {self.message}" if where else self.message
        return f"{text}; {self.hint}" if self.hint else text

    def of(self, query: str) -> QueryError:
        """The same error, naming ``query`` where none was named yet."""
        return QueryError(self.message, query=self.query or query, position=self.position, hint=self.hint)


class UnknownQuery(QueryError):
    """A change to a query that is not there."""


class NameTaken(QueryError):
    """A query that would join under the name of another."""


class JobError(WeftError):
    """A job file, source, sink or option that cannot be used."""


class CheckpointError(WeftError):
    """A checkpoint that cannot be read, is damaged, or belongs to other queries."""


class AggregateError(WeftError):
    """A user-defined aggregate whose functions raise, or give what they must not."""


class AnswerOverflow(WeftError, OverflowError):
    """An integer answer that does not fit 64 bits: integers are exact or an error, never wrapped."""


class LateRowsWarning(UserWarning):
    """Rows that came too late for a window, and are missing from its answer."""


def late_message(late: int, rows: int) -> str:
    """Return the warning of late rows.

    >>> print(late_message(2, 2000).split(";")[0])
    2 of 2,000 rows came after a window that holds them was answered, and are missing there
    """
    one = late == 1
    return (
        f"{late:,} of {rows:,} rows came after a window that holds {'it' if one else 'them'} was answered, "
        f"and {'is' if one else 'are'} missing there; a longer lateness waits for such rows"
    )
