"""weft: hundreds of sliding-window queries over one stream for little more than the price of one.

>>> import weft
>>> [q.name for q in weft.sql("SELECT count(*) AS n FROM trades [RANGE '5 min']")]
['q1']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.builder import QueryBuilder, query
from weft.define import UserAggregate, define_aggregate
from weft.engine.changes import Change
from weft.errors import AggregateError, AnswerOverflow, CheckpointError, JobError, QueryError, WeftError
from weft.join_builder import JoinBuilder, join
from weft.join_run import JoinRun
from weft.local import LocalRun
from weft.optimize import plan
from weft.plan import Plan, Tree
from weft.query import Aggregate, JoinQuery, Query, Window
from weft.sample import sharing
from weft.sql import sql
from weft.streams import run

if TYPE_CHECKING:
    from weft.files import Files
    from weft.generated import Generated
    from weft.kafka import Kafka
    from weft.spark.batch import share
    from weft.spark.session import session
    from weft.spark.stream import stream

__version__ = "0.1.0"

_SOURCES = {"Files": "weft.files", "Generated": "weft.generated", "Kafka": "weft.kafka"}
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
    "JoinRun",
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
