"""Import a PyTorch module: what is known is computed, every other node is converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansorc.errors import GraphError, InternalError
from ansorc.graph.graph import Graph
from ansorc.graph.importing.converter_call import inputs_text
from ansorc.graph.importing.graph_import import GraphImport, input_dtype
from ansorc.graph.importing.guarding import call_converter
from ansorc.graph.importing.values import HALF_FLOATS, Value, as_list, widen
from ansorc.graph.tensor_type import TensorType
from ansorc.graph.torch.converters import TORCH_CONVERTERS
from ansorc.graph.torch.exported import load_torch
from ansorc.graph.torch.model import (
    NARROW_FLOATS,
    TorchNode,
    TorchProgram,
    TorchRef,
    TorchTensor,
    compute_torch_node,
)
from ansorc.graph.torch.torch_call import TorchCall, dtype_in_graph
from ansorc.ir.aligned import Array
from ansorc.lang.arguments import check_arguments


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
        self._import = GraphImport(name, program.outputs)
        self._builder = self._import.builder
        self._values: dict[TorchRef, Value] = {
            TorchRef(name): array for name, array in program.constants.items()
        }
        self._numbers = {TorchRef(name) for name in program.numbers}

    def run(self, frozen: Mapping[str, Array]) -> Graph:
        """Return the graph."""
        for name, kind in self._program.inputs.items():
            given = frozen.get(name)
            if given is None:
                full = TensorType(input_dtype(name, kind.dtype), _shape_of(name, kind))
                given = self._import.add_input(name, full)
            self._values[TorchRef(name)] = given
        for node in _select_needed(self._program):
            results = self._convert(node)
            self._values.update(
                {TorchRef(node.name, n): result for n, result in enumerate(results)}
            )
            if node.results[:1] and node.results[0] and node.results[0].is_number:
                self._numbers.add(TorchRef(node.name))
        return self._finish()

    def _convert(self, node: TorchNode) -> Sequence[Value]:
        """Return the results of a node: computed now if all that it reads is known."""
        values = [self._values[ref] for ref in node.refs()]
        call = TorchCall(node, self._values, self._builder, self._numbers)
        self._builder.source = str(node)
        if node.operator.startswith("aten.") and not any(
            isinstance(value, str) for value in values
        ):
            arrays = compute_torch_node(node, self._array_of)
            return [widen(array) for array in arrays]
        converter = TORCH_CONVERTERS.get(node.operator)
        if converter is None:
            call.refuse(
                "ansorc does not know this operator; write the line with operators that it knows "
                "(docs/networks.md), or cut the module before it"
            )
        results = as_list(
            call_converter(call, lambda: converter(call), lambda words: _fault(call, words))
        )
        if any(position >= len(results) for position in node.used):
            call.refuse(
                f"only its first {len(results)} results are supported; compute the others yourself"
            )
        self._check(call, results)
        self._keep_types(node, results)
        return results

    def _array_of(self, ref: TorchRef) -> Array:
        value = self._values[ref]
        assert not isinstance(value, str)
        return value

    def _keep_types(self, node: TorchNode, results: Sequence[Value]) -> None:
        """Keep float32 results that PyTorch has in 16 bits in them, between kernels."""
        for result, wanted in zip(results, node.results, strict=False):
            if isinstance(result, str) and wanted is not None and wanted.dtype in HALF_FLOATS:
                self._builder.keep_as(result, wanted.dtype)

    def _check(self, call: TorchCall, results: Sequence[Value]) -> None:
        """Raise GraphError if a result is not what PyTorch says that it is."""
        node = call.node
        for position, (result, wanted) in enumerate(zip(results, node.results, strict=False)):
            if wanted is None or position not in node.used:
                continue
            kind = call.type_of_value(result)
            if kind.shape != wanted.shape or kind.dtype != dtype_in_graph(wanted.dtype):
                call.refuse(
                    f"ansorc makes {kind} of it, PyTorch {wanted.dtype}"
                    f"{list(wanted.shape)}; this is a mistake of ansorc, please report it"
                )

    def _finish(self) -> Graph:
        """Return the graph, whose outputs have the names and dtypes that the module has."""
        outputs, narrow = list[tuple[str, Value]](), dict[str, str]()
        for name, ref in self._program.outputs.items():
            kind = self._program.kind(ref)
            outputs.append((name, self._values[ref]))
            if kind and kind.dtype in NARROW_FLOATS:
                narrow[name] = kind.dtype
        return self._import.finish(outputs, narrow)


def _select_needed(program: TorchProgram) -> list[TorchNode]:
    """Return the nodes on which an output depends, in their order."""
    wanted = {ref.name for ref in program.outputs.values()}
    needed: list[TorchNode] = []
    for node in reversed(program.nodes):
        if node.name in wanted:
            needed.append(node)
            wanted.update(ref.name for ref in node.refs())
    return needed[::-1]


def _fault(call: TorchCall, words: str) -> InternalError:
    """Return the error for a converter that failed: PyTorch has accepted the node."""
    node = call.node
    inputs = inputs_text({ref.name: call.type_of(ref) for ref in node.refs()})
    return InternalError(
        f"{call.where} could not be imported ({words})",
        f"this node: {node}, arguments {dict(node.arguments)}, with the inputs {inputs}",
    )


def _shape_of(name: str, given: TorchTensor) -> tuple[int, ...]:
    shape = tuple(extent for extent in given.shape if isinstance(extent, int))
    if len(shape) != len(given.shape):
        raise GraphError(
            f"the input '{name}' is {list(given.shape)}; export the module without dynamic shapes"
        )
    return shape
