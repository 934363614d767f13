"""Lookups: columns of static or slowly changing tables beside the rows of a stream."""
