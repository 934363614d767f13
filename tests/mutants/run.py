"""Shows that the stories find what they are there to find: every seeded bug, from every seed.

Each patch of this folder is applied to a copy of the tree, and stories are told (``python -m stories``) from
each seed until one fails. A bug that some seed does not find in time is an error, as is a patch that no
longer applies. Then the tree as it is must pass as many cases from every seed. Seconds are those of one
core's work, so that what else the machine does is not counted.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOUND = re.compile(r"found: case (\S+) after (\d+) cases, ([\d.]+) s of work\nstep \d+:\n *(.*)")


@dataclass(frozen=True)
class Hit:
    """A case that failed: how many were told until then, and the seconds of work; and what it said."""

    case: str
    cases: int
    seconds: float
    said: str


def main() -> int:
    """Try every mutant; the exit code is 0 where all were found, and nothing else."""
    options = _options()
    patches = sorted(HERE.glob("*.patch"))
    if options.only:
        patches = [p for p in patches if p.stem in options.only]
    missed, most = [], dict.fromkeys(options.seeds, options.least)
    print(f"{'bug':<28} {'found':>6} {'cases':>24} {'seconds of work':>24}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        tried = pool.map(lambda patch: _try(patch, options.seeds, options.seconds), patches)
        for patch, hits in zip(patches, tried):
            print(_line(patch.stem, hits, options.seeds), flush=True)
            if options.show:
                print("\n".join(f"    {hit.case}: {hit.said[:150]}" for hit in hits.values()), flush=True)
            for seed, hit in hits.items():
                most[seed] = max(most[seed], hit.cases)
            if len(hits) < len(options.seeds):
                missed.append(patch.stem)
        failed = not all(list(pool.map(_passes, most.items())))
    for name in missed:
        print(f"not found from every seed within {options.seconds:.0f} s of work: {name}")
    return int(bool(missed or failed))


def _try(patch: Path, seeds: list[str], seconds: float) -> dict[str, Hit]:
    """What stories find of a bug, by the seeds that find it."""
    with tempfile.TemporaryDirectory(prefix="weft-mutant-") as folder:
        _copy(Path(folder))
        _apply(patch, Path(folder))
        said = _stories(Path(folder), seeds, ["--stop", "--seconds", str(seconds), "--cases", "1000000"])
    found = [
        Hit(case, int(cases), float(work), text) for case, cases, work, text in FOUND.findall(said.stdout)
    ]
    if said.returncode and not found:
        sys.exit(f"{patch.name}: the stories could not be told:\n{said.stdout}{said.stderr}")
    return {hit.case.split(":")[0]: hit for hit in found}


def _passes(asked: tuple[str, int]) -> bool:
    """Whether the tree as it is passes so many cases of a seed."""
    seed, cases = asked
    said = _stories(ROOT, [seed], ["--cases", str(cases), "--failures", "1"])
    print(f"as it is, seed {seed}: {said.stdout.strip() or said.stderr}", flush=True)
    return not said.returncode


def _copy(folder: Path) -> None:
    """The sources, the tests and the compiled kernels; their cache reads the times of files, which stay."""
    unneeded = shutil.ignore_patterns("*.pyc", ".hypothesis")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=unneeded)


def _apply(patch: Path, folder: Path) -> None:
    command = ["patch", "-p1", "--forward", "--no-backup-if-mismatch", "--input", str(patch)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"{patch.name} no longer applies: change it as the code has changed\n{done.stdout}{done.stderr}"
        )


def _stories(folder: Path, seeds: list[str], options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stories", "--seed", *seeds, *options]
    paths = os.pathsep.join(str(folder / name) for name in ("src", "tests"))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    return subprocess.run(command, cwd=folder / "tests", env=environment, capture_output=True, text=True)


def _line(name: str, hits: dict[str, Hit], seeds: list[str]) -> str:
    cases = " ".join(str(hits[seed].cases) if seed in hits else "-" for seed in seeds)
    seconds = " ".join(f"{hits[seed].seconds:.0f}" if seed in hits else "-" for seed in seeds)
    return f"{name:<28} {len(hits):>2} of {len(seeds)} {cases:>24} {seconds:>24}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--seeds", nargs="+", default=["1", "2", "3", "4", "5"], help="1 to 5")
    parser.add_argument("--seconds", type=float, default=120.0, help="of work for each seed (120)")
    parser.add_argument("--only", nargs="+", help="the names of some bugs")
    parser.add_argument("--least", type=int, default=200, help="cases that the tree as it is must pass (200)")
    parser.add_argument("--jobs", type=int, default=1, help="bugs tried at a time (1)")
    parser.add_argument("--show", action="store_true", help="show what failed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
