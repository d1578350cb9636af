"""The back end for GPUs by CUDA C: its text, its compilation, running it and emulating it."""
