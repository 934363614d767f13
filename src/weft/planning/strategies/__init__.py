"""Strategies that put queries into trees: one strategy, one file."""
