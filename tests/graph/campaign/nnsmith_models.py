"""Networks that the public fuzzer NNSmith draws, through PyTorch's older exporter."""

from __future__ import annotations

import functools
import importlib
import logging
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from ansorc.ir.aligned import Array

MAX_NODES, MAX_ELEMENTS = 10, 65_536


class NnsmithModels:
    """Draws models by a seed; made once a process, as NNSmith tries all its operators first.

    Raise ImportError where NNSmith or PyTorch is missing.
    """

    def __init__(self) -> None:
        torch: Any = importlib.import_module("torch")
        torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
        self._torch = torch
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        materialize: Any = importlib.import_module("nnsmith.materialize")
        self._generate: Any = importlib.import_module("nnsmith.graph_gen").model_gen
        self._type: Any = materialize.Model.init("onnx")
        self._operators = self._usable_operators()
        extension: Any = importlib.import_module("nnsmith.abstract.extension")
        extension.activate_ext(opset=self._operators, factory=None)

    def draw(self, seed: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
        """Return a model and inputs for it."""
        random.seed(seed)
        np.random.seed(seed)  # NNSmith draws from it
        self._torch.manual_seed(seed)
        generated = self._generate(
            opset=self._operators,
            method="symbolic-cinit",
            seed=seed,
            max_nodes=MAX_NODES,
            max_elem_per_tensor=MAX_ELEMENTS,
            timeout_ms=10_000,
        )
        model = self._type.from_gir(generated.make_concrete())
        model.refine_weights()
        oracle = model.make_oracle()
        inputs = {name: np.asarray(array) for name, array in oracle.input.items()}
        return model.native_model, inputs

    def _usable_operators(self) -> list[Any]:
        """Return the operators that can be exported, with the types that they can be exported with.

        They are tried one by one, as one that NNSmith cannot draw would end the whole search.
        """
        narrow: Any = importlib.import_module("nnsmith.narrow_spec")
        error: Any = importlib.import_module("nnsmith.error")
        operators: list[Any] = list(self._type.operators())
        usable: list[Any] = []
        for operator in operators:
            self._type.operators = staticmethod(_returning([operator]))
            try:
                types = narrow.infer_topset_from_scratch(self._type, None)
            except (error.InternalError, error.ConstraintError):
                continue
            if operator.name() in types and not operator.limit_domain:
                operator.in_dtypes = types[operator.name()].in_dtypes
                operator.out_dtypes = types[operator.name()].out_dtypes
                usable.append(operator)
        self._type.operators = staticmethod(_returning(operators))
        return usable


def _returning(operators: list[Any]) -> Callable[[], list[Any]]:
    return lambda: operators
