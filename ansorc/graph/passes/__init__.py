"""Rewrites of graphs, each a pure function of a graph; see `pipeline.py` for their order."""
