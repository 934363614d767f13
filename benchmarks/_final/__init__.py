"""Parts of the benchmark ``final``: the workloads, the C oracle, the clock, and the plots."""
