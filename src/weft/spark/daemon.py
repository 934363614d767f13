"""Spark's daemon of Python workers, with weft in it: workers are forked with all that they need imported.

A worker whose socket the JVM has closed, because it was idle or the session ended, ends without a word: over
Unix sockets Spark's own daemon prints a traceback for it. Spark runs this module by its name
(``spark.python.daemon.module``).
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon

import weft.spark.step_tasks  # noqa: F401


def print_exc() -> None:
    """Print the exception that is being handled, unless nobody is there to hear of it."""
    if not isinstance(sys.exc_info()[1], BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    vars(daemon)["traceback"] = SimpleNamespace(print_exc=print_exc, format_exc=traceback.format_exc)
    daemon.manager()
