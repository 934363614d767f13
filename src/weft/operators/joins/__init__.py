"""Joins of streams in windows of time: the chain of sliced joins, its shapes, its costs and its rivals."""
