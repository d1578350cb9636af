"""AccessFeatures: how a statement uses each of at most five tensors, the most used ones first.

What statements before it wrote or read in an iteration of loops around both, it finds in the
caches: so when an element is used next depends on these too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Compare,
    Expr,
    Load,
    Not,
    Select,
    Var,
    dtype_of,
)
from ansorc.ir.node import Node, walk
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.stage import Stage
from ansorc.search.features.access import Access, Places, accesses_of, places_of
from ansorc.search.features.columns import LOG, BoolArray, FloatArray
from ansorc.search.features.loop_nest import LoopNest, LoopNests, NestLoop
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class PaperOperations:
    """Operations over all iterations, those in the indices of loads included."""

    float_multiply_added: FloatArray = field(metadata=LOG)
    """Float additions of a product, which one instruction does; they count as both as well."""
    float_added: FloatArray = field(metadata=LOG)
    """Float additions and subtractions."""
    float_multiplied: FloatArray = field(metadata=LOG)
    """Float multiplications."""
    float_divided: FloatArray = field(metadata=LOG)
    """Float divisions and remainders."""
    float_compared: FloatArray = field(metadata=LOG)
    """Float comparisons, minima and maxima."""
    float_math: FloatArray = field(metadata=LOG)
    """Calls of math functions."""
    float_called: FloatArray = field(metadata=LOG)
    """Calls of other functions: 0, as the language has none."""
    integer_multiply_added: FloatArray = field(metadata=LOG)
    """Integer additions of a product in the definition; they count as both as well."""
    integer_added: FloatArray = field(metadata=LOG)
    """Integer additions and subtractions, those that put an axis together from loops included."""
    integer_multiplied: FloatArray = field(metadata=LOG)
    """Integer multiplications, those by the steps of loops included."""
    integer_divided: FloatArray = field(metadata=LOG)
    """Integer divisions and remainders."""
    integer_compared: FloatArray = field(metadata=LOG)
    """Integer comparisons, minima and maxima."""
    integer_math: FloatArray = field(metadata=LOG)
    """Calls of math functions of integers: 0, as the language has none."""
    integer_called: FloatArray = field(metadata=LOG)
    """Calls of other functions of integers: 0, as the language has none."""
    logical: FloatArray = field(metadata=LOG)
    """Logical operations."""
    selected: FloatArray = field(metadata=LOG)
    """Selections of one of two values; both count as computed."""


_OPERATION_NAMES = tuple(PaperOperations.__dataclass_fields__)
_KINDS = {
    BinaryOp.MUL: "multiplied",
    BinaryOp.DIV: "divided",
    BinaryOp.FLOORDIV: "divided",
    BinaryOp.MOD: "divided",
    BinaryOp.MIN: "compared",
    BinaryOp.MAX: "compared",
    BinaryOp.ADD: "added",
    BinaryOp.SUB: "added",
}


def paper_operations(nest: LoopNest, iterations: FloatArray) -> PaperOperations:
    """Return the operations of the statement of `nest`; what it begins with costs none.

    An axis that is made of several loops is `Σ step * loop`, wherever the value reads it.
    """
    counts: dict[str, FloatArray] = {name: np.zeros_like(iterations) for name in _OPERATION_NAMES}
    for node in _nodes(nest.stage.op):
        for name in _kinds_of(node):
            counts[name] = counts[name] + 1
        if isinstance(node, Var):
            added, multiplied = _parts(nest, node.name, np.zeros_like(iterations))
            counts["integer_added"] = counts["integer_added"] + added
            counts["integer_multiplied"] = counts["integer_multiplied"] + multiplied
    return PaperOperations(**{name: count * iterations for name, count in counts.items()})


def _nodes(op: ComputeOp) -> list[Node]:
    values = list(op.parts)
    if op.combiner is not None:
        indices = tuple(Var(axis.name) for axis in op.axes)
        values = list(op.combine([Load(buffer, indices) for buffer in op.buffers], values))
    return [node for value in values for node in walk(value)]


def _parts(nest: LoopNest, axis: str, zeros: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The additions and multiplications that make up an axis of its loops."""
    moving = scaled = zeros
    for loop, step in zip(nest.loops, nest.axes[axis], strict=True):
        if step is not None:
            is_part = (loop.extent > 1) & (step != 0)
            moving = moving + is_part
            scaled = scaled + (is_part & (np.abs(step) != 1))
    return np.maximum(moving - 1, 0), scaled


