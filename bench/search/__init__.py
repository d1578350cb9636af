"""What the search finds, how fast, and how well its cost model predicts."""
