"""Kernels: Arrow arrays in, Arrow array out, one family per file.

A kernel gets the checked node and its arguments, of the types the node's rule asked for: arrays, or
constants that are not NULL, at least one of them an array.
"""
