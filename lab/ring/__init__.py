"""Joins of many streams over many nodes, simulated: the ring of Wang's thesis, part II, and its rivals.

The schemes run the real algorithm on real rows, on simulated nodes with costs; see docs/ring.md.
"""
