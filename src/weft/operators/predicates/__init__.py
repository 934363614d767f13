"""Predicates of many queries, evaluated once: signatures, classes, conditions."""
