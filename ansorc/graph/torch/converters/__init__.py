"""Converters of the operators of ATen, by name: one module a family."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.torch.converters.activation import TORCH_ACTIVATION
from ansorc.graph.torch.converters.attention import TORCH_ATTENTION
from ansorc.graph.torch.converters.convolution import TORCH_CONVOLUTION
from ansorc.graph.torch.converters.elementwise import PRIMS_ELEMENTWISE, TORCH_ELEMENTWISE
from ansorc.graph.torch.converters.indexing import TORCH_INDEXING
from ansorc.graph.torch.converters.matmul import TORCH_MATMUL, TRANSFORMERS_MATMUL
from ansorc.graph.torch.converters.normalization import TORCH_NORMALIZATION
from ansorc.graph.torch.converters.numbers import TORCH_NUMBERS, item_of
from ansorc.graph.torch.converters.pool import TORCH_POOL
from ansorc.graph.torch.converters.quantized import TORCH_QUANTIZED
from ansorc.graph.torch.converters.reduce import TORCH_REDUCE
from ansorc.graph.torch.converters.resize import TORCH_RESIZE
from ansorc.graph.torch.converters.slices import TORCH_SLICES
from ansorc.graph.torch.converters.views import TORCH_VIEWS
from ansorc.graph.torch.torch_call import TorchConverter

_ATEN = (
    TORCH_ACTIVATION, TORCH_ATTENTION, TORCH_CONVOLUTION, TORCH_ELEMENTWISE, TORCH_INDEXING,
    TORCH_MATMUL, TORCH_NORMALIZATION, TORCH_POOL, TORCH_REDUCE, TORCH_RESIZE, TORCH_SLICES,
    TORCH_VIEWS,
)  # fmt: skip
TORCH_CONVERTERS: Mapping[str, TorchConverter] = {
    **{f"aten.{name}": converter for family in _ATEN for name, converter in family.items()},
    "aten._local_scalar_dense.default": item_of,
    **TORCH_NUMBERS,
    **TORCH_QUANTIZED,
    **{f"prims.{name}": converter for name, converter in PRIMS_ELEMENTWISE.items()},
    **{f"transformers.{name}": converter for name, converter in TRANSFORMERS_MATMUL.items()},
}
