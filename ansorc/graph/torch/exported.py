"""A module as `torch.export` has it: `load_torch` reads the program into plain values."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ansorc.errors import GraphError
from ansorc.graph.torch.autocast import factors_rounded
from ansorc.graph.torch.decompositions import decompositions
from ansorc.graph.torch.effects import is_assertion, require_no_draw, require_no_effect
from ansorc.graph.torch.model import (
    TorchArgument,
    TorchNode,
    TorchProgram,
    TorchRef,
    TorchTensor,
    array_of,
    torch_library,
)
from ansorc.graph.torch.own_state import trace_without_state
from ansorc.graph.torch.torch_state import keep_state
from ansorc.graph.torch.writes import require_plain_writes
from ansorc.ir.aligned import Array

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)\n\s*(?P<code>.*)'
)


def load_torch(
    module: object,
    arguments: Sequence[object],
    keywords: Mapping[str, object],
    free: Sequence[int] = (),
) -> TorchProgram:
    """Return the program of a module, or of an ExportedProgram; raise GraphError if it has none.

    `free` are the places of arguments that are ints and may have other values in another call; all
    arguments then come by their places. What the module does besides computing its outputs is
    refused, but for assertions and for what it writes to its inputs, which the program has.
    """
    torch = torch_library()
    exported = module
    try:
        with torch.no_grad(), warnings.catch_warnings(), keep_state():
            warnings.simplefilter("ignore")  # of PyTorch about its own parts
            if not isinstance(module, torch.export.ExportedProgram):
                call = tuple(arguments), dict(keywords), free
                exported = trace_without_state(torch, module, lambda: _export(torch, module, *call))
            for part in cast("Any", exported).graph_module.modules():  # also unused ones draw
                for node in _calls(part):
                    require_no_draw(torch, node)
            require_plain_writes(torch, exported)
            with factors_rounded(torch, exported):
                exported = cast("Any", exported).run_decompositions(decompositions())
            for node in _calls(exported):
                require_no_effect(torch, node)
    except GraphError:
        raise
    except Exception as error:
        raise GraphError(_why_not_exported(error)) from error
    return _program(torch, exported)


def _export(
    torch: Any,
    module: Any,
    arguments: tuple[object, ...],
    keywords: dict[str, object],
    free: Sequence[int],
) -> Any:
    """Return the program, traced without the fast paths of modules: they are other operators."""
    shapes: Any = None
    if free:
        auto = torch.export.Dim.AUTO
        shapes = tuple(auto if number in free else None for number in range(len(arguments)))
        kinds = [
            parameter.kind for parameter in inspect.signature(module.forward).parameters.values()
        ]
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            shapes = (shapes,)  # all arguments are one tuple
    mha = torch.backends.mha
    is_fast = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        return torch.export.export(module, arguments, keywords, strict=False, dynamic_shapes=shapes)
    finally:
        mha.set_fastpath_enabled(is_fast)


def _calls(module: Any) -> list[Any]:
    """Return the nodes of a module's graph that call something; [] if it has no graph."""
    graph = getattr(module, "graph", None)
    return [] if graph is None else [node for node in graph.nodes if node.op == "call_function"]


def _why_not_exported(error: Exception) -> str:
    words = str(error).strip().partition("\n")[0]
    kind = type(error).__name__
    if "DataDependent" in kind or "data-dependent" in str(error):
        return (
            f"the module decides by the values of a tensor ({kind}: {words}); ansorc has one "
            "program for all values: use torch.where, or take the decision out of the module"
        )
    return (
        f"torch.export.export(module, args, strict=False) fails: {kind}: {words}; ansorc imports "
        "what PyTorch can export"
    )


