"""What is wrong, where, and what to do: ``^`` marks the place that the error must name."""

from __future__ import annotations

import pytest

import weft
from support.sql_errors import caught

T = "FROM t [RANGE '1 s']"
HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE)"
BY_WINDOW = "GROUP BY window_start, window_end"


TEXT = [
    ("^DROP TABLE t", "DROP is not supported"),
    ("^CREATE TABLE t AS SELECT 1", "CREATE is not supported"),
    ("^INSERT INTO t VALUES (1)", "INSERT is not supported"),
    ("^SET x = 1", "SET is not supported"),
    ("^ADD JAR 'x.jar'", "ADD JAR is not supported"),
    (f"^WITH u AS (SELECT 1) SELECT sum(x) {T}", "WITH is not supported"),
    (f"^(SELECT sum(x) {T})", "( is not supported"),
    (f"^FROM t SELECT sum(x) {T}", "FROM is not supported"),
    ("^hello", "HELLO is not supported"),
    (f"SELECT sum(x) {T} ^UNION SELECT 1", "UNION is not supported"),
    (f"SELECT sum(x) {T} ^EXCEPT SELECT sum(y) {T}", "EXCEPT is not supported"),
    (f"SELECT sum(x) {T} ^SELECT sum(y) {T}", "unexpected 'SELECT'"),
    (f"SELECT sum^(x {T}", "'(' is never closed"),
    (f"SELECT sum(x)^) {T}", "unexpected ')'"),
    ("SELECT sum(x) FROM t ^[RANGE '1 s'", "'[' is never closed"),
    (f"SELECT sum(x)^, {T}", "unexpected ','"),
    (f"SELECT ^, sum(x) {T}", "unexpected ','"),
    (f"SELECT sum(x^,) {T}", "unexpected ','"),
    (f"SELECT sum(x) ^AS, sum(y) {T}", "AS without a name"),
    (f"SELECT sum(x) ^AS {T}", "AS without a name"),
    (f"SELECT sum(x) {T} ^WHERE", "something is missing after 'WHERE'"),
    (f"SELECT sum(x) {T} WHERE a ^>", "something is missing after '>'"),
    ("SELECT sum(x) ^FROM", "something is missing after 'FROM'"),
    (f"^SELECT {T}", "SELECT without columns"),
    ("^SELECT sum(x)", "no FROM clause"),
    (f"SELECT sum(x) y ^z {T}", "unexpected 'z'"),
    (f"SELECT sum(x) {T} WHERE a = ^'abc", "' is never closed"),
    (f"SELECT sum(x) {T} WHERE a = ^`abc", "` is never closed"),
    (f"SELECT sum(x) {T}\n/* /* closed */ */ ^/* open /* closed */", "/* is never closed"),
    (f'SELECT sum(^"x") {T}', "double quotes around 'x'"),
    (f"SELECT sum(x) {T} WHERE a = ^:p", "unexpected ':'"),
    (f"SELECT sum(x) {T} WHERE a = ^?", "unexpected '?'"),
    (f"SELECT sum(x) {T} WHERE a = ^@p", "unexpected '@'"),
    (f"SELECT sum(x) {T} WHERE a = ^${{p}}", "unexpected '$'"),
    (f"SELECT sum(x) {T} WHERE a = ^{{{{ p }}}}", "unexpected '{'"),
    (f"SELECT sum(x) {T} ^|> WHERE a", "unexpected '|>'"),
    (f"SELECT ^/*+ BROADCAST(t) */ sum(x) {T}", "unexpected '/*+ BROADCAST"),
    (f"SELECT sum(x) {T} WHERE a^->b", "unexpected '->'"),
    ("SELECT sum(x) FROM ^.t [RANGE '1 s']", "unexpected '.'"),
    (f"SELECT sum(x) {T} WHERE a = '^\ud800'", "invalid UTF-8"),
]

