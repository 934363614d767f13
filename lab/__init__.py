"""The laboratory: simulators, baselines and references of the papers; not part of the wheel."""
