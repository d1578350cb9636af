"""PyTorch modules as graphs, and ansorc as a back end of `torch.compile`."""
