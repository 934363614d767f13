"""Slices in the papers: the slice manager, edges of one period, partials per window, weaveability."""
