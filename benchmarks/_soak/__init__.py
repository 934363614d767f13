"""What the benchmark ``soak`` is made of: a driver to be killed, its questions, and the check at the end."""
