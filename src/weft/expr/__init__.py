"""One checked expression tree, and the Arrow kernels for it."""
