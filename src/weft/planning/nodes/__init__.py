"""Strategies for many nodes: which trees there are, and where each runs (Shein 2019, chapter 6)."""
