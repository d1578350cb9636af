"""A standalone tensor compiler with auto-scheduling: `import ansorc as ac`."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ansorc.errors import AnsorcError

if TYPE_CHECKING:
    from ansorc.codegen.call.library import load_library
    from ansorc.codegen.call.module import Module
    from ansorc.codegen.call.network_module import NetworkModule
    from ansorc.codegen.call.network_variants import NetworkVariants
    from ansorc.fleet import Board, Fleet
    from ansorc.graph.api import build, tune
    from ansorc.graph.graph import Graph
    from ansorc.graph.graph_variants import GraphVariants
    from ansorc.graph.onnx.importer import from_onnx
    from ansorc.graph.operators.registered import register_onnx_op, unregister_onnx_op
    from ansorc.graph.quantization import quantize
    from ansorc.graph.torch.importer import from_torch
    from ansorc.ir.aligned import aligned_empty
    from ansorc.ir.stmt import Function
    from ansorc.lang import (
        Axis,
        Combiner,
        Complex,
        ComplexTensor,
        ComputeDAG,
        ComputeOp,
        Reduction,
        Scalar,
        Tensor,
        TupleReduction,
        abs,
        acos,
        acosh,
        all,
        all_of,
        any,
        any_of,
        argmax,
        argmin,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        cast,
        cbrt,
        ceil,
        checked,
        clip,
        clz,
        complex,
        compute,
        compute_tuple,
        conj,
        const,
        copysign,
        cos,
        cosh,
        ctz,
        dim,
        equal,
        erf,
        exp,
        exp2,
        expm1,
        floor,
        fmod,
        hypot,
        if_then_else,
        imag,
        isfinite,
        isinf,
        isnan,
        let,
        load_workload,
        log,
        log1p,
        log2,
        log10,
        logical_not,
        max,
        maximum,
        min,
        minimum,
        not_equal,
        placeholder,
        popcount,
        power,
        prod,
        real,
        reduce_axis,
        reducer,
        rint,
        round,
        rsqrt,
        scan,
        scatter,
        sigmoid,
        sign,
        sin,
        sinh,
        sparse_blocks,
        sqrt,
        sum,
        tan,
        tanh,
        trunc,
        truncated_divide,
        update,
        workload,
    )
    from ansorc.lang import operators as ops
    from ansorc.lang.extern import extern
    from ansorc.lang.gradient import gradient, stop_gradient
    from ansorc.lang.intrinsic import intrinsic
    from ansorc.schedule import Schedule, State, lower, replay, schedule
    from ansorc.search.record import Records
    from ansorc.search.space import register_sketch_rule, sketch_rules, unregister_sketch_rule
    from ansorc.search.task import Task
    from ansorc.search.tune_result import TuneResult
    from ansorc.target import Target

__all__ = [
    "AnsorcError", "Axis", "Board", "Combiner", "Complex", "ComplexTensor", "ComputeDAG",
    "ComputeOp", "Fleet", "Function", "Graph", "GraphVariants", "Module", "NetworkModule",
    "NetworkVariants", "Records", "Reduction", "Scalar", "Schedule", "State", "Target", "Task",
    "Tensor", "TuneResult", "TupleReduction", "abs", "acos", "acosh", "aligned_empty", "all",
    "all_of", "any", "any_of", "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh",
    "build", "cast", "cbrt", "ceil", "checked", "clip", "clz", "complex", "compute",
    "compute_tuple", "conj", "const", "copysign", "cos", "cosh", "ctz", "dim", "equal", "erf",
    "exp",
    "exp2", "expm1", "extern", "floor", "fmod", "from_onnx", "from_torch", "gradient", "hypot",
    "if_then_else", "imag", "intrinsic", "isfinite", "isinf", "isnan", "let", "load_library",
    "load_workload", "log", "log1p", "log2", "log10", "logical_not", "lower", "max", "maximum",
    "min", "minimum", "not_equal", "ops", "placeholder", "popcount", "power", "prod", "quantize",
    "real", "reduce_axis", "reducer", "register_onnx_op", "register_sketch_rule", "replay", "rint",
    "round", "rsqrt", "scan", "scatter", "schedule", "sigmoid", "sign", "sin", "sinh",
    "sketch_rules", "sparse_blocks", "sqrt", "stop_gradient", "sum", "tan", "tanh", "trunc",
    "truncated_divide", "tune", "unregister_onnx_op", "unregister_sketch_rule", "update",
    "workload",
]  # fmt: skip

_LATER = {
    "Board": "ansorc.fleet",
    "Fleet": "ansorc.fleet",
    "Function": "ansorc.ir.stmt",
    "Graph": "ansorc.graph.graph",
    "GraphVariants": "ansorc.graph.graph_variants",
    "Module": "ansorc.codegen.call.module",
    "NetworkModule": "ansorc.codegen.call.network_module",
    "NetworkVariants": "ansorc.codegen.call.network_variants",
    "Records": "ansorc.search.record",
    "Schedule": "ansorc.schedule",
    "State": "ansorc.schedule",
    "Target": "ansorc.target",
    "Task": "ansorc.search.task",
    "TuneResult": "ansorc.search.tune_result",
    "aligned_empty": "ansorc.ir.aligned",
    "build": "ansorc.graph.api",
    "extern": "ansorc.lang.extern",
    "from_onnx": "ansorc.graph.onnx.importer",
    "from_torch": "ansorc.graph.torch.importer",
    "gradient": "ansorc.lang.gradient",
    "intrinsic": "ansorc.lang.intrinsic",
    "load_library": "ansorc.codegen.call.library",
    "lower": "ansorc.schedule",
    "ops": "ansorc.lang.operators",
    "quantize": "ansorc.graph.quantization",
    "register_onnx_op": "ansorc.graph.operators.registered",
    "register_sketch_rule": "ansorc.search.space",
    "replay": "ansorc.schedule",
    "schedule": "ansorc.schedule",
    "sketch_rules": "ansorc.search.space",
    "stop_gradient": "ansorc.lang.gradient",
    "tune": "ansorc.graph.api",
    "unregister_onnx_op": "ansorc.graph.operators.registered",
    "unregister_sketch_rule": "ansorc.search.space",
}
"""Imported when they are first asked for, as the other names, which are those of `ansorc.lang`: the
command line's help, and every process that measures, would wait for them."""


class _Package(ModuleType):
    """The package; `schedule` is the function in it, not the folder that is called so too."""

    def __setattr__(self, name: str, value: object) -> None:
        is_folder = name == "schedule" and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if is_folder else value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    """Return what is imported later."""
    if name not in __all__:
        raise AttributeError(f"module 'ansorc' has no attribute '{name}'")
    module = import_module(_LATER.get(name, "ansorc.lang"))
    value = globals()[name] = module if name == "ops" else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
