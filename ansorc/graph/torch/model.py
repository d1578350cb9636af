"""What PyTorch says of a module: `torch.export`'s program as plain values.

The only module that knows `torch`, which is imported when it is first needed.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np

from ansorc.errors import GraphError
from ansorc.ir.aligned import Array

_KEPT = (
    "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default",
    "adaptive_avg_pool2d.default", "adaptive_avg_pool3d.default", "adaptive_max_pool2d.default",
    "adaptive_max_pool3d.default", "col2im.default", "einsum.default", "gelu.default",
    "grid_sampler_2d.default", "group_norm.default", "hardsigmoid.default", "hardswish.default",
    "im2col.default", "layer_norm.default", "linear.default", "log_softmax.int",
    "logsumexp.default", "masked_fill.Scalar", "masked_fill.Tensor", "matmul.default",
    "max_pool1d.default", "max_pool2d.default", "max_pool3d.default", "mish.default",
    "pixel_shuffle.default", "rms_norm.default", "roll.default",
    "scaled_dot_product_attention.default", "selu.default", "silu.default", "softmax.int",
    "softplus.default", "tril.default", "triu.default",
    *(
        f"{name}.{overload}"
        for name in (
            "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d",
            "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_bicubic2d",
            "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
            "upsample_nearest3d", "upsample_trilinear3d",
        )
        for overload in ("default", "vec")
    ),
)  # fmt: skip
"""Operators that the graph has as one: they are not decomposed."""
_IGNORED = ("_assert_", "sym_constrain_range", "sym_size")
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)\n\s*(?P<code>.*)'
)


@dataclass(frozen=True)
class TorchRef:
    """A result of a node, or a tensor that the program is given."""

    name: str
    place: int = 0


@dataclass(frozen=True)
class TorchTensor:
    """A tensor as PyTorch describes it; an extent that depends on data is text."""

    shape: tuple[int | str, ...]
    dtype: str
    """As NumPy calls it."""
    strides: tuple[int, ...] = ()
    """In elements; () where it is dense and row-major, or where they are not known."""


TorchArgument: TypeAlias = "object"
"""A `TorchRef`, a number, text (also for a dtype), None, or a list of those."""


@dataclass(frozen=True, eq=False)
class TorchNode:
    """A call of an operator of ATen: all arguments of its schema, by name."""

    operator: str
    """Like "aten.convolution.default"."""
    name: str
    arguments: Mapping[str, TorchArgument]
    results: tuple[TorchTensor | None, ...]
    used: frozenset[int]
    """Which results are read."""
    is_view: bool
    """Whether its result lies in the memory of its first argument, as PyTorch computes it."""
    where: str
    """The line of the user's module that it comes from."""
    origin: Any

    def refs(self) -> Iterator[TorchRef]:
        """Yield the tensors that it reads."""
        for value in self.arguments.values():
            yield from _refs(value)

    def __str__(self) -> str:
        return f"{self.operator} '{self.name}'"


@dataclass(frozen=True, eq=False)
class TorchProgram:
    """A module for one shape of each input: nodes in order, weights as values."""

    inputs: Mapping[str, TorchTensor]
    constants: Mapping[str, Array]
    nodes: tuple[TorchNode, ...]
    outputs: Mapping[str, TorchRef]
    others: Mapping[int, object]
    """What is returned besides tensors, by its place among all that is returned."""

    def kind(self, ref: TorchRef) -> TorchTensor | None:
        """Return what PyTorch says of a tensor; None of a weight."""
        if ref.name in self.inputs:
            return self.inputs[ref.name]
        node = self.producers.get(ref.name)
        return None if node is None else node.results[ref.place]

    @cached_property
    def producers(self) -> Mapping[str, TorchNode]:
        """The nodes by their names."""
        return {node.name: node for node in self.nodes}

    def owner(self, ref: TorchRef) -> str:
        """Return the tensor in whose memory PyTorch has `ref`."""
        node = self.producers.get(ref.name)
        refs = [] if node is None or not node.is_view else list(node.refs())
        return self.owner(refs[0]) if refs else ref.name


