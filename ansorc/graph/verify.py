"""Whether a graph, and its kernels, are what they should be: checked apart from who made them.

`ANSORC_VERIFY_EACH=1` has every pass followed by it, else only all of them together are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansorc.errors import AnsorcError, InternalError
from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.partition import GraphPartition
from ansorc.graph.tensor_type import TensorType
from ansorc.ir.dump import VARIABLE, DumpFolder

_MOST_SHOWN, _MOST_SHOWN_TEXT = 5, 4000


def verify_rewrite(before: Graph, after: Graph, name: str, dump: DumpFolder | None = None) -> None:
    """Raise InternalError unless `after` is a graph that has the inputs and outputs of `before`.

    `name` is the pass that made it, `dump` the folder that has both.
    """
    problems = [*graph_problems(after), *interface_problems(before, after)]
    if problems:
        raise InternalError(
            f"the pass {name} made {_list_problems(problems)}", report_of(before, dump)
        )


def verify_partition(graph: Graph, partition: GraphPartition) -> None:
    """Raise InternalError unless the kernels of `partition` compute all outputs of `graph`."""
    problems = list(partition_problems(graph, partition))
    if problems:
        words = f"'{graph.name}' was cut into kernels of which {_list_problems(problems)}"
        raise InternalError(words, report_of(graph))


def report_of(graph: Graph, dump: DumpFolder | None = None) -> str:
    """Return what to send to those who mend ansorc: the text of a graph has no weights in it.

    It is in the folder `dump`, else in the words.
    """
    if dump is not None:
        return f"the files in {dump.path} (its weights are not in them)"
    text = graph.to_text()
    rest = f"… ({VARIABLE}=DIR writes all of it, and what each pass made, to files)"
    shown = text if len(text) < _MOST_SHOWN_TEXT else f"{text[:_MOST_SHOWN_TEXT]}{rest}"
    return f"this text of the network (its weights are not in it):\n{shown}"


def graph_problems(graph: Graph) -> Iterator[str]:
    """Yield what is wrong with a graph: who computes each tensor, of which type, in which order."""
    known: dict[str, TensorType] = {}
    for name, kind in graph.inputs.items():
        yield from _declare(known, name, kind, "input")
    for name, array in graph.constants.items():
        if not array.flags.c_contiguous:
            yield f"the constant '{name}', whose elements do not lie in order"
        yield from _declare(known, name, TensorType.of_array(array), "constant")
    for node in graph.nodes:
        yield from _node_problems(graph, node, known)
    for name in graph.outputs:
        if name not in known:
            yield f"the output '{name}', which nothing computes"
    if not graph.outputs:
        yield "no outputs"
    stray = [name for name in graph.types if name not in known]
    if stray:
        yield f"a type of '{stray[0]}', which nothing computes"


def _declare(known: dict[str, TensorType], name: str, kind: TensorType, what: str) -> Iterator[str]:
    """Note a tensor and yield what is wrong with it."""
    if not name:
        yield f"an {what} without a name"
    if name in known:
        yield f"two tensors called '{name}', one of them an {what}"
    if min(kind.shape, default=1) < 1:
        yield f"the {what} '{name}', which is {kind}"
    known[name] = kind


def _node_problems(graph: Graph, node: GraphNode, known: dict[str, TensorType]) -> Iterator[str]:
    """Yield what is wrong with a node, where `known` has the tensors so far; note its outputs."""
    missing = [name for name in node.inputs if name not in known]
    if missing:
        yield f"the node '{node.name}', which reads '{missing[0]}' before it is computed"
        kinds = tuple(graph.types[name] for name in node.outputs)
    else:
        given = tuple(known[name] for name in node.inputs)
        try:
            made = node.operator.dag(given, node.attributes).outputs  # whatever the graph says
        except AnsorcError as error:
            yield f"the node '{node.name}', which has no meaning: {error}"
            return
        kinds = tuple(TensorType(buffer.dtype, buffer.shape) for buffer in made)
    if len(kinds) != len(node.outputs):
        yield f"the node '{node.name}' with {len(node.outputs)} outputs, not {len(kinds)}"
    for name, kind in zip(node.outputs, kinds, strict=False):
        if graph.types.get(name) != kind:
            yield f"'{name}', noted as {graph.types.get(name)}, while {node.operator} makes {kind}"
        yield from _declare(known, name, kind, "output of a node")


def interface_problems(before: Graph, after: Graph) -> Iterator[str]:
    """Yield where a rewritten graph has other inputs or outputs than the one that it was made of.

    Outputs keep their names; but one that is an input of the network, or that is returned a second
    time, gets another one with memory of its own.
    """
    if list(before.inputs.items()) != list(after.inputs.items()):
        yield f"inputs {_list_types(after.inputs)} of {_list_types(before.inputs)}"
    if len(before.outputs) != len(after.outputs):
        yield f"{len(after.outputs)} outputs of {len(before.outputs)}"
    seen = set(before.inputs)
    for old, new in zip(before.outputs, after.outputs, strict=False):
        if before.types[old] != after.types.get(new):
            yield f"the output '{old}', {before.types[old]}, to {after.types.get(new)}"
        if old != new and old not in seen:
            yield f"the output '{old}' to one called '{new}'"
        seen.add(old)


def partition_problems(graph: Graph, partition: GraphPartition) -> Iterator[str]:
    """Yield what is wrong with kernels: each reads what there is, and each output is written once.

    After the rewrites each output has memory of its own; only then does this hold.
    """
    written = {*graph.inputs, *graph.constants}
    for group in partition.groups:
        for name in group.inputs:
            if partition.root(name) not in written:
                yield f"'{group.title}' reads '{name}' before it is computed"
        inside = {*group.inputs, *(n for n in graph.constants if graph.types[n].elements == 1)}
        for node in group.nodes:
            missing = [name for name in node.inputs if name not in inside]
            if missing:
                yield f"'{group.title}' needs '{missing[0]}', which it does not read"
            inside.update(node.outputs)
        for name in group.outputs:
            if name in written:
                yield f"'{group.title}' computes '{name}' a second time"
            if name not in inside:
                yield f"'{group.title}' should write '{name}', but does not compute it"
            written.add(name)
    for name, source in partition.aliases.items():
        if graph.types[name].bytes != graph.types[source].bytes:
            yield f"'{name}' has the memory of '{source}', which is of another size"
    roots = [partition.root(name) for name in graph.outputs]
    for name, root in zip(graph.outputs, roots, strict=True):
        if root not in written or root in graph.inputs or root in graph.constants:
            yield f"none writes the output '{name}'"
        if roots.count(root) > 1:
            yield f"the output '{name}' shares its memory with another"


def _list_types(given: Mapping[str, TensorType]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in given.items()) or "none"


def _list_problems(problems: list[str]) -> str:
    more = len(problems) - _MOST_SHOWN
    return "; ".join([*problems[:_MOST_SHOWN], *([f"{more} more"] if more > 0 else [])])
