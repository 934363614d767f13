"""One checked expression tree: Arrow kernels for it here, Spark columns in ``weft.spark.column``."""

from weft.expr.check import check, check_predicate, output_type, result_type
from weft.expr.evaluate import Evaluator
from weft.expr.functions import ALIASES, FUNCTIONS, Function
from weft.expr.types import SQL_TYPES, UTC, arrow_type, read_zone, sql_type

__all__ = [
    "ALIASES",
    "FUNCTIONS",
    "SQL_TYPES",
    "UTC",
    "Evaluator",
    "Function",
    "arrow_type",
    "check",
    "check_predicate",
    "output_type",
    "read_zone",
    "result_type",
    "sql_type",
]
