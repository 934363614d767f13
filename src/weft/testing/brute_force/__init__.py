"""The oracle: every window of every query recomputed from its rows, in exact arithmetic.

The dumbest correct implementation, kept dumb on purpose: no slices, no sharing, no NumPy. It reads the
model of queries and nothing else of weft, so that a mistake of the engine cannot hide in it.
"""
