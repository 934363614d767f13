"""Joins of streams whose rows look up tables, against all pairs of rows that were enriched one by one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from support.join_cases import SCHEMA, SECOND, admitted, batches, steps_of, watermarks
from support.join_oracle import as_tuples, assert_equal, collect, oracle
from weft.errors import JobError, QueryError
from weft.expr.types import UTC
from weft.model.as_data import join_from_dict, join_to_dict
from weft.model.join import JoinQuery
from weft.operators.contract import ArrivedRows
from weft.operators.joins.clock import judge_rows
from weft.operators.joins.compile import JoinCompiler, StreamPosition
from weft.operators.joins.stage import JoinsStage
from weft.operators.joins.state import Joins
from weft.operators.lookups.tables import LookupTables
from weft.operators.times import one_batch
from weft.operators.windows.stage import WindowsStage
from weft.planning.live import LivePlanner
from weft.testing import oracle as answers_of

TABLES = {
    "names": pa.table(
        {"k": ["p", "q", None, "r"], "title": ["q", "p", "z", None], "w": [2, 1, 7, None], "k2": [1, 2, 3, 4]}
    ),
    "codes": pa.table({"x": [0, 1, 2, 2], "kind": ["p", "p", "p", "q"], "code": [1.5, None, 2.0, 3.0]}),
    "floats": pa.table({"y": [0.0, math.nan, 1.5, None], "f": [10, 20, 30, 40]}),
}
NAMES = "names n ON n.k = a.k"
CODES = "codes c ON c.x = n.w AND c.kind = 'p'"
B = "b [RANGE '{b} s']"
QUERIES = (
    f"SELECT a.n, b.n AS m, n.title FROM a [RANGE '{{a}} s'], {B} JOIN {NAMES} WHERE a.k = b.k",
    f"SELECT a.n, b.n AS m, n.title FROM a [RANGE '{{a}} s'], {B} LEFT JOIN {NAMES} WHERE a.k = b.k",
    f"SELECT a.n, b.n AS m, N.w + b.x AS s FROM a [RANGE '{{a}} s'] JOIN {NAMES} JOIN {B} ON n.title = b.k",
    f"SELECT a.n, b.n AS m FROM a [RANGE '{{a}} s'], {B} LEFT JOIN {NAMES} WHERE a.k = b.k AND n.w > a.x",
    f"SELECT a.n, b.n AS m FROM a [RANGE '{{a}} s'], {B} LEFT JOIN {NAMES} WHERE a.k = b.k AND n.k IS NULL",
    f"SELECT a.n, b.n AS m, c.code FROM a [RANGE '{{a}} s'], {B} JOIN {NAMES} LEFT JOIN {CODES} "
    "WHERE a.k = b.k AND c.kind IS NOT NULL",
    f"SELECT a.n, b.n AS m, c.code + n.w AS v FROM a [RANGE '{{a}} s'], {B} LEFT JOIN {NAMES} JOIN {CODES} "
    "WHERE c.code < b.y",
    f"SELECT a.n, b.n AS m, f.f, l.f AS g FROM a [RANGE '{{a}} s'] JOIN floats f USING (y), {B} "
    "LEFT JOIN floats AS l USING (y) WHERE a.x = b.x",
    f"SELECT a.n, b.n AS m, n.w FROM a [RANGE '{{a}} s'], {B}, names n "
    "WHERE n.k = b.k AND abs(n.w - a.x) <= 1 AND n.title <> 'x'",
    f"SELECT a.n, b.n AS m FROM a [RANGE '{{a}} s'], {B} WHERE a.k = b.k",
    f"SELECT a.n, b.n AS m, n.title, o.title AS u FROM a [RANGE '{{a}} s'], {B} LEFT JOIN {NAMES} "
    "JOIN names o ON o.k2 = b.x + 1 WHERE n.title = o.title",
    f"SELECT a.n, b.n AS m, c.n AS o, n.title FROM a [RANGE '{{a}} s'], {B}, b c [RANGE '3 s'] "
    f"LEFT JOIN {NAMES} JOIN names p ON p.k = c.k WHERE n.title = b.k AND p.w = a.x",
    "SELECT a.n, b.n AS m, n.title FROM a [RANGE '{a} s'], a b [RANGE '{b} s'] "
    f"LEFT JOIN {NAMES} LEFT JOIN codes c ON c.x = b.x AND c.kind = b.k WHERE a.x = b.x AND a.n <> b.n",
)
SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
TIMES = {"a": "ts", "b": "ts"}


def compiler(tables: Mapping[str, Any] = TABLES) -> JoinCompiler:
    schemas = {name: table.schema for name, table in tables.items()}
    return JoinCompiler(SCHEMAS, TIMES, LivePlanner(), tables=schemas)


def read(text: str, name: str = "q1", a: int = 5, b: int = 5) -> JoinQuery:
    (query,) = weft.sql(text.replace("{a}", str(a)).replace("{b}", str(b)))
    assert isinstance(query, JoinQuery)
    return query.renamed(name)


def answers(
    joins: Joins, steps: Sequence[Mapping[str, pa.Table]], marks: Sequence[Sequence[int | None]]
) -> dict[str, list[Any]]:
    """The results of joins fed as map tasks do: tables put beside the rows, rows in order, chains."""
    lookups = LookupTables(TABLES)
    chains = joins.chains()
    before: dict[str, int | None] = dict.fromkeys(joins.streams)
    results: dict[str, list[Any]] = {q.name: [] for q in joins.queries}
    last = [1 << 50, 1 << 50]
    for step, now in zip((*steps, dict.fromkeys("ab", SCHEMA.empty_table())), (*zip(*marks), last)):
        lookups.refresh([lookup for bound in joins.lookups.values() for lookup in bound])
        timed = {}
        for stream in joins.streams:
            rows = one_batch(step[stream].select(joins.schemas[stream].names))
            rows, _ = lookups.lookups(joins.lookups.get(stream, ())).extend(rows, False, UTC)
            timed[stream] = judge_rows(pa.Table.from_batches([rows]), "ts", before[stream]).rows
        after = dict(zip("ab", now))
        for chain in chains:
            streams = chain.program.members[0].streams
            collect(results, chain.step([timed[s] for s in streams], [after[s] for s in streams]))
        before = {stream: after[stream] for stream in joins.streams}
    return results


@given(data=st.data())
def test_any_lookups_equal_rows_enriched_one_by_one(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4))
    ranges = st.sampled_from([1, 3, 8])
    queries = [read(t, f"q{n}", data.draw(ranges), data.draw(ranges)) for n, t in enumerate(texts)]
    lateness = data.draw(st.sampled_from([0, 2, 20])) * SECOND
    steps = steps_of(data.draw(batches(0)), data.draw(batches(100)))
    streams = {side: [step[side] for step in steps] for side in "ab"}
    joins = compiler().joins(queries)
    results = answers(joins, steps, [watermarks(streams[side], lateness) for side in "ab"])
    kept = {side: pa.concat_tables(admitted(streams[side], lateness)) for side in "ab"}
    for query in queries:
        assert_equal(results[query.name], oracle(query, kept, lookup_tables=TABLES))


ROWS = {
    side: pa.table(
        {
            "ts": pa.array([n * SECOND for n in range(6)], pa.int64()).cast(pa.timestamp("us")),
            "k": ["p", "q", None, "p", "s", "q"],
            "x": [0, 1, 2, 2, None, first],
            "y": [0.0, -0.0, math.nan, 1.5, None, 7.0],
            "n": list(range(first, first + 6)),
        },
        schema=SCHEMA,
    )
    for side, first in (("a", 0), ("b", 100))
}


def stepped(joins: Joins) -> tuple[dict[str, list[Any]], dict[str, pa.Table]]:
    """The results of the stage for all rows at once, and the rows of its output streams."""
    stage, tables = JoinsStage(joins), LookupTables(TABLES)
    tables.refresh([lookup for bound in joins.lookups.values() for lookup in bound])
    marks = dict.fromkeys(joins.streams)
    pieces = []
    for stream in joins.streams:
        arrival = ArrivedRows(ROWS[stream], lookups=tables.lookups(joins.lookups.get(stream, ())))
        pieces += stage.prepare(stream, arrival, marks, 1).pieces
    step = stage.state(0, 1).step(stage.merge(pieces), dict.fromkeys(joins.streams, 1 << 50))
    results: dict[str, list[Any]] = {q.name: [] for q in joins.queries}
    collect(results, dict(step.answers))
    return results, dict(step.outputs)


@pytest.mark.parametrize("text", QUERIES)
def test_the_stage_and_both_oracles(text: str) -> None:
    query = read(text)
    results, _ = stepped(compiler().joins([query]))
    assert_equal(results["q1"], oracle(query, ROWS, lookup_tables=TABLES))
    streams = {name: ROWS[name] for name in query.streams}
    by_definition = answers_of(query, streams, tables={n: TABLES[n] for n in query.tables})
    assert sorted(repr(tuple(row.values())[1:]) for row in by_definition) == sorted(
        repr(row[1:]) for row in results["q1"]
    )
    assert join_from_dict(join_to_dict(query)) == query


def test_queries_with_and_without_lookups_share_a_chain() -> None:
    queries = [read(text, f"q{n}") for n, text in enumerate(QUERIES[:2] + QUERIES[9:10])]
    joins = compiler().joins(queries)
    assert [len(program.members) for program in joins.programs] == [3]
    assert {s: [k.name for k in bound] for s, bound in joins.lookups.items()} == {"a": ["names[k]"]}
    assert joins.schemas["a"].names == ["ts", "k", "n"]
    assert joins.programs[0].schemas[0].names == ["k", "n", "names[k].title"]
    results, _ = stepped(joins)
    for query in queries:
        assert_equal(results[query.name], oracle(query, ROWS, lookup_tables=TABLES))
    assert len(results["q0"]) < len(results["q2"]), "an inner lookup drops no row of other queries"


def test_only_columns_that_are_read_are_looked_up() -> None:
    unused = read(
        "SELECT a.x FROM a [RANGE '1 s'], b [RANGE '1 s'] LEFT JOIN names n ON n.k = a.k WHERE a.x = b.x"
    )
    assert compiler().joins([unused]).lookups == {}
    through = read(
        "SELECT a.n, c.code FROM a [RANGE '1 s'], b [RANGE '1 s'] LEFT JOIN names n ON n.k = a.k "
        "LEFT JOIN codes c ON c.x = n.w AND c.kind = b.k WHERE a.x = b.x".replace("b.k", "a.k")
    )
    joins = compiler().joins([through])
    assert [[column for _, column, _ in bound.columns] for bound in joins.lookups["a"]] == [["w"], ["code"]]
    assert joins.schemas["a"].names == ["ts", "k", "x", "n"]


AGGREGATED = (
    "SELECT n.title, count(*) AS c, max(c.code) AS top, sum(n.w * b.x) AS s "
    "FROM a [RANGE '3 s'], b [RANGE '4 s'] LEFT JOIN names n ON n.k = a.k "
    "LEFT JOIN codes c ON c.x = b.x AND c.kind = 'p' WHERE a.n < b.n "
    "GROUP BY n.title, window('2 s') HAVING count(*) > 1",
    "SELECT n.title, count(*) AS c, min(n.w) AS least FROM a [RANGE '3 s'], b [RANGE '4 s'] "
    "LEFT JOIN names n ON n.k = a.k WHERE a.n < b.n GROUP BY n.title, window('3 s')",
)


def test_aggregates_over_a_join_with_lookups() -> None:
    queries = [read(text, f"q{n}") for n, text in enumerate(AGGREGATED)]
    joins = compiler().joins(queries)
    assert [len(program.members) for program in joins.programs] == [1], "they differ in their aggregates only"
    _, outputs = stepped(joins)
    stage = WindowsStage("results", "joined", joins.results)
    pieces = stage.prepare("joined", ArrivedRows(outputs["joined"]), {"joined": None}, 1).pieces
    step = stage.state(0, 1).step(stage.merge(pieces), {"joined": 1 << 50})
    for query in queries:
        table = step.answers[query.name]
        wanted = answers_of(query, ROWS, tables={n: TABLES[n] for n in query.tables})
        expected = (tuple(row[name] for name in table.column_names) for row in wanted)
        assert sorted(map(repr, (tuple(row.values()) for row in table.to_pylist()))) == sorted(
            map(repr, expected)
        )
        assert wanted


def test_a_join_that_is_covered_goes_on_with_what_was_looked_up() -> None:
    wide = read(QUERIES[0], "wide", 8, 8)
    before = compiler().joins([wide], 1)
    at = StreamPosition(latest=9 * SECOND, marks={"a": 9 * SECOND, "b": 9 * SECOND})
    covered, other = read(QUERIES[0], "narrow", 2, 2), read(QUERIES[1], "left", 2, 2)
    after = compiler().joins([wide, covered, other], 2, before, at)
    wide_line, covered_line, other_line = after.lineages[0]
    assert covered_line.ids[1:] == wide_line.ids
    assert other_line.ids[1:] == (), "its rows are others: those that meet nothing are there too"


def test_all_of_them_together_in_one_run() -> None:
    queries = [read(text, f"q{n}") for n, text in enumerate(QUERIES)]
    results = weft.run(queries, ROWS, time="ts", tables=TABLES)
    for query in queries:
        assert_equal(as_tuples(results[query.name]), oracle(query, ROWS, lookup_tables=TABLES))


@pytest.mark.parametrize(
    ("marked", "message", "hint"),
    [
        ("JOIN ^other o ON o.k = a.k", "no table 'other' is given", "the tables given are names"),
        ("JOIN ^names n ON n.kk = a.k", "the table 'names' has no column 'kk'", "did you mean 'k'?"),
        ("JOIN names n ON n.k = ^a.x", "x is bigint and n.k is string", "CAST(x AS string)"),
        ("JOIN names n ON n.k = ^a.kk", "unknown column 'kk'", "did you mean 'k'?"),
        ("JOIN names n USING (^w)", "unknown column 'w'", "the columns are"),
        ("JOIN names n ON n.k = b.k WHERE ^n.titel = 'x'", "unknown column 'titel' of 'n'", "'title'"),
        ("JOIN names n ON n.k = b.k WHERE ^n.titel = a.k", "unknown column 'titel' of 'n'", "'title'"),
        ("JOIN names n ON n.k = b.k JOIN codes ON codes.x = ^n.ww", "unknown column 'ww' of 'n'", "'w'"),
        ("JOIN names n ON n.k = b.k WHERE ^n.title > 3 + a.x", "cannot compare string with bigint", ""),
    ],
)
def test_names_that_mean_nothing(marked: str, message: str, hint: str) -> None:
    before, _, after = f"SELECT a.x FROM a [RANGE '1 min'], b [RANGE '1 min'] {marked}".partition("^")
    with pytest.raises(QueryError) as refused:
        compiler().joins([read(before + after)])
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")
    assert refused.value.query == "q1"
    assert refused.value.position == (1, len(before) + 1)


def test_a_table_with_a_key_twice() -> None:
    joins = compiler().joins([read(QUERIES[0])])
    twice = LookupTables({"names": pa.concat_tables([TABLES["names"]] * 2)})
    with pytest.raises(JobError, match="more than one row with k = 'p'; a row of the stream meets one"):
        twice.refresh(joins.lookups["a"])


def test_without_tables_a_join_with_lookups_is_refused() -> None:
    with pytest.raises(QueryError, match="no table 'names' is given; give it with tables="):
        compiler({}).joins([read(QUERIES[0])])
