"""Import a PyTorch module: what is known is computed, every other node is converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ansorc.errors import AnsorcError, GraphError, InternalError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.graph import Graph
from ansorc.graph.tensor_type import TensorType
from ansorc.graph.torch.converters import TORCH_CONVERTERS
from ansorc.graph.torch.exported import load_torch
from ansorc.graph.torch.model import (
    TorchNode,
    TorchProgram,
    TorchRef,
    TorchTensor,
    compute_torch_node,
)
from ansorc.graph.torch.torch_call import TorchCall, TorchValue, computed_dtype, located
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType, dtype
from ansorc.lang.arguments import check_arguments

T = TypeVar("T")


@check_arguments
def from_torch(
    module: object,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    name: str = "",
) -> Graph:
    """Return the network in a PyTorch module, for the shapes of example inputs.

    `module` is exported by `torch.export` for `args` and `kwargs`; or it is an ExportedProgram, and
    these are left out. Inputs have the names of the parameters of `forward`, outputs the keys that
    it returns them by: "output", "output0" and so on for a tuple. Weights are constants. Floats of
    16 bits are computed in float32. Raise GraphError if PyTorch is not installed or cannot export
    the module, for an operator that is not known, and whatever has a shape that depends on data.
    """
    program = load_torch(module, args, kwargs or {})
    _require_no_writes(program)
    other = next((value for value in program.others.values() if value is not None), None)
    if other is not None or not program.outputs:
        what = "no tensors" if other is None else f"{other!r} among its outputs"
        raise GraphError(f"the module returns {what}; ansorc's networks return tensors")
    graph = graph_of(program, name or type(module).__name__)
    # Shapes that depend on data come with assertions: their own refusal says more.
    _require_no_assertions(program)
    return graph


def _require_no_writes(program: TorchProgram) -> None:
    if program.written:
        raise GraphError(
            f"the module writes its input '{next(iter(program.written))}'; ansorc's networks have "
            "no state: return what changes as an output"
        )


def _require_no_assertions(program: TorchProgram) -> None:
    if any(condition is not True for condition in program.asserted):
        raise GraphError(
            "the module asserts something about values, and a network raises no errors: check "
            "them outside of the module, or return the condition as an output"
        )


def graph_of(program: TorchProgram, name: str, frozen: Mapping[str, Array] | None = None) -> Graph:
    """Return the graph of an exported program, some of its inputs with values that never change."""
    return _TorchImport(program, name).run(frozen or {})


class _TorchImport:
    """The import of one program, with the values of its tensors so far."""

    def __init__(self, program: TorchProgram, name: str) -> None:
        self._program = program
        self._builder = GraphBuilder(name)
        self._builder.reserve(program.outputs)
        self._values: dict[TorchRef, TorchValue] = {
            TorchRef(name): array for name, array in program.constants.items()
        }
        self._numbers = {TorchRef(name) for name in program.numbers}

    def run(self, frozen: Mapping[str, Array]) -> Graph:
        """Return the graph."""
        for name, kind in self._program.inputs.items():
            given = frozen.get(name)
            self._values[TorchRef(name)] = self._input(name, kind) if given is None else given
        for node in _select_needed(self._program):
            results = self._convert(node)
            self._values.update(
                {TorchRef(node.name, n): result for n, result in enumerate(results)}
            )
            if node.results[:1] and node.results[0] and node.results[0].is_number:
                self._numbers.add(TorchRef(node.name))
        return self._builder.graph(self._outputs())

    def _input(self, name: str, given: TorchTensor) -> TorchValue:
        kind = TensorType(_dtype_of(name, given.dtype), _shape_of(name, given))
        if not kind.elements:
            return np.zeros(kind.shape, computed_dtype(given.dtype).numpy)
        tensor, wide = self._builder.input(name, kind), computed_dtype(given.dtype)
        return (
            tensor if wide == kind.dtype else self._builder.add("cast", [tensor], dtype=str(wide))
        )

    def _convert(self, node: TorchNode) -> Sequence[TorchValue]:
        """Return the results of a node: computed now if all that it reads is known."""
        values = [self._values[ref] for ref in node.refs()]
        call = TorchCall(node, self._values, self._builder, self._numbers)
        self._builder.source = str(node)
        if node.operator.startswith("aten.") and not any(
            isinstance(value, str) for value in values
        ):
            arrays = compute_torch_node(node, self._array_of)
            return [_widen(array) for array in arrays]
        converter = TORCH_CONVERTERS.get(node.operator)
        if converter is None:
            call.refuse(
                "ansorc does not know this operator; write the line with operators that it knows "
                "(docs/networks.md), or cut the module before it"
            )
        made = _convert_guarded(call, lambda: converter(call))
        results = [made] if isinstance(made, (str, np.ndarray)) else list(made)
        if any(position >= len(results) for position in node.used):
            call.refuse(
                f"only its first {len(results)} results are supported; compute the others yourself"
            )
        self._check(node, results)
        return results

    def _array_of(self, ref: TorchRef) -> Array:
        value = self._values[ref]
        assert not isinstance(value, str)
        return value

    def _check(self, node: TorchNode, results: Sequence[TorchValue]) -> None:
        """Raise GraphError if a result is not what PyTorch says that it is."""
        for position, (result, wanted) in enumerate(zip(results, node.results, strict=False)):
            if wanted is None or position not in node.used:
                continue
            kind = (
                self._builder.type(result)
                if isinstance(result, str)
                else TensorType.of_array(result)
            )
            if kind.shape != wanted.shape or kind.dtype != computed_dtype(wanted.dtype):
                raise GraphError(
                    f"{located(node)}: ansorc makes {kind} of it, PyTorch {wanted.dtype}"
                    f"{list(wanted.shape)}; this is a mistake of ansorc, please report it"
                )

    def _outputs(self) -> list[str]:
        """Return the tensors of the outputs, each under the name that the module has for it."""
        builder, renamed = self._builder, dict[str, str]()
        for name, ref in self._program.outputs.items():
            value = self._values[ref]
            kind = self._program.kind(ref)
            narrow = kind.dtype if kind and str(computed_dtype(kind.dtype)) != kind.dtype else ""
            if not isinstance(value, str):
                builder.constant(value.astype(dtype(narrow).numpy) if narrow else value, name)
            elif narrow:
                builder.add("cast", [renamed.get(value, value)], name, dtype=narrow)
            elif value in renamed or builder.renamed(value, name) != name:
                current = renamed.get(value, value)
                builder.add("reshape", [current], name, shape=builder.type(current).shape)
            else:
                renamed[value] = name
        return list(self._program.outputs)


def _select_needed(program: TorchProgram) -> list[TorchNode]:
    """Return the nodes on which an output depends, in their order."""
    wanted = {ref.name for ref in program.outputs.values()}
    needed: list[TorchNode] = []
    for node in reversed(program.nodes):
        if node.name in wanted:
            needed.append(node)
            wanted.update(ref.name for ref in node.refs())
    return needed[::-1]


def _convert_guarded(call: TorchCall, convert: Callable[[], T]) -> T:
    """Return what `convert` returns for a node; its errors name the node.

    Raise GraphError for what ansorc refuses, InternalError for every other exception: PyTorch has
    accepted the node.
    """
    node = call.node
    try:
        return convert()
    except (GraphError, InternalError, MemoryError):
        raise
    except AnsorcError as error:
        raise GraphError(f"{located(node)}: {error}") from error
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        inputs = ", ".join(f"'{ref.name}' of {call.type_of(ref)}" for ref in node.refs()) or "none"
        raise InternalError(
            f"{located(node)} could not be imported ({words})",
            f"this node: {node}, arguments {dict(node.arguments)}, with the inputs {inputs}",
        ) from error


def _dtype_of(name: str, given: str) -> DType:
    try:
        return dtype(given)
    except AnsorcError as error:
        raise GraphError(f"the input '{name}': {error}") from error


def _shape_of(name: str, given: TorchTensor) -> tuple[int, ...]:
    shape = tuple(extent for extent in given.shape if isinstance(extent, int))
    if len(shape) != len(given.shape):
        raise GraphError(
            f"the input '{name}' is {list(given.shape)}; export the module without dynamic shapes"
        )
    return shape


def _widen(array: Array) -> Array:
    """Return known values as the graph computes with them."""
    return array.astype(np.float32) if array.dtype.name in ("float16", "bfloat16") else array
