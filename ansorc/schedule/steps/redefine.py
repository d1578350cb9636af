"""Redefine: compute a stage by other arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.ir.buffer import Buffer
from ansorc.ir.expr import Var
from ansorc.ir.transform import Transform, transform_element
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.definitions import DEFINITIONS, OF_CONVOLUTIONS, Redefinition
from ansorc.lang.definitions.extreme_in_blocks import LEAST_PLACES
from ansorc.lang.definitions.scan_blocks import LEAST_STEPS
from ansorc.lang.naming import unique_name
from ansorc.schedule.bounds import settle
from ansorc.schedule.stage import Making, Origin, Root, Stage, initial_stage
from ansorc.schedule.state import State, Step


@dataclass(frozen=True)
class Redefine(Step):
    """Compute a stage by the arithmetic of `definition` (see `ansorc.lang.definitions`).

        for n, h, c: for r, k:           for p, n, y, i: y.spread = Σ B[p, …] * x[n, 2 * y + …, i]
            y[n, h, c] +=           ->   for p, n, y, c, k: y.product += y.spread * w[p, k, c]
                x[n, h + r, k]           for n, h, c: y = Σ A[h % 2, …] * y.product[…, h // 2, c]
                * w[r, k, c]

    A constant input that nothing else reads is transformed once, before the first call (`Packing`).
    The transform of any other input is a stage of its own, `<stage>.weight`.

        for t: y[t] = y[t - 1] + x[t]    ->    for b, j: y.total[b] += x[b * 256 + j]
                                               for b: y.start[b] = y.start[b - 1] + y.total[b - 1]
                                               for b, j: y.blocks[b, j] = y.blocks[b, j - 1] + …
                                               for t: y[t] = y.blocks[t // 256, t % 256]

        for k: y += low(w[k // 2], k % 2)    ->    for k: y += low(w[k], 0) * x[k * 2]
            * x[k]                                           + low(w[k], 1) * x[k * 2 + 1]

    A sum of "digits" has a term for each remainder of a reduce axis.

    An argmax by "extreme" looks for the value first, in blocks, and then for its place in the block
    that has it.

    Products of bytes by "int16" read factors that are widened to int16 before. Products of int8 by
    "shifted" read one of them in uint8, shifted by 128; the sums are corrected. Products of floats
    of 16 bits by "widened" read factors that are widened to float32 before.

    A scan in "blocks" has steps that are associative: sums, products, extremes, and those that are
    linear in the state.
    """

    keeps_arrays = False

    definition: str

    def apply(self, state: State) -> State:
        """Return the state with the new stages in the place of the old one."""
        stage = self.stage_of(state)
        made = self._find_definition(state, stage)
        ops = _with_fresh_names(made.ops, state)
        tensor = "" if made.weight is None else made.weight.name
        transformed = dict(state.transformed)
        source = next((b for b in state.dag.inputs if b.name == tensor), None)
        if source is not None and source.constant and len(state.readers(tensor)) == 1:
            transformed[tensor] = (*transformed.get(tensor, ()), *made.transforms)
        elif made.weight is not None:
            name = state.fresh_name(f"{self.stage}.weight")
            ops = _with_weight(ops, stage, (made.weight, made.transforms), name)
        origin = Origin(stage.origin.node, Making.REDEFINITION, stage.name)
        new = [initial_stage(op, origin, is_output=False) for op in ops[:-1]]
        new.append(initial_stage(ops[-1], stage.origin, is_output=stage.is_output))
        position = state.stages.index(stage)
        stages = (*state.stages[:position], *new, *state.stages[position + 1 :])
        pairs = tuple(transformed.items())
        return settle(replace(state, stages=stages, transformed=pairs), self, state)

    def _find_definition(self, state: State, stage: Stage) -> Redefinition:
        known = ", ".join(f"'{name}'" for name in DEFINITIONS)
        self.require(
            state, f"there is no definition '{self.definition}'; use {known}",
            condition=self.definition in DEFINITIONS,
        )  # fmt: skip
        self.require_untouched(state, stage, "use redefine")
        held = [(inner.name, "") for inner in state.stages_inside(stage.name)]
        self.require(
            state, f"'{self.stage}' is computed inside another stage, or stages inside it; use "
            "redefine before that", *(held or [(self.stage, "")]),
            condition=isinstance(stage.attach, Root) and not held,
        )  # fmt: skip
        made = DEFINITIONS[self.definition](stage.op)
        if made is None:
            reason = _needs(self.definition)
            self.refuse(
                state, f"'{self.stage}' has no definition '{self.definition}': it is {reason}"
            )
        return made


def _needs(definition: str) -> str:
    """Return what a stage is not for which a definition does not exist."""
    if definition in OF_CONVOLUTIONS:
        return (
            "no sum of products of floats along windows of 3 taps and stride 1 ('winograd4': "
            "of floats of 32 bits or more)"
        )
    if definition == "digits":
        return (
            "no sum over a reduce axis k whose terms read k // c or k % c, for one c up to 8 that "
            "divides its extent"
        )
    if definition == "extreme":
        return (
            f"no ac.argmax or ac.argmin along {LEAST_PLACES} terms or more, and fewer than 2^31 in "
            "all, none of which has a range that is data"
        )
    if definition == "int16":
        return "no sum in int32 of products of bytes, one of which at least is no constant"
    if definition == "widened":
        return (
            "no sum in float32 of products of float16 or bfloat16, one of which at least is no "
            "constant and is read for several results"
        )
    if definition == "shifted":
        return "no sum in int32 of products of int8, one of which alone depends on the last axis"
    return (
        f"no scan of {LEAST_STEPS} steps or more that adds to its state, multiplies it, takes the "
        "larger or the smaller, or is linear in it"
    )


def _with_fresh_names(ops: Sequence[ComputeOp], state: State) -> tuple[ComputeOp, ...]:
    """Return the ops; all but the last get names that no tensor of `state` has."""
    renamed = list(ops)
    for position, op in enumerate(renamed[:-1]):
        name = state.fresh_name(op.name)
        if name == op.name:
            continue  # what is known of the op, and of its readers, is kept
        new = replace(op.buffer, name=name)
        renamed[position] = op.with_buffers([new])
        renamed[position + 1 :] = [
            reader.reading(op.buffer, new) for reader in renamed[position + 1 :]
        ]
    return tuple(renamed)


def _with_weight(
    ops: Sequence[ComputeOp],
    stage: Stage,
    transformed: tuple[Buffer, tuple[Transform, ...]],
    name: str,
) -> tuple[ComputeOp, ...]:
    """Return the ops after one called `name` that computes the transformed weight."""
    weight, transforms = transformed
    source = next(buffer for buffer in stage.op.reads if buffer.name == weight.name)
    buffer = Buffer(name, weight.shape, weight.dtype)
    taken = {axis.name for axis in (*stage.op.axes, *stage.op.reduce_axes)}
    axes = tuple(
        Axis(unique_name(f"ax{n}", taken), extent) for n, extent in enumerate(buffer.shape)
    )
    indices = [Var(axis.name) for axis in axes]
    body = transform_element(source, transforms, indices)
    names = ",".join(axes[each.dimension].name for each in transforms)
    hints = (("simplify_const_tensor_indices", names),)
    spread = ComputeOp(buffer.name, buffer, axes, (), None, body, hints)
    return (spread, *(op.reading(weight, buffer) for op in ops))
