"""The three spellings of a window, and that they agree with each other and with the builder."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import weft
from weft.model.bounds import MAX_WINDOWS_PER_ROW
from weft.model.window import Window

SECOND, MINUTE = 10**6, 60 * 10**6


def window(text: str) -> Window:
    (query,) = weft.sql(text)
    return query.window


# CQL, r = 12, s = 5: windows end at multiples of the slide.
#
#   |----|----|----|----|----|      multiples of 5
#   0    5    10   15   20   25
#      [-----------)                [ 3, 15)
#           [-----------)           [ 8, 20)
@pytest.mark.parametrize(
    ("bracket", "expected"),
    [
        ("[RANGE '12 min' SLIDE '5 min']", Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE)),
        ("[RANGE 12 MINUTES SLIDE 5 MINUTES]", Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE)),
        ("[range 12 minutes slide 5 minutes]", Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE)),
        (
            "[RANGE INTERVAL '12' MINUTE SLIDE INTERVAL 5 MINUTES]",
            Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE),
        ),
        ("[RANGE 90s SLIDE 60s]", Window(90 * SECOND, 60 * SECOND, 30 * SECOND)),
        ("[RANGE '12 min']", Window(12 * MINUTE, 12 * MINUTE)),
        ("[ROWS 12 SLIDE 5]", Window(12, 5, 3, rows=True)),
        ("[rows 12 slide '1']", Window(12, 1, 0, rows=True)),
        ("[ROWS 12 SLIDE 5 OFFSET -1]", Window(12, 5, 2, rows=True)),
        ("[ROWS 12]", Window(12, 12, rows=True)),
        ("[RANGE '12 min' SLIDE '12 min']", Window(12 * MINUTE, 12 * MINUTE)),
        ("[RANGE '5 min' SLIDE '12 min']", Window(5 * MINUTE, 12 * MINUTE, 7 * MINUTE)),
        ("[RANGE '12 min' SLIDE '5 min' OFFSET '1 min']", Window(12 * MINUTE, 5 * MINUTE, 4 * MINUTE)),
        ("[RANGE '12 min' SLIDE '5 min' OFFSET '-1 min']", Window(12 * MINUTE, 5 * MINUTE, 2 * MINUTE)),
        ("[SLIDE '5 min' RANGE '12 min']", Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE)),
        ("[RANGE '1 us']", Window(1, 1)),
        ("[RANGE '3 weeks' SLIDE '2500 ms']", Window(3 * 7 * 86_400 * SECOND, 2_500_000)),
        (
            "[ RANGE /* as long */ '12 min' -- as this\n SLIDE '5 min' ]",
            Window(12 * MINUTE, 5 * MINUTE, 3 * MINUTE),
        ),
    ],
)
def test_cql(bracket: str, expected: Window) -> None:
    assert window(f"SELECT count(*) FROM trades {bracket} WHERE price > 0") == expected


def test_cql_ends_at_multiples_of_the_slide_plus_the_offset() -> None:
    found = window("SELECT count(*) FROM trades [RANGE '7 s' SLIDE '3 s' OFFSET '1 s']")
    assert (found.offset + found.range - SECOND) % found.slide == 0


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("window(ts, '12 minutes', '5 minutes')", Window(12 * MINUTE, 5 * MINUTE)),
        ("window(ts, '12 minutes')", Window(12 * MINUTE, 12 * MINUTE)),
        ("window(ts, '12 minutes', '5 minutes', '1 minute')", Window(12 * MINUTE, 5 * MINUTE, MINUTE)),
        ("window(ts, '12 minutes', '5 minutes', '-1 minute')", Window(12 * MINUTE, 5 * MINUTE, 4 * MINUTE)),
        ("WINDOW(t.ts, INTERVAL 12 MINUTES, INTERVAL '5' MINUTE)", Window(12 * MINUTE, 5 * MINUTE)),
        ("window(`ts`, INTERVAL '12 minutes')", Window(12 * MINUTE, 12 * MINUTE)),
        ("window(ts, '5 minutes', '12 minutes')", Window(5 * MINUTE, 12 * MINUTE)),
    ],
)
@pytest.mark.parametrize("group_by", ["{}", "symbol, {}", "{}, symbol"])
def test_spark(call: str, expected: Window, group_by: str) -> None:
    (query,) = weft.sql(f"SELECT count(*) FROM trades t GROUP BY {group_by.format(call)}")
    assert (query.window, query.time) == (expected, "ts")
    assert query.group_by == (("symbol",) if "symbol" in group_by else ())


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            "TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '12' MINUTE))",
            Window(12 * MINUTE, 5 * MINUTE),
        ),
        (
            "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL 5 MINUTE, INTERVAL 12 MINUTE, INTERVAL 1 MINUTE)",
            Window(12 * MINUTE, 5 * MINUTE, MINUTE),
        ),
        (
            "table(hop(DATA => TABLE trades, TIMECOL => DESCRIPTOR(ts),"
            " SIZE => INTERVAL '12' MINUTES, SLIDE => INTERVAL '5' MINUTES))",
            Window(12 * MINUTE, 5 * MINUTE),
        ),
        (
            "TABLE(TUMBLE(TABLE trades, DESCRIPTOR(`ts`), INTERVAL '1' DAY))",
            Window(86_400 * SECOND, 86_400 * SECOND),
        ),
        (
            "TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '-1' MINUTE))",
            Window(5 * MINUTE, 5 * MINUTE, 4 * MINUTE),
        ),
    ],
)
def test_flink(table: str, expected: Window) -> None:
    (query,) = weft.sql(
        f"SELECT window_start, window_end, symbol, count(*) FROM {table} AS t"
        " WHERE t.price > 0 GROUP BY window_start, window_end, t.symbol"
    )
    assert (query.source, query.window, query.time, query.group_by) == ("trades", expected, "ts", ("symbol",))


UNITS = {
    1: ("us", "MICROSECOND"),
    1_000: ("ms", "MILLISECOND"),
    SECOND: ("s", "SECOND"),
    MINUTE: ("min", "MINUTE"),
    60 * MINUTE: ("hours", "HOUR"),
    1440 * MINUTE: ("days", "DAY"),
    7 * 1440 * MINUTE: ("weeks", "WEEK"),
}


@st.composite
def durations(draw: st.DrawFn, smallest: int = 1) -> tuple[int, str, str]:
    """Microseconds, as a text in quotes and as a standard interval."""
    unit = draw(st.sampled_from(list(UNITS)))
    count = draw(st.integers(smallest, 500))
    short, long = UNITS[unit]
    return count * unit, f"'{count} {short}'", f"INTERVAL '{count}' {long}"


@settings(deadline=None)
@given(durations(), durations(), durations(smallest=-500))
def test_the_spellings_agree(
    size: tuple[int, str, str], slide: tuple[int, str, str], offset: tuple[int, str, str]
) -> None:
    assume(size[0] // slide[0] <= MAX_WINDOWS_PER_ROW)
    expected = Window(size[0], slide[0], offset[0])
    spark = window(f"SELECT count(*) FROM t GROUP BY window(ts, {size[1]}, {slide[1]}, {offset[1]})")
    flink = window(
        f"SELECT count(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), {slide[2]}, {size[2]}, {offset[2]}))"
        " GROUP BY window_start, window_end"
    )
    cql = window(f"SELECT count(*) FROM t [RANGE {size[1]} SLIDE {slide[1]} OFFSET {offset[1]}]")
    built = (
        weft.query("q").window(*(d[1].strip("'") for d in (size, slide)), offset=offset[1].strip("'")).frame
    )
    assert spark == flink == built == expected
    assert cql == Window(size[0], slide[0], offset[0] - size[0])
    assert (cql.offset + cql.range) % cql.slide == offset[0] % cql.slide
    assert window(f"SELECT count(*) FROM t [RANGE {size[1]} SLIDE {slide[1]}]") == Window.ending_at_multiples(
        size[0], slide[0]
    )
