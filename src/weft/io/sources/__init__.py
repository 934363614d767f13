"""Sources of numbered rows, and a generator of rows."""