CLAUSES = [
    (f"SELECT ^DISTINCT sum(x) {T}", "DISTINCT is not supported"),
    (f"SELECT sum(x) {T} ^ORDER BY 1", "ORDER BY is not supported"),
    (f"SELECT sum(x) {T} ^SORT BY 1", "SORT BY is not supported"),
    (f"SELECT sum(x) {T} ^LIMIT 5", "LIMIT is not supported"),
    (f"SELECT sum(x) {T} ^OFFSET 5", "OFFSET is not supported"),
    (
        f"SELECT sum(x) {T} ^LEFT JOIN u [RANGE '1 s'] ON t.a = u.a",
        "LEFT is not supported in a join of streams",
    ),
    (f"SELECT sum(x) {T} ^LATERAL VIEW explode(a) b", "LATERAL is not supported"),
    (f"SELECT sum(x) {T} ^QUALIFY a", "QUALIFY is not supported"),
    (f"SELECT sum(x) ^INTO u {T}", "INTO is not supported"),
    (f"SELECT sum(x) {T} ^GROUP BY a WHERE b", "GROUP BY comes before WHERE"),
    (f"SELECT sum(x) {T} ^HAVING a GROUP BY b", "HAVING comes before GROUP BY"),
    ("SELECT sum(x) FROM ^(SELECT * FROM t) [RANGE '1 s']", "FROM takes the name of a stream"),
    ("SELECT sum(x) FROM ^range(10) [RANGE '1 s']", "FROM takes the name of a stream"),
    ("SELECT sum(x) FROM ^'t' [RANGE '1 s']", "not the name of a stream"),
    ("SELECT sum(x) FROM ^t [RANGE '1 s'] AS u(a, b)", "the alias of the stream is not a name"),
    (f"SELECT sum(x) {T} GROUP BY ^a + 1", "GROUP BY takes columns, not expressions"),
    (f"SELECT sum(x) {T} GROUP BY a, ^upper(b)", "GROUP BY takes columns, not expressions"),
    ("SELECT sum(x) FROM t GROUP BY ^session_window(ts, '5 min')", "GROUP BY takes columns, not expressions"),
    (f"SELECT sum(x) {T} ^GROUP BY", "GROUP BY takes a list of columns"),
    (f"SELECT sum(x) {T} ^GROUP BY ALL", "GROUP BY takes a list of columns"),
    (f"SELECT sum(x) {T} ^GROUP BY a WITH ROLLUP", "GROUP BY takes a list of columns"),
    (f"SELECT sum(x) {T} GROUP BY ^2", "GROUP BY 2: there is no such column"),
    (f"SELECT ^sum(x) {T} GROUP BY 1", "GROUP BY takes columns, not expressions"),
    (f"SELECT upper(a) AS b, sum(x) {T} GROUP BY ^b", "'b' is the name of a result column"),
    (f"SELECT ^a, sum(x) {T}", "the column 'a' is neither grouped nor aggregated"),
    (f"SELECT sum(x) / ^a AS r {T}", "the column 'a' is neither grouped nor aggregated"),
    (f"SELECT ^Sym, sum(x) {T} GROUP BY sym", "the column 'Sym' is neither grouped nor aggregated"),
    (f"SELECT sum(x) {T} HAVING ^b > 1", "the column 'b' is neither grouped nor aggregated"),
    (f"SELECT sum(x) {T} HAVING ^window_start > 1", "'window_start' cannot be used in HAVING"),
    (f"^SELECT a {T} GROUP BY a", "the query has no aggregate"),
    (f"^SELECT window_start {T}", "the query has no aggregate"),
    (f"^SELECT a {T} GROUP BY a HAVING count(*) > 1", "the query selects no aggregate"),
    (f"SELECT sum(x), ^* {T}", "* is not supported"),
    (f"SELECT sum(x), ^t.* {T}", "* is not supported"),
    (f"SELECT sum(x) AS a, ^sum(y) AS a {T}", "has the name of another result column"),
    (f"SELECT sum(x), ^sum(x) {T}", "has the name of another result column"),
    (f"SELECT sum(x) AS a, ^sum(y) AS A {T}", "has the name of another result column"),
    (f"SELECT sum(x) AS a {T} GROUP BY ^a", "'a' is the name of a result column"),
    (f"SELECT ^sum(x) AS A {T} GROUP BY a", "has the name of the group-by column 'a'"),
    (f"SELECT ^sum(x) AS window_end {T}", "of every result"),
    (f"SELECT sum(x), ^window.start AS s {T}", "window_start cannot be renamed to 's'"),
    (f"SELECT ^sum(x) AS 'total' {T}", "AS takes a name"),
]

