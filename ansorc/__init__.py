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
    from ansorc.graph.graph import Graph
    from ansorc.graph.graph_variants import GraphVariants
    from ansorc.graph.onnx.importer import from_onnx
    from ansorc.graph.operators.registered import register_onnx_op, unregister_onnx_op
    from ansorc.graph.torch.importer import from_torch
    from ansorc.graph.verbs import build, tune
    from ansorc.ir.aligned import aligned_empty
    from ansorc.ir.stmt import Function
    from ansorc.lang import (
        Axis,
        Combiner,
        ComputeDAG,
        ComputeOp,
        Reduction,
        Tensor,
        TupleReduction,
        abs,
        all,
        all_of,
        any,
        any_of,
        argmax,
        argmin,
        cast,
        ceil,
        compute,
        compute_tuple,
        const,
        cos,
        equal,
        erf,
        exp,
        exp2,
        expm1,
        floor,
        if_then_else,
        load_workload,
        log,
        log1p,
        log2,
        logical_not,
        max,
        maximum,
        min,
        minimum,
        not_equal,
        placeholder,
        power,
        prod,
        reduce_axis,
        reducer,
        round,
        rsqrt,
        sigmoid,
        sin,
        sqrt,
        sum,
        tanh,
        workload,
    )
    from ansorc.lang import operators as ops
    from ansorc.schedule import Schedule, State, lower, replay, schedule
    from ansorc.search.record import Records
    from ansorc.search.sketch import register_sketch_rule, unregister_sketch_rule
    from ansorc.search.space import sketch_rules
    from ansorc.search.task import Task
    from ansorc.search.tune_result import TuneResult
    from ansorc.target import Target

__all__ = [
    "AnsorcError",
    "Axis",
    "Combiner",
    "ComputeDAG",
    "ComputeOp",
    "Function",
    "Graph",
    "GraphVariants",
    "Module",
    "NetworkModule",
    "NetworkVariants",
    "Records",
    "Reduction",
    "Schedule",
    "State",
    "Target",
    "Task",
    "Tensor",
    "TuneResult",
    "TupleReduction",
    "abs",
    "aligned_empty",
    "all",
    "all_of",
    "any",
    "any_of",
    "argmax",
    "argmin",
    "build",
    "cast",
    "ceil",
    "compute",
    "compute_tuple",
    "const",
    "cos",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "from_onnx",
    "from_torch",
    "if_then_else",
    "load_library",
    "load_workload",
    "log",
    "log1p",
    "log2",
    "logical_not",
    "lower",
    "max",
    "maximum",
    "min",
    "minimum",
    "not_equal",
    "ops",
    "placeholder",
    "power",
    "prod",
    "reduce_axis",
    "reducer",
    "register_onnx_op",
    "register_sketch_rule",
    "replay",
    "round",
    "rsqrt",
    "schedule",
    "sigmoid",
    "sin",
    "sketch_rules",
    "sqrt",
    "sum",
    "tanh",
    "tune",
    "unregister_onnx_op",
    "unregister_sketch_rule",
    "workload",
]

_LATER = {
    "Axis": "ansorc.lang",
    "Combiner": "ansorc.lang",
    "ComputeDAG": "ansorc.lang",
    "ComputeOp": "ansorc.lang",
    "Function": "ansorc.ir.stmt",
    "Graph": "ansorc.graph.graph",
    "GraphVariants": "ansorc.graph.graph_variants",
    "Module": "ansorc.codegen.call.module",
    "NetworkModule": "ansorc.codegen.call.network_module",
    "NetworkVariants": "ansorc.codegen.call.network_variants",
    "Records": "ansorc.search.record",
    "Reduction": "ansorc.lang",
    "Schedule": "ansorc.schedule",
    "State": "ansorc.schedule",
    "Target": "ansorc.target",
    "Task": "ansorc.search.task",
    "Tensor": "ansorc.lang",
    "TuneResult": "ansorc.search.tune_result",
    "TupleReduction": "ansorc.lang",
    "abs": "ansorc.lang",
    "aligned_empty": "ansorc.ir.aligned",
    "all": "ansorc.lang",
    "all_of": "ansorc.lang",
    "any": "ansorc.lang",
    "any_of": "ansorc.lang",
    "argmax": "ansorc.lang",
    "argmin": "ansorc.lang",
    "build": "ansorc.graph.verbs",
    "cast": "ansorc.lang",
    "ceil": "ansorc.lang",
    "compute": "ansorc.lang",
    "compute_tuple": "ansorc.lang",
    "const": "ansorc.lang",
    "cos": "ansorc.lang",
    "equal": "ansorc.lang",
    "erf": "ansorc.lang",
    "exp": "ansorc.lang",
    "exp2": "ansorc.lang",
    "expm1": "ansorc.lang",
    "floor": "ansorc.lang",
    "from_onnx": "ansorc.graph.onnx.importer",
    "from_torch": "ansorc.graph.torch.importer",
    "if_then_else": "ansorc.lang",
    "load_library": "ansorc.codegen.call.library",
    "load_workload": "ansorc.lang",
    "log": "ansorc.lang",
    "log1p": "ansorc.lang",
    "log2": "ansorc.lang",
    "logical_not": "ansorc.lang",
    "lower": "ansorc.schedule",
    "max": "ansorc.lang",
    "maximum": "ansorc.lang",
    "min": "ansorc.lang",
    "minimum": "ansorc.lang",
    "not_equal": "ansorc.lang",
    "ops": "ansorc.lang.operators",
    "placeholder": "ansorc.lang",
    "power": "ansorc.lang",
    "prod": "ansorc.lang",
    "reduce_axis": "ansorc.lang",
    "reducer": "ansorc.lang",
    "register_onnx_op": "ansorc.graph.operators.registered",
    "register_sketch_rule": "ansorc.search.sketch",
    "replay": "ansorc.schedule",
    "round": "ansorc.lang",
    "rsqrt": "ansorc.lang",
    "schedule": "ansorc.schedule",
    "sigmoid": "ansorc.lang",
    "sin": "ansorc.lang",
    "sketch_rules": "ansorc.search.space",
    "sqrt": "ansorc.lang",
    "sum": "ansorc.lang",
    "tanh": "ansorc.lang",
    "tune": "ansorc.graph.verbs",
    "unregister_onnx_op": "ansorc.graph.operators.registered",
    "unregister_sketch_rule": "ansorc.search.sketch",
    "workload": "ansorc.lang",
}
"""Imported when they are first asked for: the command line's help, and every process that
measures, would wait for them."""


class _Package(ModuleType):
    """The package; `schedule` is the function in it, not the folder that is called so too."""

    def __setattr__(self, name: str, value: object) -> None:
        is_folder = name == "schedule" and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if is_folder else value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    """Return what is imported later."""
    if name not in _LATER:
        raise AttributeError(f"module 'ansorc' has no attribute '{name}'")
    module = import_module(_LATER[name])
    value = globals()[name] = module if name == "ops" else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