def torch_library() -> Any:
    """Return the package `torch`; raise GraphError if it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise GraphError(
            f"PyTorch cannot be imported ({error}); it is no part of ansorc: install it with "
            "`pip install torch`, or export the module to ONNX elsewhere and use ac.from_onnx"
        ) from error


def load_torch(
    module: object, arguments: Sequence[object], keywords: Mapping[str, object]
) -> TorchProgram:
    """Return the program of a module, or of an ExportedProgram; raise GraphError if it has none."""
    torch = torch_library()
    exported = module
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about its own parts
            if not isinstance(module, torch.export.ExportedProgram):
                given = tuple(arguments)
                exported = torch.export.export(module, given, dict(keywords), strict=False)
            exported = cast("Any", exported).run_decompositions(_decompositions(torch))
    except GraphError:
        raise
    except Exception as error:
        raise GraphError(_why_not_exported(error)) from error
    return _program(torch, exported)


def compute_torch_node(node: TorchNode, known: Callable[[TorchRef], Array]) -> list[Array]:
    """Return the results of a node whose inputs are all known; raise GraphError if it fails."""
    torch = torch_library()

    def value(argument: TorchArgument) -> object:
        if isinstance(argument, TorchRef):
            return torch.from_numpy(np.require(known(argument), requirements="W"))
        if isinstance(argument, list):
            return [value(one) for one in cast("list[TorchArgument]", argument)]
        return argument

    origin = node.origin
    plain = {name for name, given in node.arguments.items() if not any(_refs(given))}
    try:
        given = {**dict(zip(node.arguments, origin.args, strict=False)), **origin.kwargs}
        arguments = {
            name: one if name in plain else value(node.arguments[name])
            for name, one in given.items()
        }
        first = [arguments.pop(name) for name in list(node.arguments)[: len(origin.args)]]
        with torch.no_grad():
            found = origin.target(*first, **arguments)
    except Exception as error:
        raise GraphError(f"{node} cannot be computed at import: {error}") from error
    results = cast("Sequence[Any]", found) if isinstance(found, (list, tuple)) else [found]
    return [array_of(one) if hasattr(one, "dtype") else np.asarray(one or 0) for one in results]


def array_of(tensor: Any) -> Array:
    """Return the values of a tensor, 16-bit floats as float32, in its own memory if that fits."""
    torch = torch_library()
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype in (torch.float16, torch.bfloat16):
        plain = plain.to(torch.float32)
    try:
        return np.asarray(plain.cpu().numpy())
    except (RuntimeError, TypeError, ValueError) as error:
        raise GraphError(f"a tensor of {tensor.dtype} cannot be an array: {error}") from error


def _decompositions(torch: Any) -> Any:
    """PyTorch's table of decompositions without the operators that are kept."""
    table = torch.export.default_decompositions()
    for name in _KEPT:
        operator, _, overload = name.partition(".")
        found = getattr(getattr(torch.ops.aten, operator, None), overload, None)
        if found is not None:
            table.pop(found, None)
    return table


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
    for field, what in (
        ("buffers_to_mutate", "buffer"), ("parameters_to_mutate", "parameter"),
        ("user_inputs_to_mutate", "input"),
    ):  # fmt: skip
        written = getattr(signature, field, None)
        if written:
            name = next(iter(written.values()))
            raise GraphError(
                f"the module writes its {what} '{name}'; ansorc's networks have no state: call "
                "module.eval() before, and return what changes as an output"
            )
    names = _ExportedNames(exported)
    nodes = [
        _node(torch, one, names)
        for one in exported.graph.nodes
        if one.op == "call_function" and not names.is_part(one) and not _is_ignored(one)
    ]
    outputs, others = _outputs(torch, exported, names)
    return TorchProgram(names.inputs, names.constants, tuple(nodes), outputs, others)


class _ExportedNames:
    """What the tensors of an exported program are called here."""

    def __init__(self, exported: Any) -> None:
        self.inputs: dict[str, TorchTensor] = {}
        self.constants: dict[str, Array] = {}
        self._names: dict[str, str] = {}
        held = {**exported.state_dict, **exported.constants}
        values = {one.name: one.meta.get("val") for one in exported.graph.nodes}
        for spec in exported.graph_signature.input_specs:
            name, value = spec.arg.name, values.get(spec.arg.name)
            if spec.kind.name != "USER_INPUT":
                if hasattr(held.get(spec.target), "dtype"):
                    own = name if spec.target in values else str(spec.target)
                    self._names[name] = own
                    self.constants[own] = array_of(held[spec.target]).copy()
            elif hasattr(value, "dtype"):
                self._names[name] = name
                self.inputs[name] = described(value)

    def is_part(self, node: Any) -> bool:
        """Whether the node is one of several results of another."""
        return getattr(node.target, "__name__", "") == "getitem" and hasattr(node.args[0], "op")

    def ref(self, node: Any) -> TorchRef:
        """Return what a node of the program's graph stands for."""
        if node.op == "call_function" and self.is_part(node):
            return TorchRef(self._called(node.args[0]), node.args[1])
        return TorchRef(self._called(node))

    def _called(self, node: Any) -> str:
        name: str = node.name
        return self._names.get(name, name)


