"""Final aggregation as it is measured: slide kernels of the techniques, and workloads."""
