"""In one process, state of many groups goes on in more buckets: nobody can tell by the results."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.local import running as local

START = datetime.datetime(2024, 1, 1)
SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.string(), "j": pa.float64(), "x": pa.int64()})
QUERIES = """
  SELECT k, sum(x) AS s, max(k) AS m FROM t [RANGE '12 s' SLIDE '5 s'] GROUP BY k;
  SELECT k, j, count(*) AS n FROM t [RANGE '7 s' SLIDE '3 s'] WHERE x > 2 GROUP BY k, j;
  SELECT avg(x) AS a FROM t [RANGE '9 s' SLIDE '4 s'];
  SELECT k, sum(x) AS s FROM t [ROWS 3 SLIDE 2] GROUP BY k
"""

rows = st.tuples(
    st.integers(0, 60),
    st.sampled_from([None, "a", "b", "c", "d"]),
    st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]),
    st.integers(0, 9) | st.none(),
)


def answered(batches, most_cells):
    """All results, sorted, and in how many buckets the state ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "MAX_CELLS_PER_BUCKET", most_cells)
        run = local.LocalRun(weft.sql(QUERIES), SCHEMA, "ts", "10 s", threads=2)
        steps = [*(run.step(batch) for batch in batches), run.close()]
        run.shutdown()
    rows = [(name, row) for step in steps for name, table in step.items() for row in table.to_pylist()]
    # Which of the zeros stands for their group depends on what this thread saw first.
    found = [(name, repr(row).replace("-0.0", "0.0")) for name, row in rows]
    return sorted(found), sorted(state.bucket for states in run.states.values() for state in states)


def table(some):
    times = [START + datetime.timedelta(seconds=t) for t, *_ in some]
    return pa.table([times, *([row[n] for row in some] for n in (1, 2, 3))], schema=SCHEMA)


@pytest.mark.slow
@given(st.lists(st.lists(rows, max_size=12), min_size=1, max_size=5))
def test_more_buckets_give_the_same_results(batches):
    tables = [table(some) for some in batches]
    few, two = answered(tables, most_cells=1 << 30)
    many, _ = answered(tables, most_cells=1)
    assert (many, two) == (few, [0, 1])


def test_buckets_double_as_cells_come():
    batches = [table([(second, "abcd"[second % 4], 1.5, 1)]) for second in range(12)]
    _, buckets = answered(batches, most_cells=2)
    assert len(buckets) > 2
    assert buckets == list(range(len(buckets)))
