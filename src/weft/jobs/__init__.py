"""Job files: from a TOML file to a run."""
