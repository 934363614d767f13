"""Parts of the benchmark ``soak``: a driver to be killed, its questions, and the check at the end."""
