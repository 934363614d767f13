"""Parts that both runners share: changes of queries, programs, progress."""
