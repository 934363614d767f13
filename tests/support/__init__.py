"""Helpers that many tests share: oracles, cases, stand-ins and servers; ``from support import oracle``."""
