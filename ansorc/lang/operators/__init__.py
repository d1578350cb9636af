"""Ready-made definitions of common operators: each takes tensors and returns a tensor."""

from ansorc.errors import LanguageError
from ansorc.lang.arguments import check_arguments
from ansorc.lang.operators.activation import (
    elu,
    gelu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
    tanh,
)
from ansorc.lang.operators.attention import (
    attention,
    attention_scores,
)
from ansorc.lang.operators.capsule import (
    capsule_conv2d,
)
from ansorc.lang.operators.convolution import (
    conv1d,
    conv2d,
    conv3d,
    depthwise_conv2d,
)
from ansorc.lang.operators.elementwise import (
    add,
    batch_norm,
    batch_norm_inference,
    bias_add,
    cast,
    clip,
    divide,
    maximum,
    minimum,
    multiply,
    power,
    subtract,
    where,
)
from ansorc.lang.operators.fourier import fft, ifft, rfft
from ansorc.lang.operators.indexing import (
    embedding,
    gather,
    one_hot,
    take,
)
from ansorc.lang.operators.matmul import (
    batch_matmul,
    dense,
    matmul,
)
from ansorc.lang.operators.normalization import (
    cross_entropy,
    group_norm,
    instance_norm,
    l2_normalize,
    layer_norm,
    log_softmax,
    norm2,
    rms_norm,
    softmax,
)
from ansorc.lang.operators.pad import (
    edge_pad,
    pad,
    reflect_pad,
)
from ansorc.lang.operators.pool import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    global_avg_pool,
    global_max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from ansorc.lang.operators.quantized import dense_packed, pack_groups
from ansorc.lang.operators.reduce import (
    argmax,
    argmin,
    max,
    mean,
    min,
    prod,
    sum,
)
from ansorc.lang.operators.resize import (
    resize2d_bilinear,
    resize2d_nearest,
)
from ansorc.lang.operators.scan import cummax, cummin, cumprod, cumsum
from ansorc.lang.operators.sorting import argsort, sort, top_k
from ansorc.lang.operators.sparse import sparse_matmul
from ansorc.lang.operators.transposed_convolution import (
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
)
from ansorc.lang.operators.view import (
    broadcast_to,
    concat,
    expand_dims,
    flatten,
    flip,
    reshape,
    squeeze,
    stack,
    tile,
    transpose,
)
from ansorc.lang.operators.view import slice_ as slice
from ansorc.lang.operators.winograd import conv2d_winograd, winograd_weights

__all__ = [
    "add",
    "argmax",
    "argmin",
    "argsort",
    "attention",
    "attention_scores",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_matmul",
    "batch_norm",
    "batch_norm_inference",
    "bias_add",
    "broadcast_to",
    "capsule_conv2d",
    "cast",
    "clip",
    "concat",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv2d_winograd",
    "conv3d",
    "conv3d_transpose",
    "cross_entropy",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dense",
    "dense_packed",
    "depthwise_conv2d",
    "divide",
    "edge_pad",
    "elu",
    "embedding",
    "expand_dims",
    "fft",
    "flatten",
    "flip",
    "gather",
    "gelu",
    "global_avg_pool",
    "global_max_pool",
    "group_norm",
    "hard_sigmoid",
    "hard_swish",
    "ifft",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "matmul",
    "max",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mish",
    "multiply",
    "norm2",
    "one_hot",
    "pack_groups",
    "pad",
    "power",
    "prelu",
    "prod",
    "reflect_pad",
    "relu",
    "relu6",
    "reshape",
    "resize2d_bilinear",
    "resize2d_nearest",
    "rfft",
    "rms_norm",
    "selu",
    "sigmoid",
    "silu",
    "slice",
    "softmax",
    "softplus",
    "softsign",
    "sort",
    "sparse_matmul",
    "squeeze",
    "stack",
    "subtract",
    "sum",
    "take",
    "tanh",
    "tile",
    "top_k",
    "transpose",
    "where",
    "winograd_weights",
]

for _name in __all__:  # arguments are checked by the annotations of the definitions
    globals()[_name] = check_arguments(globals()[_name], LanguageError)
