"""`python -m bench gpu`: ansorc beside PyTorch (cuBLAS, cuDNN), torch.compile and Triton."""
