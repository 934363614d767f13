"""weft: hundreds of sliding-window queries over one stream for little more than the price of one.

>>> import weft
>>> [q.name for q in weft.sql("SELECT count(*) AS n FROM trades [RANGE '5 min']")]
['q1']
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import AggregateError, AnswerOverflow, CheckpointError, JobError, QueryError, WeftError
from weft.io.sources import generate
from weft.local.run_queries import run
from weft.local.running import LocalRun
from weft.local.sample import sharing
from weft.model.join import JoinQuery
from weft.model.query import Aggregate, Query
from weft.model.window import Window
from weft.planning.plan import Plan
from weft.planning.planner import plan
from weft.planning.tree import Tree
from weft.runner.changes import Change
from weft.sql import sql
from weft.sql.builder import QueryBuilder, query
from weft.sql.define import UserAggregate, define_aggregate
from weft.sql.join_builder import JoinBuilder, join

if TYPE_CHECKING:
    from weft.io.files import Files
    from weft.io.kafka import Kafka
    from weft.io.sources.generated import Generated
    from weft.spark.batch import share
    from weft.spark.session import session
    from weft.spark.stream import stream

__version__ = "0.1.0"

# The row makers stand in weft.testing; programs that import them by their former path go on.
sys.modules[f"{__name__}.generate"] = generate

_SOURCES = {"Files": "weft.io.files", "Generated": "weft.io.sources.generated", "Kafka": "weft.io.kafka"}
_ON_SPARK = ("session", "share", "stream")


def __getattr__(name: str) -> Any:
    """Spark, and what sources need, is imported only when something of it is asked for."""
    if name in _SOURCES:
        return getattr(import_module(_SOURCES[name]), name)
    if name in _ON_SPARK:
        import weft.spark

        return getattr(weft.spark, name)
    raise AttributeError(f"module 'weft' has no attribute {name!r}")


__all__ = [
    "Aggregate",
    "AggregateError",
    "AnswerOverflow",
    "Change",
    "CheckpointError",
    "Files",
    "Generated",
    "JobError",
    "JoinBuilder",
    "JoinQuery",
    "Kafka",
    "LocalRun",
    "Plan",
    "Query",
    "QueryBuilder",
    "QueryError",
    "Tree",
    "UserAggregate",
    "WeftError",
    "Window",
    "define_aggregate",
    "join",
    "plan",
    "query",
    "run",
    "session",
    "share",
    "sharing",
    "sql",
    "stream",
]
