"""Workloads of the planner."""