def _program(torch: Any, exported: Any) -> TorchProgram:
    signature = exported.graph_signature
    for field, what in (("buffers_to_mutate", "buffer"), ("parameters_to_mutate", "parameter")):
        written = getattr(signature, field, None)
        if written:
            name = next(iter(written.values()))
            raise GraphError(
                f"the module writes its {what} '{name}'; ansorc's networks have no state: call "
                "module.eval() before, and return what changes as an output"
            )
    names = _ExportedNames(exported)
    called = _calls(exported)
    nodes = [_node(torch, call, names) for call in called if not names.is_part(call)]
    asserted = [call.args[0] for call in called if is_assertion(call)]
    by_name = {node.name: node for node in exported.graph.nodes}
    changed: Mapping[str, str] = getattr(signature, "user_inputs_to_mutate", None) or {}
    outputs, others = _outputs(torch, exported, names)
    return TorchProgram(
        inputs=names.inputs,
        places=names.places,
        numbers=frozenset(names.numbers),
        constants=names.constants,
        nodes=tuple(node for node in nodes if not node.is_assertion),
        outputs=outputs,
        others=others,
        asserted=tuple(_argument(torch, condition, names) for condition in asserted),
        written={target: names.ref(by_name[name]) for name, target in changed.items()},
    )


class _ExportedNames:
    """The names of the tensors of an exported program, and its inputs and constants."""

    def __init__(self, exported: Any) -> None:
        self.inputs: dict[str, TorchTensor] = {}
        self.places: dict[str, int] = {}
        """The positions of the inputs among all arguments."""
        self.numbers: set[str] = set()
        """Inputs that are numbers of Python."""
        self.constants: dict[str, Array] = {}
        self._names: dict[str, str] = {}
        held = {**exported.state_dict, **exported.constants}
        values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
        position = -1
        for spec in exported.graph_signature.input_specs:
            name, value = spec.arg.name, values.get(spec.arg.name)
            if spec.kind.name != "USER_INPUT":
                if hasattr(held.get(spec.target), "dtype"):
                    constant = name if spec.target in values else str(spec.target)
                    self._names[name] = constant
                    self.constants[constant] = array_of(held[spec.target]).copy()
                continue
            position += 1
            if hasattr(value, "dtype") or type(value).__name__ in NUMBERS:
                self._names[name] = name
                self.inputs[name] = describe(value)
                self.places[name] = position
                if not hasattr(value, "dtype"):
                    self.numbers.add(name)

    def is_part(self, node: Any) -> bool:
        """Return whether the node is one of several results of another."""
        return getattr(node.target, "__name__", "") == "getitem" and hasattr(node.args[0], "op")

    def ref(self, node: Any) -> TorchRef:
        """Return what a node of the program's graph stands for."""
        if node.op == "call_function" and self.is_part(node):
            return TorchRef(self._name_of(node.args[0]), node.args[1])
        return TorchRef(self._name_of(node))

    def _name_of(self, node: Any) -> str:
        name: str = node.name
        return self._names.get(name, name)


NUMBERS = {"SymInt": "int64", "SymFloat": "float64", "SymBool": "bool"}
"""Numbers that are known in a call only, and the dtypes that they are computed in."""


