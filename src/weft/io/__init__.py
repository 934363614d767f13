"""Sources, sinks and file systems."""
