"""SQL text to queries and joins, with windows as people know them: CQL's, Spark's and Flink's."""

from __future__ import annotations

from weft.errors import QueryError
from weft.model.join import JoinQuery
from weft.model.query import Query
from weft.sql.joins import is_join, read_join
from weft.sql.select import read_statement
from weft.sql.text import split

__all__ = ["sql"]


def sql(text: str) -> list[Query | JoinQuery]:
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
    queries: list[Query | JoinQuery] = []
    for statement in split(text):
        try:
            read = read_join if is_join(statement.tokens) else read_statement
            queries.append(read(statement))
        except QueryError as error:
            raise error.of(statement.name) from None
        except RecursionError:
            position = statement.text.at(statement.tokens[0])
            raise QueryError(
                "nested too deeply", query=statement.name, position=position, hint="use fewer parentheses"
            ) from None
    return queries
