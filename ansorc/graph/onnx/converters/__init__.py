"""Converters of the operators of ONNX, by name: one module a family."""

from __future__ import annotations

from collections.abc import Mapping

from ansorc.graph.onnx.converters.activation import ACTIVATION
from ansorc.graph.onnx.converters.attention import ATTENTION
from ansorc.graph.onnx.converters.convolution import CONVOLUTION
from ansorc.graph.onnx.converters.elementwise import ELEMENTWISE
from ansorc.graph.onnx.converters.fourier import FOURIER
from ansorc.graph.onnx.converters.indexing import INDEXING
from ansorc.graph.onnx.converters.matmul import MATMUL
from ansorc.graph.onnx.converters.microsoft import MICROSOFT
from ansorc.graph.onnx.converters.microsoft_attention import MICROSOFT_ATTENTION
from ansorc.graph.onnx.converters.microsoft_quantized import MICROSOFT_QUANTIZED
from ansorc.graph.onnx.converters.normalization import NORMALIZATION
from ansorc.graph.onnx.converters.pool import POOL
from ansorc.graph.onnx.converters.quantized import QUANTIZED
from ansorc.graph.onnx.converters.recurrent import RECURRENT
from ansorc.graph.onnx.converters.reduce import REDUCE
from ansorc.graph.onnx.converters.refused import REFUSED
from ansorc.graph.onnx.converters.resize import RESIZE
from ansorc.graph.onnx.converters.sampling import SAMPLING
from ansorc.graph.onnx.converters.sequences import SEQUENCES
from ansorc.graph.onnx.converters.slices import SLICES
from ansorc.graph.onnx.converters.softmax import SOFTMAX
from ansorc.graph.onnx.converters.views import VIEWS
from ansorc.graph.onnx.node_call import Converter

CONVERTERS: Mapping[str, Converter] = {
    **ELEMENTWISE,
    **ACTIVATION,
    **REDUCE,
    **SOFTMAX,
    **VIEWS,
    **SLICES,
    **INDEXING,
    **SAMPLING,
    **FOURIER,
    **REFUSED,
    **MATMUL,
    **CONVOLUTION,
    **POOL,
    **NORMALIZATION,
    **ATTENTION,
    **QUANTIZED,
    **RECURRENT,
    **RESIZE,
    **SEQUENCES,
    **MICROSOFT,
    **MICROSOFT_ATTENTION,
    **MICROSOFT_QUANTIZED,
}
