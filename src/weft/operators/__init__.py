"""Operators: what touches rows, and its state in memory; windows and joins."""