def _kinds_of(node: Node) -> tuple[str, ...]:
    match node:
        case Binary(op, left, right) if op in _KINDS:
            prefix, kind = _type(left), _KINDS[op]
            is_fused = kind == "added" and (_is_product(left) or _is_product(right))
            kinds = (kind, "multiply_added") if is_fused else (kind,)
            return tuple(f"{prefix}_{each}" for each in kinds)
        case Binary() | Not():
            return ("logical",)
        case Compare(_, left, _):
            return (f"{_type(left)}_compared",)
        case Select():
            return ("selected",)
        case Call():
            return (f"{_type(node)}_math",)
        case _:
            return ()


def _type(operand: Expr) -> str:
    return "float" if dtype_of(operand).is_float else "integer"


def _is_product(operand: Expr) -> bool:
    return isinstance(operand, Binary) and operand.op is BinaryOp.MUL


BUFFERS = 5
"""Tensors with features of their own; of more, those with the fewest lines are left out."""


@dataclass(frozen=True, eq=False)
class AccessFeatures:
    """One tensor of a statement; all 0 where it has fewer. Loads of one tensor whose indices move
    in different ways count as tensors of their own."""

    is_read: FloatArray
    """1 if the tensor is only read, else 0, as in the following."""
    is_written: FloatArray
    """1 if it is only written."""
    is_updated: FloatArray
    """1 if it is read and written."""
    bytes: FloatArray = field(metadata=LOG)
    """Bytes of one element for each iteration."""
    unique_bytes: FloatArray = field(metadata=LOG)
    """Bytes of different elements."""
    lines: FloatArray = field(metadata=LOG)
    """Cache lines fetched if only neighbouring iterations share one."""
    unique_lines: FloatArray = field(metadata=LOG)
    """Different cache lines."""
    has_loop_reuse: FloatArray
    """1 if the next use of an element is in another iteration of a loop that does not move it."""
    has_serial_reuse: FloatArray
    """1 if the next use is by another statement in the same iteration of a loop."""
    has_no_reuse: FloatArray
    """1 if an element is used once."""
    reuse_iterations: FloatArray = field(metadata=LOG)
    """Iterations between two uses; 0 without reuse."""
    reuse_bytes: FloatArray = field(metadata=LOG)
    """Bytes of different elements that all statements there touch between two uses."""
    reuse_count: FloatArray = field(metadata=LOG)
    """Uses: iterations of the loop, or statements before; 0 without reuse."""
    bytes_per_use: FloatArray = field(metadata=LOG)
    """`bytes` for each use; twice the bytes without reuse, as in the following."""
    unique_bytes_per_use: FloatArray = field(metadata=LOG)
    """`unique_bytes` for each use."""
    lines_per_use: FloatArray = field(metadata=LOG)
    """`lines` for each use."""
    unique_lines_per_use: FloatArray = field(metadata=LOG)
    """`unique_lines` for each use."""
    stride: FloatArray = field(metadata=LOG)
    """Elements from one iteration of the innermost loop to the next."""


_NAMES = tuple(each.name for each in fields(AccessFeatures))


