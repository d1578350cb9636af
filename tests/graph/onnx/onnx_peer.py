"""What others compute for an ONNX model: ONNX Runtime, or ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from ansorc.ir.aligned import Array


def run_onnx_runtime(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs as ONNX Runtime has them, its optimisations left out."""
    ort: Any = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    data = with_output_types(model).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return [np.asarray(one) for one in session.run(None, dict(inputs))]


def run_reference_evaluator(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the outputs as ONNX's reference implementation has them."""
    evaluator: Any = ReferenceEvaluator(model)
    return [np.asarray(one) for one in evaluator.run(None, dict(inputs))]


def with_output_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with the element types of its outputs, which a session asks for."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    if any(not one.type.WhichOneof("value") for one in typed.graph.output):
        inferred = onnx.shape_inference.infer_shapes(typed)
        known = {one.name: one for one in inferred.graph.value_info}
        known |= {one.name: one for one in (*inferred.graph.input, *inferred.graph.output)}
        for output in typed.graph.output:
            if not output.type.WhichOneof("value") and output.name in known:
                output.CopyFrom(known[output.name])
        for array in typed.graph.initializer:
            for output in typed.graph.output:
                if output.name == array.name:
                    output.CopyFrom(
                        onnx.helper.make_tensor_value_info(
                            array.name, array.data_type, list(array.dims)
                        )
                    )
    return typed
