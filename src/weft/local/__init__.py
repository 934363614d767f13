"""The in-process runner."""
