"""Plans of joins: which share their state, how it is sliced, in which order streams are probed."""
