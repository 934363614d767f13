"""One checked expression tree: Arrow kernels for it here, Spark columns in ``weft.spark.column``."""
