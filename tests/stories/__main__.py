"""Tells many cases and shows the first that fail, made small: ``python -m stories --cases 1000 --seed 1``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time

from stories.cases import KINDS, explained, make, tell, told


def main() -> int:
    """Tell stories; the number of those that failed is not zero where the exit code is not."""
    options = _options()
    logging.disable(logging.WARNING)  # a table that cannot be used is a case like any other
    # Plans must not depend on what this machine was measured to cost.
    os.environ["WEFT_COSTS"] = os.path.join(os.path.dirname(__file__), "no-costs.json")
    if options.case:
        return _again(options.case, tuple(options.kinds))
    failed = [seed for seed in options.seed if _many(seed, options)]
    return int(bool(failed))


def _many(seed: str, options: argparse.Namespace) -> bool:
    """Tell the stories of a seed; whether any failed."""
    kinds = tuple(options.kinds)
    began, work, failed, done = time.monotonic(), time.process_time(), 0, 0
    for number in range(options.first, options.first + options.cases):
        if time.process_time() - work > options.seconds:
            break
        case = make(f"{seed}:{number}", kinds)
        failure, done = tell(case), done + 1
        if failure is not None:
            failed += 1
            if options.stop:
                print(
                    f"found: case {case.seed} after {done} cases, {time.process_time() - work:.1f} s of work"
                )
                print(f"{failure}\n", flush=True)
                return True
            print(explained(case, failure), flush=True)
            if failed >= options.failures:
                break
        elif done % 500 == 0:
            print(_rate(done, failed, began, work), flush=True)
    print(_rate(done, failed, began, work), flush=True)
    return failed > 0


def _rate(cases: int, failed: int, began: float, before: float) -> str:
    seconds, work = time.monotonic() - began, time.process_time() - before
    a_minute, of_work = (60 * cases / max(spent, 1e-9) for spent in (seconds, work))
    return (
        f"{cases:,} cases, {failed} failed, {seconds:.0f} s "
        f"({a_minute:,.0f} a minute, {of_work:,.0f} a minute of one core's work)"
    )


def _again(case: str, kinds: tuple[str, ...]) -> int:
    made = make(case, kinds)
    failure = tell(made)
    print(f"{told(made)}\ncase {case} is as expected" if failure is None else explained(made, failure))
    return int(failure is not None)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="stories", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many stories (1000)")
    parser.add_argument("--seed", nargs="+", default=["1"], help="where they begin, one after the other (1)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (0)")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end after so much work of one core"
    )
    parser.add_argument("--failures", type=int, default=5, help="end after so many that fail (5)")
    parser.add_argument(
        "--stop", action="store_true", help="end at the first that fails, without making it small"
    )
    parser.add_argument("--case", help="tell one story, such as 1:4711")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="kinds of cases (all)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
