"""The comparison: runs the sides of `bench.peers` in turns, keeps the results, shows them."""
