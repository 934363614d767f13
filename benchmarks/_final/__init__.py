"""What the benchmark ``final`` is made of: the workloads, the C oracle, the clock, and the plots."""