def access_columns(
    accesses: Sequence[Access], places: Places, earlier: Sequence[EarlierStatement]
) -> Iterator[FloatArray]:
    """Yield the columns of the tensors, sorted in each row by lines and bytes, the most first."""
    found = [_access_features(access, places, earlier) for access in accesses]
    lines = np.stack([features.lines for features in found])
    sizes = np.stack([features.bytes for features in found])
    order = np.lexsort((-sizes, -lines), axis=0)[:BUFFERS]
    columns = {
        name: np.take_along_axis(np.stack([getattr(each, name) for each in found]), order, axis=0)
        for name in _NAMES
    }
    for place in range(len(order)):
        yield from (columns[name][place] for name in _NAMES)
    yield from [np.zeros(accesses[0].rows, dtype=np.float32)] * (
        (BUFFERS - len(order)) * len(_NAMES)
    )


def _access_features(
    access: Access, places: Places, earlier: Sequence[EarlierStatement]
) -> AccessFeatures:
    ones = np.ones(access.rows, dtype=np.float32)
    reuse = _reuse(access, places, earlier)
    lines, stride = _lines(access, places)
    moved = (
        places.inside[0] * access.element_bytes,
        access.elements[0] * access.element_bytes,
        lines,
        access.lines[0],
    )
    return AccessFeatures(
        ones * (access.is_read and not access.is_written),
        ones * (access.is_written and not access.is_read),
        ones * (access.is_read and access.is_written),
        *moved,
        has_loop_reuse=reuse.is_loop,
        has_serial_reuse=reuse.is_serial,
        has_no_reuse=1 - reuse.is_loop - reuse.is_serial,
        reuse_iterations=reuse.iterations,
        reuse_bytes=reuse.bytes,
        reuse_count=reuse.count,
        bytes_per_use=_per_use(moved[0], reuse.count),
        unique_bytes_per_use=_per_use(moved[1], reuse.count),
        lines_per_use=_per_use(moved[2], reuse.count),
        unique_lines_per_use=_per_use(moved[3], reuse.count),
        stride=stride,
    )


def _per_use(amount: FloatArray, uses: FloatArray) -> FloatArray:
    return np.where(uses > 0.5, amount / np.maximum(uses, 0.5), 2 * amount)


def _lines(access: Access, places: Places) -> tuple[FloatArray, FloatArray]:
    """The lines fetched, and the stride of the innermost loop.

    Loops that do not move the access find its line again; the next one out fetches one line for
    each of its iterations, or for each few where it moves by less than a line.
    """
    steps, skipped = np.zeros(access.rows, dtype=np.float32), np.ones(access.rows, dtype=np.float32)
    innermost = np.zeros(access.rows, dtype=np.float32)
    for place in reversed(range(len(access.nest.loops))):
        extent = access.nest.loops[place].extent
        stride = access.strides[place] * (extent > 1)
        skipped = np.where((steps == 0) & (stride == 0), skipped * extent, skipped)
        is_last = (places.inside[place + 1] == 1) & (extent > 1)
        innermost = np.where(is_last, stride, innermost)
        steps = np.where(steps == 0, stride, steps)
    share = np.minimum(steps * access.element_bytes / access.line_bytes, 1)
    return np.maximum(places.inside[0] / skipped * share, 1), innermost


@dataclass(frozen=True, eq=False)
class PaperReuse:
    """The reuse of the innermost loop that has one; arrays are [rows], 0 without any."""

    is_loop: FloatArray
    """1 if the next use is in the next iteration of a loop, else 0."""
    is_serial: FloatArray
    """1 if statements before touch the tensor in the same iteration of a loop, else 0."""
    iterations: FloatArray
    bytes: FloatArray
    count: FloatArray


