"""Joins of three to nine streams, many at once: sliced state, join orders per stream, bitmaps for routing."""
