"""Write a golden checkpoint and the answers that follow it, with the code at hand.

    python tests/golden/checkpoints/write.py KIND [KIND ...]

writes format-5-KIND for each kind of tests/support/golden_streams.py. Run it only when the format of
checkpoints changes, with another ``FORMAT`` here, and keep the folders of the format before: they are what
code of later versions must still be able to read. Never run it to make a failing test pass.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import weft
from support import golden_streams as golden

FORMAT = 5
BUCKETS = 2
HERE = Path(__file__).parent
ELSEWHERE = "/data"
"""Stands in Spark's log for the folder of the files that were taken."""


def write(name: str, spark: Any) -> Path:
    """Write the checkpoint of a kind and its answers; return their folder."""
    kind, target = golden.KINDS[name], HERE / f"format-{FORMAT}-{name}"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        golden.write_files(kind, place, golden.FILES_BEFORE)
        before = golden.run(kind, place, spark, kind.change, golden.FIRST_STEP, buckets=BUCKETS)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(place / "checkpoint", target / "checkpoint")
        shutil.rmtree(place / "checkpoint")
        remove_paths(target, place)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        shutil.copytree(target / "checkpoint", place / "checkpoint")
        after = golden.go_on(kind, place, spark)
    check(kind, before, after)
    (target / "answers.json").write_text(json.dumps(after.to_dict(), indent=0, ensure_ascii=False) + "\n")
    return target


def remove_paths(target: Path, place: Path) -> None:
    """Name another place in Spark's log and the lists of files, and drop checksums of what has changed."""
    for path in sorted(target.rglob("*")):
        if path.suffix == ".crc":
            path.unlink()
        elif path.is_file() and path.suffix not in (".parquet", ".arrow"):
            path.write_text(path.read_text().replace(str(place), ELSEWHERE))
    for path in target.rglob("*"):
        if path.is_file() and str(place).encode() in path.read_bytes():
            raise SystemExit(f"{path} names {place}")


def check(kind: golden.Kind, before: golden.Ended, after: golden.Ended) -> None:
    """Compare both runs together with one run in this process over all rows."""
    first, second = golden.texts(before.tables), golden.texts(after.tables)
    for name, rows in golden.answer_lasting(kind).items():
        delivered = Counter(first[name]) + Counter(second[name])
        if delivered != Counter(rows):
            missing, extra = Counter(rows) - delivered, delivered - Counter(rows)
            raise SystemExit(f"{name} is wrong: {len(rows)} rows, missing {missing}, extra {extra}")
        if not first[name] or not second[name]:
            print(f"note: {name} has {len(first[name])} rows before and {len(second[name])} after")


def main() -> None:
    """Write the kinds that are named."""
    names = sys.argv[1:]
    if not names or not set(names) <= set(golden.KINDS):
        raise SystemExit(f"{__doc__}\nkinds: {', '.join(golden.KINDS)}")
    # Plans must not depend on what this machine was measured to cost.
    os.environ["WEFT_COSTS"] = str(HERE / "no-costs.json")
    spark = weft.session("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
    for name in names:
        folder = write(name, spark)
        files = [path for path in folder.rglob("*") if path.is_file()]
        print(f"{folder.name}: {len(files)} files, {sum(p.stat().st_size for p in files):,} bytes")
    spark.stop()


if __name__ == "__main__":
    main()
