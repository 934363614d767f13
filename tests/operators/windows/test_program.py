"""The program: what is refused before anything runs, and what shares."""

from __future__ import annotations

import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError
from weft.final import TECHNIQUES
from weft.operators.windows.compile import compile_plan
from weft.operators.windows.program import WindowProgram
from weft.planning.cost.omega import find_omega

SCHEMA = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "symbol": pa.string(),
        "price": pa.float64(),
        "volume": pa.int32(),
        "blob": pa.binary(),
    }
)


def ready(text: str, **options: str) -> WindowProgram:
    return compile_plan(weft.plan(weft.sql(text), **options), SCHEMA, "ts")  # type: ignore[arg-type]


def test_without_keys_the_nodes_of_the_plan_answer() -> None:
    text = "SELECT count(*) AS n FROM t [RANGE '{} s']"
    queries = [weft.sql(text.format(seconds))[0].renamed(f"q{seconds}") for seconds in (2, 3, 5, 7)]
    plan = weft.plan(queries, strategy="no-share", nodes=4)
    nodes = {tree.queries[0].name: tree.node for tree in plan.trees}
    assert set(nodes.values()) == {0, 1, 2, 3}
    program = compile_plan(plan, SCHEMA, "ts", buckets=3)
    assert {e.query.name: e.bucket for e in program.entries} == {name: n % 3 for name, n in nodes.items()}
    assert program.groupings[0].buckets == (0, 1, 2)


def test_equal_predicates_groupings_and_parts_are_one() -> None:
    program = ready(
        """
        SELECT symbol, avg(price) AS a FROM t [RANGE '1 min'] WHERE volume > 5 GROUP BY symbol;
        SELECT symbol, sum(price) AS s, count(price) AS n FROM t [RANGE '2 min']
        WHERE volume > 5 GROUP BY symbol;
        SELECT count(*) AS n FROM t [RANGE '1 min']
        """
    )
    assert len(program.predicates) == 2
    assert [g.keys for g in program.groupings] == [("symbol",), ()]
    assert [str(p) for p in program.groupings[0].parts] == ["sum(price)", "count(price)"]
    assert program.columns == ("ts", "symbol", "price", "volume")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT sum(prise) AS s FROM t [RANGE '1 min']", r"query 'q1', line 1, column 12: .*prise.*price"),
        ("SELECT sum(symbol) AS s FROM t [RANGE '1 min']", "sum takes bigint or double, not string"),
        ("SELECT count(*) AS n FROM t [RANGE '1 min'] WHERE price", "boolean"),
        ("SELECT count(*) AS n FROM t [RANGE '1 min'] WHERE price > 'a'", "double"),
        ("SELECT nope, count(*) AS n FROM t [RANGE '1 min'] GROUP BY nope", "nope"),
        ("SELECT blob, count(*) AS n FROM t [RANGE '1 min'] GROUP BY blob", "blob|binary"),
        ("SELECT count(*) AS n FROM t GROUP BY window(price, '1 minute')", "time column is 'ts'"),
    ],
)
def test_a_query_that_does_not_fit_the_stream_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ready(text)


def test_a_stream_without_the_time_column_or_with_a_wrong_one_is_refused() -> None:
    plan = weft.plan(weft.sql("SELECT count(*) AS n FROM t [RANGE '1 min']"))
    with pytest.raises(QueryError, match="no time column 'at'; its columns are ts, symbol"):
        compile_plan(plan, SCHEMA, "at")
    with pytest.raises(QueryError, match="'volume' is int32, not a timestamp"):
        compile_plan(plan, SCHEMA, "volume")


def test_two_queries_of_one_name_are_refused() -> None:
    query = weft.sql("SELECT count(*) AS n FROM t [RANGE '1 min']")[0]
    with pytest.raises(QueryError, match="two queries have this name"):
        compile_plan(weft.plan([query, query]), SCHEMA, "ts")


def test_no_query_is_refused() -> None:
    with pytest.raises(QueryError, match="there is no query"):
        weft.plan([])


def test_subtracting_is_refused_for_a_maximum_and_for_a_float_sum_before_anything_runs() -> None:
    for call in ("max(price)", "sum(price)"):
        with pytest.raises(QueryError, match="needs an exact inverse"):
            ready(f"SELECT {call} AS v FROM t [RANGE '1 min']", technique="soe")
    ready("SELECT sum(volume) AS v, count(*) AS n FROM t [RANGE '1 min']", technique="soe")


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_technique_has_a_cost(name: str) -> None:
    assert find_omega(name).formula
