"""SQL text to queries, in the three spellings of a window that people know: CQL, Spark and Flink."""

from __future__ import annotations

from weft.errors import QueryError
from weft.query import Query
from weft.sql.select import read_statement
from weft.sql.text import split

__all__ = ["sql"]


def sql(text: str) -> list[Query]:
    """The queries of a text; ``-- name: x`` before a statement names it, ``;`` separates statements.

    >>> busy, calm = sql('''
    ...     -- name: busy
    ...     SELECT symbol, sum(price * volume) AS value
    ...     FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE volume > 500 GROUP BY symbol;
    ...     -- name: calm
    ...     SELECT avg(price) AS mean FROM trades GROUP BY window(ts, '1 hour', '10 minutes')
    ... ''')
    >>> busy.name, busy.group_by, str(busy.predicate)
    ('busy', ('symbol',), '(volume > 500)')
    >>> calm.window, calm.time
    (Window(range=3600000000, slide=600000000, offset=0, rows=False), 'ts')
    """
    queries = []
    for statement in split(text):
        try:
            queries.append(read_statement(statement))
        except QueryError as error:
            raise error.of(statement.name) from None
        except RecursionError:
            position = statement.text.at(statement.tokens[0])
            raise QueryError(
                "nested too deeply", query=statement.name, position=position, hint="use fewer parentheses"
            ) from None
    return queries
