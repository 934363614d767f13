"""A dozen questions about real streams: equipment, smart meters and a cluster, against the oracle."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import weft
from support import oracle
from support.oracle import assert_same
from support.places import ROOT

DATA = ROOT.parent / "shared" / "data"


def lines(name: str, count: int) -> list[list[str]]:
    """The fields of the first lines of a file."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not in {DATA.name}/ beside the checkout")
    with path.open() as file:
        return [line.split() for _, line in zip(range(count), file)]


def equipment() -> pa.Table:
    """DEBS 2012: readings at 100 Hz; times have seven digits, of which the last is dropped."""
    fields = lines("DEBS2012-small.txt", 4_000)
    return pa.table(
        {
            "ts": pa.array([f[0][:26] for f in fields]).cast(pa.timestamp("us")),
            **{name: [int(f[c]) for f in fields] for name, c in (("mf1", 2), ("mf2", 3), ("mf3", 4))},
            **{name: [int(f[c]) for f in fields] for name, c in (("pc13", 5), ("pc14", 6))},
            **{name: [f[c] == "1" for f in fields] for name, c in (("bm05", 33), ("bm08", 44))},
        }
    )


def meters() -> pa.Table:
    """DEBS 2014: loads (W) and works (kWh) of plugs, several a second, ties everywhere."""
    fields = lines("smartgrid-data.txt", 6_000)
    return pa.table(
        {
            "ts": pa.array([int(f[0]) for f in fields], pa.int64()).cast(pa.timestamp("s")),
            "value": [float(f[1]) for f in fields],
            "kind": ["load" if f[2] == "1" else "work" for f in fields],
            **{
                name: [int(f[c]) for f in fields] for name, c in (("plug", 3), ("household", 4), ("house", 5))
            },
        }
    )


def cluster() -> pa.Table:
    """Google cluster: events of tasks; a machine of -1 is none."""
    fields = lines("google-cluster-data.txt", 6_000)
    return pa.table(
        {
            "ts": pa.array([int(f[0]) for f in fields], pa.int64()).cast(pa.timestamp("s", "UTC")),
            "job": [int(f[1]) for f in fields],
            "machine": [int(f[3]) if f[3] != "-1" else None for f in fields],
            **{name: [int(f[c]) for f in fields] for name, c in (("event", 4), ("priority", 7))},
            **{name: [float(f[c]) for f in fields] for name, c in (("cpu", 8), ("memory", 9))},
        }
    )


QUESTIONS = {
    equipment: """
        -- name: energy
        SELECT avg(mf1) AS mean, range(mf1) AS spread, stddev_samp(mf1) AS deviation
        FROM equipment [RANGE '1 s' SLIDE '1 s'];
        -- name: quiet_energy
        SELECT sum(mf1 + mf2 + mf3) AS total, count(*) AS readings
        FROM equipment [RANGE '3 s' SLIDE '700 ms'] WHERE pc13 < 70;
        -- name: by_state
        SELECT bm05, bm08, first(mf2) AS opened, last(mf2) AS closed, max_by(mf3, pc14) AS peak
        FROM equipment GROUP BY bm05, bm08, window(ts, '5 s', '2 s', '300 ms');
        -- name: means
        SELECT geometric_mean(mf1) AS geometric, sum_of_squares(pc13) AS squares, var_pop(pc14) AS variance
        FROM equipment GROUP BY window(ts, '17 s', '5 s')
    """,
    meters: """
        -- name: house_load
        SELECT house, sum(value) AS total, max(value) AS top, count_if(value = 0) AS idle
        FROM meters WHERE kind = 'load' GROUP BY house, window(ts, '5 seconds', '2 seconds');
        -- name: plug_work
        SELECT house, household, plug, last(value) AS work, last(value) - first(value) AS used
        FROM meters WHERE kind = 'work'
        GROUP BY house, household, plug, window(ts, '10 seconds', '5 seconds');
        -- name: busy_houses
        SELECT house, count(*) AS n, avg(value) AS mean FROM meters [RANGE '4 s' SLIDE '4 s']
        GROUP BY house HAVING count(*) > 60;
        -- name: kinds
        SELECT kind, bool_and(value >= 0) AS sane, min_by(house, value) AS least, stddev_pop(value) AS off
        FROM meters GROUP BY kind, window(ts, '7 seconds', '3 seconds', '1 second')
    """,
    cluster: """
        -- name: events
        SELECT event, count(*) AS n, count(machine) AS placed
        FROM cluster GROUP BY event, window(ts, '30 seconds', '10 seconds');
        -- name: requests
        SELECT priority, sum(cpu) AS cpu, avg(memory) AS memory, var_samp(cpu) AS variance
        FROM cluster WHERE event = 0 AND priority BETWEEN 0 AND 8
        GROUP BY priority, window(ts, '1 minute', '25 seconds');
        -- name: failures
        SELECT count(*) AS failed, max(job) AS newest, sum(CASE WHEN machine IS NULL THEN 1 ELSE 0 END) AS off
        FROM cluster [RANGE '45 s' SLIDE '15 s'] WHERE event IN (2, 3, 5, 6);
        -- name: machines
        SELECT machine, count(*) AS n, product(1 + cpu) AS grown
        FROM cluster WHERE machine IS NOT NULL AND event = 1
        GROUP BY machine, window(ts, '90 seconds', '60 seconds')
    """,
}


@pytest.mark.parametrize("stream", QUESTIONS, ids=lambda stream: stream.__name__)
@pytest.mark.parametrize("batch", [1_000_000, 777])
def test_real_streams_are_answered_as_by_the_oracle(stream: Callable[[], pa.Table], batch: int) -> None:
    table, queries = stream(), weft.sql(QUESTIONS[stream])
    batches = [table.slice(i, batch) for i in range(0, table.num_rows, batch)]
    results = weft.run(queries, batches, time="ts", lateness="0 s")
    expected = oracle.answer_stream(queries, [b.to_pylist() for b in batches], "ts", lateness=0).answers
    for query in queries:
        assert expected[query.name], "a question without an answer shows nothing"
        assert_same(query, results[query.name], expected[query.name])
