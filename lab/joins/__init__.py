"""Baselines, reference and formulas of Wang's thesis, part I."""
