"""Lower a State to a loop program: the only interpreter of a schedule."""

from __future__ import annotations

from ansorc.errors import ArgumentError
from ansorc.ir.specialize import with_dims
from ansorc.ir.stmt import Allocate, Function, Seq, Stmt
from ansorc.lang.arguments import check_arguments
from ansorc.schedule.layout import packings
from ansorc.schedule.nest import Nests
from ansorc.schedule.root_nest import copies_at_end, root_nest
from ansorc.schedule.stage import Root
from ansorc.schedule.state import State


@check_arguments
def lower(state: State, name: str = "kernel") -> Function:
    """Return the loop program of `state`, its parameters those of the DAG in call order.

    Inputs whose layout is rewritten have the shape that `packings` says. For an input that is
    updated and its new value there is one parameter.

    Loops carry the marks of their iterators; index expressions are not simplified. Intermediate
    tensors are allocated where they are computed. Raise ValueError for a sketch or a population,
    and ArgumentError if a tensor in shared memory is not computed inside a block of threads.
    """
    nests = Nests(state, ranges={dim.variable: dim.bounds for dim in state.dag.dims})
    roots = [stage for stage in state.stages if isinstance(stage.attach, Root)]
    for stage in roots:
        if stage.scope == "shared":
            raise ArgumentError(
                f"'{stage.name}' is in shared memory, which each block of a GPU's threads has for "
                "itself: compute it inside a loop over blocks (compute_at), or give it the scope "
                f"'global' or 'local'\n\n{state.picture([(stage.name, '')])}"
            )
    stmts: list[Stmt] = []
    for stage in roots:
        stmts += root_nest(nests, stage)
    body: Stmt = Seq((*stmts, *copies_at_end(nests)))
    given = {buffer.name for buffer in state.dag.arguments}
    for stage in reversed(roots):
        for buffer in reversed(nests.placed[stage.name].buffers):
            if buffer.name not in given:
                body = Allocate(buffer, body)
    packed = {packing.source.name: packing.packed for packing in packings(state)}
    params = tuple(packed.get(b.name, b) for b in state.dag.arguments)
    return with_dims(Function(name, params, body, dims=state.dag.dims))