WINDOWS = [
    ("^SELECT sum(x) FROM t", "the query has no window"),
    (f"SELECT sum(x) {T} GROUP BY ^window(ts, '1 s')", "a second window"),
    (f"SELECT sum(x) {T}^[RANGE '2 s']", "a second window"),
    ("SELECT sum(x) FROM ^[RANGE '1 s'] t", "a window without a stream"),
    ("SELECT sum(x) FROM t [ROWS ^'5 min' SLIDE 10]", "rows: '5 min' is not a number of rows"),
    ("SELECT sum(x) FROM t [ROWS 100 SLIDE ^1.5]", "slide: '1.5' is not a number of rows"),
    ("SELECT sum(x) FROM t ^[ROWS 0]", "the window's range must be positive, not 0 rows"),
    ("SELECT sum(x) FROM t ^[ROWS 10 SLIDE -1]", "the window's slide must be positive, not -1 rows"),
    ("SELECT sum(x) FROM t ^[ROWS]", "ROWS without a number"),
    ("SELECT sum(x) FROM t ^[ROWS 3000000 SLIDE 1]", "each row would be in 3,000,000 windows"),
    ("SELECT sum(x) FROM t [^PARTITION BY k ROWS 10]", "a window has no PARTITION BY"),
    ("SELECT sum(x) FROM t [^UNBOUNDED]", "a window begins with RANGE or ROWS, not with 'UNBOUNDED'"),
    ("SELECT sum(x) FROM t [^5 min]", "a window begins with RANGE or ROWS, not with '5'"),
    ("SELECT sum(x) FROM t ^[]", "a window without RANGE"),
    ("SELECT sum(x) FROM t ^[SLIDE '1 s']", "a window without RANGE"),
    ("SELECT sum(x) FROM t ^[RANGE SLIDE '1 s']", "RANGE without a duration"),
    ("SELECT sum(x) FROM t [RANGE '1 s' ^RANGE '1 s']", "a second RANGE"),
    ("SELECT sum(x) FROM t [RANGE ^'1 month']", "range: '1 month' uses months"),
    ("SELECT sum(x) FROM t [RANGE '1 s' SLIDE ^'-1 s']", "slide: a negative duration"),
    ("SELECT sum(x) FROM t [RANGE ^5 SLIDE '1 s']", "range: '5' has a number without a unit"),
    ("SELECT sum(x) FROM t ^[RANGE '0 s']", "the window's range must be positive"),
    ("SELECT sum(x) FROM t ^[RANGE '1 s' SLIDE '0 s']", "the window's slide must be positive"),
    ("SELECT sum(x) FROM t ^[RANGE '20000 weeks']", "the window's range is longer than"),
    ("SELECT sum(x) FROM t ^[RANGE '1 week' SLIDE '1 us']", "windows (range / slide)"),
    ("SELECT sum(x) FROM t GROUP BY ^window(ts)", "window() takes a time column"),
    ("SELECT sum(x) FROM t GROUP BY ^window()", "window() takes a time column"),
    ("SELECT sum(x) FROM t GROUP BY ^window(ts + 1, '1 s')", "window() takes a time column"),
    ("SELECT sum(x) FROM t GROUP BY ^window(ts, '1 s', '1 s', '1 s', '1 s')", "window() takes a time column"),
    ("SELECT sum(x) FROM t GROUP BY window(ts, ^5)", "range: not a duration"),
    ("SELECT sum(x) FROM t GROUP BY window(ts, '1 s', ^a)", "slide: not a duration"),
    ("SELECT sum(x) FROM t GROUP BY window(ts, ^'5 mintes')", "unknown unit 'mintes'"),
    ("SELECT sum(x) FROM t GROUP BY window(ts, ^INTERVAL '1:30' HOUR TO MINUTE)", "without a unit"),
    ("SELECT sum(x) FROM t GROUP BY ^window(ts, '0 s')", "the window's range must be positive"),
    ("SELECT sum(x) FROM t GROUP BY window(^u.ts, '1 s')", "unknown table 'u'"),
    (f"SELECT sum(x) FROM TABLE(^{HOP})", "does not group by window_start and window_end"),
    (f"SELECT sum(x) FROM TABLE(^{HOP}) GROUP BY window_start", "does not group by window_end"),
    (f"SELECT sum(x) FROM TABLE({HOP} ^x) {BY_WINDOW}", "unexpected 'x'"),
    (f"SELECT sum(x) FROM TABLE(^CUMULATE(TABLE t)) {BY_WINDOW}", "CUMULATE windows are not supported"),
    (f"SELECT sum(x) FROM ^SESSION(TABLE t) {BY_WINDOW}", "SESSION windows are not supported"),
    (
        f"SELECT sum(x) FROM ^HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE) {BY_WINDOW}",
        "HOP without its SIZE",
    ),
    (f"SELECT sum(x) FROM ^TUMBLE() {BY_WINDOW}", "TUMBLE without its DATA"),
    (f"SELECT sum(x) FROM ^TUMBLE((SELECT 1), DESCRIPTOR(ts), '1 s') {BY_WINDOW}", "TUMBLE needs a table"),
    (f"SELECT sum(x) FROM TUMBLE(TABLE t, ^ts, INTERVAL '1' DAY) {BY_WINDOW}", "TUMBLE needs DESCRIPTOR"),
    (f"SELECT sum(x) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), ^INTERVAL '1' MONTH) {BY_WINDOW}", "uses months"),
    (
        f"SELECT sum(x) FROM TUMBLE(TABLE t, DESCRIPTOR(ts), '1 s', '0 s', ^'1 s') {BY_WINDOW}",
        "too many arguments",
    ),
    (
        f"SELECT sum(x) FROM TUMBLE(DATA => TABLE t, ^SIZES => '1 s') {BY_WINDOW}",
        "TUMBLE has no argument SIZES",
    ),
]

