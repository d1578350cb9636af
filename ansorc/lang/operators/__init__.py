"""Ready-made definitions of common operators: each takes tensors and returns a tensor."""

from ansorc.lang.operators.attention import attention_scores
from ansorc.lang.operators.capsule import capsule_conv2d
from ansorc.lang.operators.convolution import conv1d, conv2d, conv3d, depthwise_conv2d
from ansorc.lang.operators.elementwise import (
    add,
    batch_norm,
    bias_add,
    divide,
    gelu,
    multiply,
    relu,
    sigmoid,
    subtract,
    tanh,
    transpose,
)
from ansorc.lang.operators.matmul import batch_matmul, dense, matmul
from ansorc.lang.operators.normalization import layer_norm, norm2, softmax
from ansorc.lang.operators.pad import pad
from ansorc.lang.operators.pool import avg_pool2d, global_avg_pool, max_pool2d
from ansorc.lang.operators.transposed_convolution import conv2d_transpose

__all__ = [
    "add",
    "attention_scores",
    "avg_pool2d",
    "batch_matmul",
    "batch_norm",
    "bias_add",
    "capsule_conv2d",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "dense",
    "depthwise_conv2d",
    "divide",
    "gelu",
    "global_avg_pool",
    "layer_norm",
    "matmul",
    "max_pool2d",
    "multiply",
    "norm2",
    "pad",
    "relu",
    "sigmoid",
    "softmax",
    "subtract",
    "tanh",
    "transpose",
]