def describe(value: Any) -> TorchTensor:
    """Return the dtype, shape and strides of a tensor, or of a number that a call has."""
    number = NUMBERS.get(type(value).__name__)
    if number:
        return TorchTensor((), number, is_number=True)
    shape = tuple(extent if isinstance(extent, int) else str(extent) for extent in value.shape)
    is_known = all(isinstance(extent, int) for extent in value.shape)
    strides = () if not is_known or value.is_contiguous() else tuple(value.stride())
    return TorchTensor(shape, _dtype_name(value.dtype), strides)


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _node(torch: Any, node: Any, names: _ExportedNames) -> TorchNode:
    target = node.target
    schema = getattr(target, "_schema", None)
    value = node.meta.get("val")
    results = cast("list[Any]", value) if isinstance(value, (list, tuple)) else [value]
    parts = [user.args[1] for user in node.users if names.is_part(user)]
    others = [user for user in node.users if not names.is_part(user)]
    arguments: dict[str, TorchArgument] = {}
    is_view = False
    if schema is not None:
        given = dict(zip((argument.name for argument in schema.arguments), node.args, strict=False))
        given = {**given, **node.kwargs}
        for argument in schema.arguments:
            default = argument.default_value if argument.has_default_value() else None
            value = given.get(argument.name, default)
            _require_number(node, argument, value)
            arguments[argument.name] = _argument(torch, value, names)
        is_view = any(returned.alias_info is not None for returned in schema.returns)
    elif node.args and not node.kwargs:  # arithmetic of numbers, in Python
        arguments = {f"arg{n}": _argument(torch, given, names) for n, given in enumerate(node.args)}
    return TorchNode(
        str(target) if schema is not None else f"number.{getattr(target, '__name__', target)}",
        node.name, arguments,
        tuple(
            describe(result)
            if hasattr(result, "dtype") or type(result).__name__ in NUMBERS
            else None
            for result in results
        ),
        frozenset([*parts, *([0] if others or not parts else [])]),
        is_view, is_assertion(node), _where(torch, node.meta.get("stack_trace") or ""), node,
    )  # fmt: skip


def _require_number(node: Any, argument: Any, value: object) -> None:
    """Raise GraphError if a number of the call settles more than an element's value."""
    given = cast("Sequence[Any]", value if isinstance(value, (list, tuple)) else [value])
    for element in given:
        kind = type(getattr(element, "meta", {}).get("val")).__name__
        if kind in NUMBERS and str(argument.type) not in _SCALARS:
            raise GraphError(
                f"{node.target} '{node.name}': its {argument.name} is a number that each call may "
                "have anew; ansorc's networks compute with such numbers, but have fixed shapes"
            )


_SCALARS = ("Tensor", "number", "Optional[number]", "Optional[Tensor]")
"""The schema types of arguments that may be numbers of the call: those that elements meet."""


def _argument(torch: Any, value: Any, names: _ExportedNames) -> TorchArgument:
    """Return an argument as a plain value."""
    if isinstance(value, torch.fx.Node):
        return names.ref(value)
    if isinstance(value, (list, tuple)):
        return [_argument(torch, element, names) for element in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _dtype_name(value)


def _where(torch: Any, trace: str) -> str:
    """Return the last line of a stack trace that is not PyTorch's own."""
    folders = str(Path(torch.__file__).parent), "site-packages/torch/"
    frames = [
        frame
        for frame in _FRAME.finditer(trace)
        if not any(folder in frame["file"] for folder in folders)
    ]
    if not frames:
        return ""
    last = frames[-1]
    return f"{last['file']}:{last['line']}, in {last['name']}: {last['code'].strip()}"


def _outputs(
    torch: Any, exported: Any, names: _ExportedNames
) -> tuple[dict[str, TorchRef], dict[int, object]]:
    """Return the outputs by the module's keys, and the values that are no tensors."""
    nodes = {node.name: node for node in exported.graph.nodes}
    specs = [s for s in exported.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    tree = torch.utils._pytree
    places = tree.tree_unflatten(list(range(len(specs))), exported.call_spec.out_spec)
    paths, _ = tree.tree_flatten_with_path(places)
    outputs, others = dict[str, TorchRef](), dict[int, object]()
    for position, (spec, (path, _)) in enumerate(zip(specs, paths, strict=True)):
        if type(spec.arg).__name__ == "SymIntArgument":
            raise GraphError("the module returns a number that depends on numbers of the call")
        if type(spec.arg).__name__ != "TensorArgument":
            others[position] = getattr(spec.arg, "value", None)
            continue
        stem = re.sub(r"\W+", "_", tree.keystr(path)).strip("_")
        stem = f"output{stem}" if not stem or stem[0].isdigit() else stem
        while stem in names.inputs or stem in outputs:
            stem += "_out"
        outputs[stem] = names.ref(nodes[spec.arg.name])
    return outputs, others