EXPRESSIONS = [
    (f"SELECT ^summ(x) {T}", "function 'summ' is not supported"),
    (f"SELECT sum(^foo(x)) {T}", "function 'foo' is not supported"),
    (f"SELECT sum(x) {T} WHERE ^now() > a", "function 'now' is not supported"),
    (f"SELECT sum(x) {T} WHERE ^current_date > a", "the current date is not supported"),
    (f"SELECT sum(^sum(x)) {T}", "an aggregate is not allowed in the arguments of sum"),
    (f"SELECT sum(x) {T} WHERE ^sum(x) > 1", "an aggregate is not allowed in WHERE"),
    (f"SELECT sum(x) FILTER (WHERE ^max(y) > 1) {T}", "an aggregate is not allowed in FILTER"),
    (f"SELECT ^abs(x) FILTER (WHERE a) {T}", "FILTER and IGNORE NULLS are for aggregates only"),
    (f"SELECT ^count(DISTINCT x) {T}", "count(DISTINCT ...) is not supported"),
    (f"SELECT ^sum(x) OVER (PARTITION BY y) {T}", "a window function (OVER) is not supported"),
    (f"SELECT ^first(x) RESPECT NULLS {T}", "RESPECT NULLS is not supported"),
    (f"SELECT ^sum(x, y) {T}", "sum takes 1 argument, not 2"),
    (f"SELECT ^max_by(x) {T}", "max_by takes 2 arguments, not 1"),
    (f"SELECT ^count() {T}", "count takes 1 argument, not 0"),
    (f"SELECT sum(^abs(x, y)) {T}", "abs takes 1 argument, not 2"),
    (f"SELECT sum(^substring(x)) {T}", "substring takes 2 to 3 arguments, not 1"),
    (f"SELECT sum(^coalesce()) {T}", "coalesce takes 1 or more arguments, not 0"),
    (f"SELECT sum(^a AS b) {T}", "'alias' here is not supported"),
    (f"SELECT sum(x) {T} WHERE x IN (SELECT ^1)", "a subquery is not supported"),
    (f"SELECT sum(x) {T} WHERE ^EXISTS (SELECT 1)", "a subquery is not supported"),
    (f"SELECT sum(x) {T} WHERE ^(SELECT 1) = 1", "a subquery is not supported"),
    (f"SELECT sum(x) {T} WHERE ^x IN ()", "IN without values"),
    (f"SELECT sum(x) {T} WHERE ^x IN y", "FIELD is not supported here"),
    (f"SELECT sum(x) {T} WHERE ^(a, b) = (1, 2)", "a list of values is not supported"),
    (f"SELECT sum(x) {T} WHERE ^a[0] = 1", "[...] is not supported"),
    (f"SELECT sum(x) {T} WHERE ^u.a = 1", "unknown table 'u'"),
    (f"SELECT sum(x) {T} AS v WHERE ^t.a = 1", "unknown table 't'"),
    (f"SELECT sum(x) {T} WHERE a > b - ^INTERVAL 5 MINUTES", "an interval is not supported"),
    (f"SELECT sum(x) {T} WHERE a LIKE ^b", "LIKE takes a pattern in quotes"),
    (f"SELECT sum(x) {T} WHERE a LIKE 'b' ESCAPE ^'//'", "ESCAPE takes one character"),
    (f"SELECT sum(x) {T} WHERE ^a ILIKE 'b'", "ILIKE is not supported"),
    (f"SELECT sum(x) {T} WHERE ^a RLIKE 'b'", "a regular expression is not supported"),
    (f"SELECT sum(x) {T} WHERE a IS ^b", "IS takes NULL, TRUE or FALSE"),
    (f"SELECT sum(x) {T} WHERE a BETWEEN 1 ^2", "AND is missing"),
    (f"SELECT sum(x) {T} WHERE CASE WHEN a ^b END", "THEN is missing"),
    (f"SELECT sum(x) {T} WHERE ^a BETWEEN SYMMETRIC 2 AND 1", "SYMMETRIC is not supported here"),
    (f"SELECT sum(x) {T} WHERE a = ^b IN (1)", "this part needs parentheses"),
    (f"SELECT sum(x) {T} WHERE ^a IS NULL = b", "this part needs parentheses"),
    (f"SELECT sum(x) {T} WHERE ^a < b = c", "this part needs parentheses"),
    (f"SELECT sum(x) {T} WHERE a <> ^b >= c", "this part needs parentheses"),
    (f"SELECT sum(x) {T} WHERE a || ^b + c = d", "this part needs parentheses"),
    (f"SELECT sum(x) {T} WHERE ^a BETWEEN 1 AND b IN (1)", "this part needs parentheses"),
    (f"SELECT sum(^a & b) {T}", "'bitwiseand' here is not supported"),
    (f"SELECT sum(^CAST(a AS INT)) {T}", "a cast to INT is not supported"),
    (f"SELECT sum(^a::float) {T}", "a cast to FLOAT is not supported"),
    (f"SELECT sum(^CAST(a AS DECIMAL(10, 2))) {T}", "a cast to DECIMAL(10, 2) is not supported"),
    (f"SELECT sum(^CAST(a AS ARRAY<INT>)) {T}", "a cast to ARRAY<INT> is not supported"),
    (f"SELECT sum(^TRY_CAST(a AS BIGINT)) {T}", "TRY_CAST is not supported"),
    (f"SELECT sum(^EXTRACT(SECOND FROM a)) {T}", "EXTRACT of second is not supported"),
    (f"SELECT sum(^a AT TIME ZONE 'UTC') {T}", "'attimezone' here is not supported"),
    (f"SELECT sum(x) {T} WHERE a = ^9223372036854775808", "the integer does not fit 64 bits"),
    (f"SELECT sum(x) {T} WHERE a = ^-9223372036854775809", "the integer does not fit 64 bits"),
    (f"SELECT sum(x) {T} WHERE a = ^{'9' * 5000}", "a number of 5,000 digits"),
    (f"SELECT sum(x) {T} WHERE a = ^1e999", "the number is too large"),
    (f"SELECT sum(x) {T} WHERE a = ^x'1F'", "'hexstring' here is not supported"),
    (f"SELECT sum(x) {T} WHERE a = ^-'b'", "a minus sign before a string"),
    (f"SELECT sum(x) {T} WHERE a = ^DATE '2024-02-30'", "'2024-02-30' is not a date"),
    (f"SELECT sum(x) {T} WHERE a = ^TIMESTAMP '2024-01-01 25:00:00'", "is not a timestamp"),
    (f"SELECT sum({'+'.join(['^x'] + ['x'] * 500)}) AS n {T}", "the expression is nested too deeply"),
    (f"SELECT sum({'(' * 99}^({'(' * 400}x{')' * 500}) {T}", "nested too deeply, more than 100 levels"),
]

