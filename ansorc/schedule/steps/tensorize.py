"""Tensorize: compute the innermost loop of a reduction by one instruction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.ir.operator import DOT_FUNCTIONS, MATRIX_FUNCTIONS
from ansorc.schedule.dot_body import misfit
from ansorc.schedule.stage import AxisKind, Mark, SplitRelation, Stage
from ansorc.schedule.state import State, Step


@dataclass(frozen=True)
class Tensorize(Step):
    """Compute the innermost loop of a sum of products by the dot product `function`.

        for k in 0..4:
            C[j] += i32(A[k]) * i32(B[j, k])   ->   C[j] = dot4(C[j], A[0:4], B[j, 0:4])

    `dot4` adds four products of int8 or uint8 to an int32; `dot2` two of int16, or of narrower
    integers made int16, or two of bfloat16 to a float32. The result is that of the loop: integers
    wrap, floats are added in another order. The loop must be as long as the function has terms and
    divide its axis. The build refuses a function for which the target has no instruction
    (`ansorc/target/dot_products.py`). With a vectorized loop around it, the operand that varies
    along that loop should have the loop's elements next to each other, `terms` for each.

    For a GPU, `mma_f16`, `mma_bf16` and `mma_s8` use matrix units. They add 16, 16 and 32 products
    of float16, bfloat16 (in float32) and int8 (in int32) to the sums of the threads of a warp.
    `mma_tf32` adds 8 products of float32, without the lowest 13 bits of each factor. The build
    refuses sums that do not form tiles (`ansorc/ir/passes/gpu/matrix_tiles.py`).

    For a CPU with AMX, `tile_bf16`, `tile_f16` and `tile_i8` multiply tiles of up to 16 rows and
    columns. The loop is over the terms that adjoin in both factors: 2, 2 and 4. Around it are the
    loops over columns, over up to 16 such groups, and over rows (`form_matrix_nests`).
    """

    iterator: str
    function: str

    def apply(self, state: State) -> State:
        """Return the state with the loop marked to be computed by `function`."""
        stage = self.stage_of(state)
        position = self.position_of(state, stage, self.iterator)
        iterator = stage.iterators[position]
        functions = {**DOT_FUNCTIONS, **MATRIX_FUNCTIONS}
        known = ", ".join(functions)
        self.require(
            state, f"there is no dot product '{self.function}'; use {known}",
            condition=self.function in functions,
        )  # fmt: skip
        self.require_markable(state, iterator)
        is_inside = position == len(stage.iterators) - 1 and iterator.kind is AxisKind.REDUCE
        self.require(
            state, f"'{self.iterator}' is not a reduction inside all other loops; reorder first",
            condition=is_inside,
        )  # fmt: skip
        terms = functions[self.function]
        self.require(
            state, f"'{self.iterator}' runs {iterator.extent} times, but {self.function} adds "
            f"{terms} products; split it by {terms}",
            condition=isinstance(iterator.extent, int) and iterator.extent == terms,
        )  # fmt: skip
        self._check_body(state, stage, position)
        mark = Mark.MATRIX if self.function in MATRIX_FUNCTIONS else Mark.TENSORIZE
        marked = replace(iterator, mark=mark, function=self.function)
        return state.with_stage(stage.with_iterator(position, marked))

    def _check_body(self, state: State, stage: Stage, position: int) -> None:
        for relation in stage.relations:
            if isinstance(relation, SplitRelation) and not relation.is_exact:
                self.require(
                    state, f"the reduction '{relation.parent.name}' was split into parts that do "
                    "not divide it; pad it with zeros to a multiple",
                    condition=relation.parent.kind is AxisKind.SPACE,
                )  # fmt: skip
        self.require_even(state, stage, stage.iterators[position], "tensorized")
        self.require(
            state, f"the terms of '{stage.name}' go to places, one by one",
            condition=not stage.op.places,
        )  # fmt: skip
        for inner in state.stages_inside(stage.name, stage.iterators[position].name):
            self.refuse(state, f"'{inner.name}' is computed inside '{self.iterator}'")
        reason = misfit(stage.op, self.function)
        self.require(state, reason, condition=not reason)