def described(tensor: Any) -> TorchTensor:
    """Return what a tensor is, or one that only has a shape."""
    shape = tuple(one if isinstance(one, int) else str(one) for one in tensor.shape)
    is_known = all(isinstance(one, int) for one in tensor.shape)
    strides = () if not is_known or tensor.is_contiguous() else tuple(tensor.stride())
    return TorchTensor(shape, _dtype_name(tensor.dtype), strides)


def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _is_ignored(node: Any) -> bool:
    name = getattr(node.target, "__name__", "")
    return name.startswith(_IGNORED) and not node.users


def _node(torch: Any, node: Any, names: _ExportedNames) -> TorchNode:
    target = node.target
    schema = getattr(target, "_schema", None)
    value = node.meta.get("val")
    results = cast("list[Any]", value) if isinstance(value, (list, tuple)) else [value]
    parts = [one.args[1] for one in node.users if names.is_part(one)]
    others = [one for one in node.users if not names.is_part(one)]
    arguments: dict[str, TorchArgument] = {}
    is_view = False
    if schema is not None:
        given = dict(zip((one.name for one in schema.arguments), node.args, strict=False))
        given = {**given, **node.kwargs}
        for one in schema.arguments:
            default = one.default_value if one.has_default_value() else None
            arguments[one.name] = _argument(torch, given.get(one.name, default), names)
        is_view = any(one.alias_info is not None for one in schema.returns)
    return TorchNode(
        str(target), node.name, arguments,
        tuple(described(one) if hasattr(one, "dtype") else None for one in results),
        frozenset([*parts, *([0] if others or not parts else [])]),
        is_view, _where(node.meta.get("stack_trace") or ""), node,
    )  # fmt: skip


def _argument(torch: Any, value: Any, names: _ExportedNames) -> TorchArgument:
    """An argument as a plain value."""
    if isinstance(value, torch.fx.Node):
        return names.ref(value)
    if isinstance(value, (list, tuple)):
        return [_argument(torch, one, names) for one in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _dtype_name(value)


def _refs(value: TorchArgument) -> Iterator[TorchRef]:
    if isinstance(value, TorchRef):
        yield value
    elif isinstance(value, list):
        for one in cast("list[TorchArgument]", value):
            yield from _refs(one)


def _where(trace: str) -> str:
    """The last line of a stack trace that is not PyTorch's own."""
    frames = [one for one in _FRAME.finditer(trace) if "/torch/" not in one["file"]]
    if not frames:
        return ""
    last = frames[-1]
    return f"{last['file']}:{last['line']}, in {last['name']}: {last['code'].strip()}"


def _outputs(
    torch: Any, exported: Any, names: _ExportedNames
) -> tuple[dict[str, TorchRef], dict[int, object]]:
    """The outputs under the keys that the module returns them by, and what is no tensor."""
    nodes = {one.name: one for one in exported.graph.nodes}
    specs = [one for one in exported.graph_signature.output_specs if one.kind.name == "USER_OUTPUT"]
    tree = torch.utils._pytree
    places = tree.tree_unflatten(list(range(len(specs))), exported.call_spec.out_spec)
    paths, _ = tree.tree_flatten_with_path(places)
    found, others = dict[str, TorchRef](), dict[int, object]()
    for place, (spec, (path, _)) in enumerate(zip(specs, paths, strict=True)):
        if type(spec.arg).__name__ != "TensorArgument":
            others[place] = getattr(spec.arg, "value", None)
            continue
        stem = re.sub(r"\W+", "_", tree.keystr(path)).strip("_")
        stem = f"output{stem}" if not stem or stem[0].isdigit() else stem
        while stem in names.inputs or stem in found:
            stem += "_out"
        found[stem] = names.ref(nodes[spec.arg.name])
    return found, others
