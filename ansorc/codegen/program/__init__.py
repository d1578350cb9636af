"""Programs as values: what a back end emits, and what its compiler makes of that."""
