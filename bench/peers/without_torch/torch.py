"""In the way of PyTorch: found first, it keeps it out of the processes of TVM.

TVM imports PyTorch where it is installed, in each of its workers too, and goes through all modules
of the process again and again while it starts: a minute more of processor time for each.
"""

raise ImportError("PyTorch is kept out of the processes of TVM")