def _reuse(access: Access, places: Places, earlier: Sequence[EarlierStatement]) -> PaperReuse:
    """Return how the tensor of `access` is used again, by its statement or by `earlier` ones."""
    zeros = np.zeros(access.rows, dtype=np.float32)
    reuse = PaperReuse(zeros, zeros, zeros, zeros, zeros)
    is_open = np.ones(access.rows, dtype=np.bool_)
    for place in reversed(range(len(access.nest.loops))):
        is_moved = access.moving[place]
        found = (_serial if is_moved else _repeated)(access, places, earlier, place)
        if found is None:
            continue
        chosen = is_open & (access.nest.loops[place].extent > 1)
        is_open = is_open & ~chosen
        reuse = PaperReuse(
            np.where(chosen, not is_moved, reuse.is_loop),
            np.where(chosen, is_moved, reuse.is_serial),
            np.where(chosen, found[0], reuse.iterations),
            np.where(chosen, found[1], reuse.bytes),
            np.where(chosen, found[2], reuse.count),
        )
    return reuse


def _repeated(
    access: Access, places: Places, earlier: Sequence[EarlierStatement], place: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The reuse of a loop that does not move the access: all that its body touches lies between."""
    inside = places.inside[place + 1]
    between = places.bytes[place + 1]
    for other in (n for n in earlier if n.shared > place):
        is_deeper = other.is_inside(access.nest.loops, place + 1)
        within = other.places.bytes[min(place + 1, other.shared)]
        alone = np.where(inside == 1, other.element_bytes, 0)
        between = between + np.where(is_deeper, within, alone)
    return inside, between, access.nest.loops[place].extent


def _serial(
    access: Access, places: Places, earlier: Sequence[EarlierStatement], place: int
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """The reuse of what statements before touched in the same iteration; None without any."""
    least = access.elements[place]
    between = places.bytes[place]
    uses = 0
    for other in (n for n in earlier if n.shared > place):
        between = between + other.places.bytes[place]
        touched = other.touched(access.buffer.name, place)
        if touched is not None:
            least = np.minimum(least, touched)
            uses += 1
    extent = access.nest.loops[place].extent
    return (least / extent, between / extent, extent * 0 + uses) if uses else None


@dataclass(frozen=True, eq=False)
class EarlierStatement:
    """A statement that runs before another one in iterations of the same loops."""

    shared: int
    """The loops around both."""
    accesses: Sequence[Access]
    places: Places

    @property
    def element_bytes(self) -> int:
        """Bytes of one element of each tensor that it touches."""
        return sum(access.element_bytes for access in self.accesses)

    def touched(self, buffer: str, place: int) -> FloatArray | None:
        """Return [rows]: elements of a tensor touched inside a place; None if not of that one."""
        found = [a.elements[place] for a in self.accesses if a.buffer.name == buffer]
        return np.maximum.reduce(found) if found else None

    def is_inside(self, loops: Sequence[NestLoop], place: int) -> BoolArray:
        """Return [rows]: whether it shares a loop, of more than one iteration, from `place` on."""
        extents = [loop.extent > 1 for loop in loops[place : self.shared]]
        return (
            np.logical_or.reduce(extents)
            if extents
            else np.zeros(len(self.places.inside[0]), dtype=np.float32) > 0
        )


def earlier_statements(nests: LoopNests, nest: LoopNest, target: Target) -> list[EarlierStatement]:
    """Return the statements before that of `nest` which share loops with it."""
    found: list[EarlierStatement] = []
    for stage in nests.state.stages:
        if stage is nest.stage:
            break
        shared = 0 if stage.is_inlined else _shared(nests, stage, nest.stage)
        if shared:
            other = nests.nest(stage)
            accesses = accesses_of(nests, other, target, is_held=False)
            found.append(EarlierStatement(shared, accesses, places_of(other, accesses)))
    return found


def _shared(nests: LoopNests, first: Stage, second: Stage) -> int:
    """The number of loops around both stages."""
    count = 0
    for one, other in zip(_path(nests, first), _path(nests, second), strict=False):
        if one != other:
            break
        owner, iterator = one
        count = nests.nest(nests.state.stage(owner)).ends[iterator]
    return count


def _path(nests: LoopNests, stage: Stage) -> list[tuple[str, str]]:
    around = [(owner.name, iterator.name) for owner, iterator in nests.state.around(stage)]
    return around + [(stage.name, iterator.name) for iterator in stage.iterators]