HOSTILE = [
    (f"SELECT sum(^reflect('java.lang.Runtime', 'getRuntime')) {T}", "function 'reflect' is not supported"),
    (f"SELECT ^java_method('java.lang.System', 'exit', 1) {T}", "function 'java_method' is not supported"),
    (f"SELECT sum(x) {T} WHERE ^`reflect`('a', 'b')", "function 'reflect' is not supported"),
    (f"SELECT sum(x) {T} WHERE ^`+`(a, b)", "function '+' is not supported"),
    (
        f"SELECT sum(x) {T} WHERE ^try_reflect('a', 'b') /* sum(x) */",
        "function 'try_reflect' is not supported",
    ),
    (f"SELECT sum(x) {T} WHERE ^reflect/**/('a')", "function 'reflect' is not supported"),
    (f"SELECT sum(x) {T} WHERE 1 = 1; ^DROP TABLE t", "DROP is not supported"),
    (f"SELECT sum(x) {T} WHERE a = '' OR ^reflect('x') OR 1 = 1 --", "function 'reflect' is not supported"),
    (f"SELECT TRANSFORM(x) ^USING 'rm' {T}", "unexpected 'USING'"),
    (f"SELECT ^read_files('/etc/passwd') {T}", "function 'read_files' is not supported"),
    (f"SELECT sum(x) {T} WHERE ^like(a, b)", "function 'like' is not supported"),
    (f"SELECT sum(x) {T} WHERE ^count_star()", "function 'count_star' is not supported"),
    (f"SELECT sum(x) {T} START WITH a ^CONNECT BY PRIOR b", "CONNECT BY is not supported"),
]


