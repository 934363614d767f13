"""Plain frozen data: what was asked, as queries, windows, joins, expressions and durations."""
