"""Stories: seeded streams with everything that can happen to them, each told to an engine and to the oracle.

A case is its seed. ``make stories CASES=10000 SEED=1`` tells as many as asked for; ``python -m stories --case
1:4711`` (from ``tests/``) tells one again, and shrinks it where it fails.
"""
