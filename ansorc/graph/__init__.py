"""Whole networks: graphs whose nodes are definitions of the DSL, and what is made of them.

In: an ONNX file or a PyTorch module. Out: weighted tasks to tune, and one library.
"""
