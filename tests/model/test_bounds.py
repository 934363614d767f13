"""Bounds: no query text, however it is written, takes the memory of the process that reads it."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys

import pyarrow as pa
import pytest

import weft
from support.places import DOCS
from weft.errors import QueryError
from weft.expr.evaluate import Evaluator
from weft.model import bounds
from weft.model.expression import Call, Column, Literal
from weft.sql.snippet import snippet

TABLE = pa.table(
    {
        "ts": [datetime.datetime(2024, 1, 1, 0, 0, second) for second in range(4)],
        "s": ["a", "aaaaaaaaaa", None, "b"],
        "x": [1, 2, 3, 4],
        "b": [True, False, True, None],
    }
)


def query(where: str = "TRUE", select: str = "count(*) AS n", window: str = "[RANGE '1 min']") -> str:
    return f"SELECT {select} FROM t {window} WHERE {where}"


def replaced(of: str, times: int) -> str:
    for _ in range(times):
        of = f"replace({of}, 'a', 'aaaaaaaaaa')"
    return of


BEYOND = {
    "a text of too many characters": " " * bounds.MAX_TEXT_CHARACTERS + query(),
    "a text of too many queries": ";".join([query()] * (bounds.MAX_QUERIES + 1)),
    "a query of too many words": query("x IN (" + ",".join(["1"] * bounds.MAX_TOKENS) + ")"),
    "a long name of a query": "-- name: " + "n" * (bounds.MAX_QUERY_NAME + 1) + "\n" + query(),
    "a long name of a column": query("n" * (bounds.MAX_COLUMN_NAME + 1) + " > 1"),
    "a long alias": query(select="count(*) AS " + "n" * (bounds.MAX_COLUMN_NAME + 1)),
    "a long expression without a name": query(select="sum(x) + sum(" + "x" * 999 + ")"),
    "too many result columns": query(select=",".join(f"sum(x+{n}) s{n}" for n in range(1001))),
    "too many hidden aggregates": query(
        select="greatest(" + ",".join(f"sum(x+{n})" for n in range(bounds.MAX_RESULT_COLUMNS + 1)) + ") AS m"
    ),
    "too many columns in GROUP BY": query() + " GROUP BY " + ",".join(f"c{n}" for n in range(101)),
    "nested parentheses": query("(" * 100_000 + "x" + ")" * 100_000 + " > 1"),
    "nested NOT": query("NOT " * 100_000 + "b"),
    "nested signs": query("- " * 50_000 + "x > 1"),
    "nested CASE": query("CASE WHEN b THEN " * 50_000 + "b" + " END" * 50_000),
    "a long sum": query("+".join(["x"] * 50_000) + " > 1"),
    "a CASE of many branches": query("CASE " + "WHEN b THEN 1 " * 40_000 + "END > 1"),
    "a long AND": query(" AND ".join(["b"] * (bounds.MAX_PARTS + 1))),
    "a long IN": query("x IN (" + ",".join(["1"] * (bounds.MAX_IN_VALUES + 1)) + ")"),
    "a long LIKE": query("s LIKE '" + "_" * (bounds.MAX_LIKE_CHARACTERS + 1) + "'"),
    "a very long LIKE": query("s LIKE '" + "_" * 200_000 + "'"),
    "many digits": query("x > " + "9" * (bounds.MAX_DIGITS + 1)),
    "many digits behind the point": query("x > 0." + "9" * bounds.MAX_DIGITS),
    "many windows of a row": query(window="[RANGE '3650 days' SLIDE '1 us']"),
    "many rows of a window": query(window=f"[ROWS {10**18}]"),
    "a window with 4,301 digits": query(window=f"[ROWS {'9' * 4301}]"),
    "a constant from nested replace": query(f"length({replaced(chr(39) + 'a' + chr(39), 9)}) > 3"),
    "a long constant": query("s = '" + "a" * (bounds.MAX_CONSTANT_BYTES + 1) + "'"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", BEYOND.values(), ids=BEYOND.keys())
def test_what_is_beyond_a_bound_is_refused_with_its_place_and_a_remedy(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        weft.run(weft.sql(text), TABLE, time="ts")
    assert caught.value.position is not None
    assert caught.value.hint
    assert len(str(caught.value)) < 400


WITHIN = {
    "IN": query("x IN (" + ",".join(map(str, range(bounds.MAX_IN_VALUES))) + ")"),
    "LIKE of any character": query("s LIKE '" + "_" * bounds.MAX_LIKE_CHARACTERS + "' OR TRUE"),
    "LIKE of any text": query("s LIKE '" + "%_é" * 333 + "' OR TRUE"),
    "digits": query("x > 0." + "0" * (bounds.MAX_DIGITS - 2)),
    "nesting": query("(" * 40 + "x" + ")" * 40 + " > 0"),
    "names": "-- name: " + "n" * bounds.MAX_QUERY_NAME + "\n" + query(),
    "a constant": query("s <> '" + "a" * bounds.MAX_CONSTANT_BYTES + "' OR TRUE"),
}


@pytest.mark.parametrize("text", WITHIN.values(), ids=WITHIN.keys())
def test_what_is_within_the_bounds_is_answered(text: str) -> None:
    (answer,) = weft.run(weft.sql(text), TABLE, time="ts").values()
    assert answer["n"].to_pylist() == [4]


def test_trees_that_were_not_read_from_text_are_bounded_too() -> None:
    many = tuple(Literal(n, "bigint") for n in range(bounds.MAX_IN_VALUES + 1))
    with pytest.raises(QueryError, match="20,000"):
        Evaluator(TABLE).mask(Call("in", (Column("x"), *many)))


def test_an_error_of_the_builder_does_not_repeat_a_long_text() -> None:
    with pytest.raises(QueryError) as caught:
        snippet("x IN (" + "1, " * 10_000, "where", "q")
    assert len(str(caught.value)) < 500


def test_a_text_that_would_be_too_long_is_null_and_counted_as_bad() -> None:
    rows = Evaluator(pa.record_batch({"s": ["a", "x", "aa", None, "xaxa"]}))
    values = rows.evaluate(grown(300_000)).to_pylist()
    assert [None if v is None else len(v) for v in values] == [300_000, 1, 600_000, None, 600_002]
    assert rows.bad == 0
    rows = Evaluator(pa.record_batch({"s": ["a" * 3, "a" * 4, "x"]}))
    values = rows.evaluate(grown(300_000)).to_pylist()
    assert [None if v is None else len(v) for v in values] == [900_000, None, 1]
    assert rows.bad == 1
    rows = Evaluator(pa.record_batch({"s": ["a" * 250_000, "a" * 250_001]}))
    values = rows.evaluate(Call("concat", (Column("s"),) * 4)).to_pylist()
    assert [None if v is None else len(v) for v in values] == [1_000_000, None]
    assert rows.bad == 1


def grown(size: int) -> Call:
    """Every a becomes so many characters, in two steps: a constant may not be so long."""
    step = Call("replace", (Column("s"), Literal("a", "string"), Literal("c" * 10, "string")))
    return Call("replace", (step, Literal("c", "string"), Literal("b" * (size // 10), "string")))


def test_a_text_that_would_be_too_long_is_an_error_under_strict() -> None:
    rows = Evaluator(pa.record_batch({"s": ["x", "a" * 4]}), strict=True)
    with pytest.raises(QueryError, match=r"text longer than 1,000,000 bytes .* row 1"):
        rows.evaluate(grown(300_000))


def test_a_query_over_texts_that_grow_is_answered_and_its_bad_values_are_counted() -> None:
    queries = weft.sql(query(f"length({replaced('s', 7)}) > 0"))
    run = weft.LocalRun(queries, TABLE.schema, "ts")
    run.step(TABLE)
    answers = run.close()
    assert answers["q1"]["n"].to_pylist() == [1]  # 'b'; the others grow too long
    assert run.seen.bad == 2


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.expr.evaluate.MAX_BATCH_TEXT_BYTES", 10_000)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_conditions_over_long_texts_are_answered_in_pieces(kind: pa.DataType) -> None:
    texts = [None if n % 7 == 0 else "ab" * (n % 5) for n in range(1000)]
    column = pa.array(texts)
    batch = pa.record_batch({"s": column if kind == column.type else column.dictionary_encode()})
    longer = Call("replace", (Column("s"), Literal("a", "string"), Literal("x" * 300, "string")))
    chosen = Call("case", (Call("is_null", (Column("s"),)), Literal("y" * 500, "string"), longer))
    sizes = [500 if t is None else len(t) // 2 * 301 for t in texts]
    assert Evaluator(batch).evaluate(Call("length", (chosen,))).to_pylist() == sizes
    assert Evaluator(batch).mask(Call(">", (Call("length", (chosen,)), Literal(400, "bigint")))).tolist() == [
        size > 400 for size in sizes
    ]
    bad = Evaluator(batch)
    bad.evaluate(Call("/", (Literal(1, "bigint"), Call("length", (chosen,)))))
    assert bad.bad == sizes.count(0)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    "text",
    [
        Call("concat", (Column("s"), Literal("x" * 99, "string"))),
        Call("replace", (Column("s"), Literal("a", "string"), Literal("x" * 100, "string"))),
        Call("case", (Call("is_null", (Column("s"),)), Literal("y", "string"), Literal("x" * 100, "string"))),
        Call("coalesce", (Call("nullif", (Column("s"), Column("s"))), Literal("x" * 100, "string"))),
        Literal("x" * 100, "string"),
    ],
    ids=["concat", "replace", "case", "coalesce", "constant"],
)  # fmt: skip
@pytest.mark.parametrize("encoded", [False, True])
def test_texts_beyond_the_room_of_a_batch_are_null_and_counted(text: Call | Literal, encoded: bool) -> None:
    column = pa.array(["a"] * 1000)
    rows = Evaluator(pa.record_batch({"s": column.dictionary_encode() if encoded else column}))
    values = rows.evaluate(text)
    assert values.null_count + len(values.drop_null()) == 1000
    assert values.nbytes < 20_000  # also of what is not shown
    assert set(values.drop_null().to_pylist()) == {values[0].as_py()} and len(values[0].as_py()) == 100
    assert rows.bad == values.null_count == 900


@pytest.mark.usefixtures("little_room")
def test_a_constant_that_was_used_before_is_bounded_too() -> None:
    constant = Literal("x" * 100, "string")
    rows = Evaluator(pa.record_batch({"s": ["a"] * 1000}))
    rows.mask(Call("=", (Call("upper", (Column("s"),)), constant)))
    assert rows.evaluate(constant).null_count == rows.bad == 900


ATTACK = """
import resource
import pyarrow as pa, weft
import datetime
resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)
nested = "s"
for _ in range(8):
    nested = f"replace({nested}, 'a', 'aaaaaaaaaa')"
start = datetime.datetime(2024, 1, 1)
table = pa.table({"ts": [start] * 500, "s": ["aa"] * 500})
text = f"SELECT count(*) AS n, max({nested}) AS m FROM t [RANGE '1 min'] WHERE length({nested}) > 3"
run = weft.LocalRun(text, table.schema, "ts")
run.step(table)
run.close()
print(run.seen.bad)
"""


@pytest.mark.slow
def test_nested_replace_over_a_batch_stays_within_its_memory() -> None:
    done = subprocess.run([sys.executable, "-c", ATTACK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 0


def test_every_bound_is_in_the_docs() -> None:
    page = (DOCS / "queries.md").read_text()
    table = page.partition("### Bounds")[2].partition("## Errors")[0]
    numbers = {int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", table)}
    elsewhere = {"MAX_COMPILED_NESTING", "MAX_DURATION", "MAX_WINDOW_ROWS", "MAX_BATCH_TEXT_BYTES"}
    for name, value in vars(bounds).items():
        if name.startswith("MAX_") and name not in elsewhere:
            assert value in numbers, name
    assert "256 MiB" in table and bounds.MAX_BATCH_TEXT_BYTES == 256 * 2**20