@pytest.mark.parametrize(("marked", "message"), [*TEXT, *CLAUSES, *WINDOWS, *EXPRESSIONS, *HOSTILE])
def test_errors(marked: str, message: str) -> None:
    assert message in caught(marked).message


@pytest.mark.parametrize(("marked", "message"), [*CLAUSES, *WINDOWS, *EXPRESSIONS, *HOSTILE])
def test_positions_are_in_the_whole_file(marked: str, message: str) -> None:
    error = caught(f"-- name: fine\r\nSELECT count(*) {T};\n\n-- name: wrong\n  {marked}")
    if "DROP" not in message:
        assert error.query == "wrong"


@pytest.mark.parametrize(
    ("marked", "hint"),
    [
        (f"SELECT ^summ(x) {T}", "did you mean 'sum'?"),
        (f"SELECT sum(^lenght(x)) {T}", "did you mean 'length'?"),
        (f"SELECT sum(^foo(x)) {T}", "only functions of the documented list"),
        (f"SELECT ^Sym, sum(x) {T} GROUP BY sym", "did you mean 'sym'?"),
        (f"SELECT sum(x) {T} WHERE ^u.a = 1", "write 't'"),
        ("^SELECT sum(x) FROM t", "GROUP BY window(ts, '12 minutes', '5 minutes')"),
        ("SELECT sum(x) FROM t GROUP BY ^session_window(ts, '5 min')", "use window(ts, range, slide)"),
        ("SELECT sum(x) FROM t GROUP BY ^HOP(ts, INTERVAL '5' MINUTE)", "FROM TABLE(HOP("),
        (f"SELECT sum(x), ^window(ts, '1 s') {T}", "belongs in GROUP BY"),
        (f"SELECT sum(^CAST(a AS INT)) {T}", "cast to BIGINT"),
        (f'SELECT sum(^"x") {T}', "write 'x' for a string or `x` for a name"),
        (f"SELECT sum(x) FROM TUMBLE(DATA => TABLE t, ^SIZES => '1 s') {BY_WINDOW}", "did you mean SIZE?"),
    ],
)
def test_hints(marked: str, hint: str) -> None:
    assert hint in (caught(marked).hint or "")


