"""Sides for tests of the runner: each module does one thing that a peer may do."""
