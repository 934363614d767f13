"""Which sensors, in different places, read nearly the same temperature at nearly the same time?

    python examples/iot_join/run.py [ROWS]

Two streams of readings are joined on a band, ``abs(a - b) <= 0.2``, which has no equality in it; three joins
with other ranges and thresholds, and a count per place, share one state.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.compute as pc

import weft

QUERIES = """
-- name: alike
SELECT i.sensor_id AS inside_id, o.sensor_id AS outside_id, i.temperature AS inside, o.temperature AS outside
FROM indoor i [RANGE '1 min'], outdoor o [RANGE '1 min']
WHERE abs(i.temperature - o.temperature) <= 0.2;

-- name: alike_warm
SELECT i.sensor_id AS inside_id, o.sensor_id AS outside_id, o.temperature AS outside
FROM indoor i [RANGE '30 s'], outdoor o [RANGE '30 s']
WHERE abs(i.temperature - o.temperature) <= 0.2 AND o.temperature > 13;

-- name: pairs_per_place
SELECT o.location, count(*) AS pairs
FROM indoor i [RANGE '1 min'], outdoor o [RANGE '1 min']
WHERE abs(i.temperature - o.temperature) <= 0.2
GROUP BY o.location, window('5 min', '5 min')
"""


def main(rows: int) -> dict[str, pa.Table]:
    """Join so many readings; the answers by query."""
    readings = pa.concat_tables([c.table for c in weft.Generated("sensors", rows=rows, rate=5.0, keys=12)])
    inside = pc.is_in(readings.column("location"), pa.array(["cellar", "hall"]))
    streams = {"indoor": readings.filter(inside), "outdoor": readings.filter(pc.invert(inside))}
    return weft.run(weft.sql(QUERIES), streams, time="ts")


if __name__ == "__main__":
    answers = main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
    for name, table in answers.items():
        print(f"{name}: {table.num_rows:,} results, the first of them")
        print(table.slice(0, 3).to_pandas().to_string(index=False), end="\n\n")
