"""A running job behind HTTP: its queries changed, its results, plan, progress and metrics read."""