@pytest.mark.parametrize(
    ("marked", "message"),
    [
        (f"-- name: ^a b\nSELECT sum(x) {T}", "'a b' is not a query name"),
        (f"-- name: ^1a\nSELECT sum(x) {T}", "'1a' is not a query name"),
        (f"-- name: ^../a\nSELECT sum(x) {T}", "'../a' is not a query name"),
        (f"-- name:^\nSELECT sum(x) {T}", "'' is not a query name"),
        (f"-- name: a\n-- name: ^b\nSELECT sum(x) {T}", "a second name, 'b', for the query 'a'"),
        (f"SELECT sum(x) {T};\n-- name: ^b", "no query follows the name 'b'"),
        (f"SELECT sum(x)\n-- name: ^b\n{T}", "the name 'b' is inside a statement"),
        (
            f"-- name: a\nSELECT sum(x) {T};\n-- name: ^a\nSELECT sum(y) {T}",
            "two queries are named 'a', on line 1 and on line 3",
        ),
    ],
)
def test_names(marked: str, message: str) -> None:
    assert message in caught(marked).message


@pytest.mark.parametrize("text", ["", "  \n", ";", "-- only a comment", "/* and\nanother */ ;;"])
def test_no_query(text: str) -> None:
    with pytest.raises(weft.QueryError, match="no query in the text"):
        weft.sql(text)


def test_the_error_names_the_query() -> None:
    with pytest.raises(weft.QueryError) as found:
        weft.sql(f"SELECT sum(x) {T};\nSELECT foo(x) {T}")
    expected = "query 'q2', line 2, column 8: function 'foo' is not supported; only functions"
    assert str(found.value).startswith(expected)


def test_a_failed_statement_leaves_no_trace() -> None:
    for marked, _ in HOSTILE:
        caught(marked)
    (query,) = weft.sql(f"SELECT sum(prior) AS a {T} WHERE prior > 1")
    assert str(query.predicate) == "(prior > 1)"


def test_comments_give_the_parser_no_orders() -> None:
    plain = weft.sql(f"SELECT sum(x) AS a {T}")
    assert weft.sql(f"SELECT sum(x /* sqlglot.meta start=no */) AS a {T} /* sqlglot.anonymous */") == plain
