"""Dimensions whose size the caller of a kernel gives: making them, and definitions at one size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ansorc.errors import LanguageError
from ansorc.ir.arith.affine import Atom, linear
from ansorc.ir.buffer import Buffer
from ansorc.ir.dim import (
    Dim,
    Size,
    SizeLike,
    dims_of,
    most_of,
    parse_size,
    size_of,
)
from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Load, Var
from ansorc.ir.node import Node, rewrite
from ansorc.ir.size_expr import size_expr
from ansorc.ir.specialize import resized_buffer
from ansorc.ir.substitute import substitute
from ansorc.lang.compute_op import Axis, ComputeOp
from ansorc.lang.literal import as_integer, short_text

_MOST = 1 << 40
"""The most elements along a dimension: no array in memory has more."""


def dim(name: str, low: int, high: int, multiple: int = 1) -> Size:
    """Return a dimension of `low` to `high` elements, for shapes and reduce axes.

    One kernel serves every size: the caller gives it with each call. `multiple` promises that the
    size is a multiple of it, so that parts of so many elements need no tests.

        n = ac.dim("n", 1, 4096)
        x = ac.placeholder((n, 768), name="x")

    Python's `+ - * // %` with ints and other dimensions make sizes such as `2 * n + 1`. In the
    function of a compute, a size is an int64, or has the dtype of the number beside it. Raise
    LanguageError for a name that is no ASCII identifier, and for an empty range.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LanguageError(
            f"a dimension is called {short_text(name)}; give it a name of letters, digits and '_'"
        )
    ends = [as_integer(end, f"an end of the dimension '{name}'") for end in (low, high)]
    by = as_integer(multiple, f"the multiple of the dimension '{name}'")
    if by < 1 or ends[0] < 1 or ends[1] > _MOST:
        raise LanguageError(
            f"the dimension '{name}' is {ends[0]}..{ends[1]} by {by}; give 1 or more, and at most "
            "2**40"
        )
    first, last = -(-ends[0] // by) * by, ends[1] // by * by
    if first > last:
        raise LanguageError(
            f"the dimension '{name}' is empty: no multiple of {by} is in {ends[0]}..{ends[1]}"
        )
    return size_of(Dim(name, first, last, by))


def dims_of_buffers(buffers: Iterable[Buffer]) -> tuple[Dim, ...]:
    """Return the dimensions of the shapes of `buffers`, by name.

    Raise LanguageError if two of one name differ.
    """
    return _only((buffer.name, buffer.extents) for buffer in buffers)


def dims_of_op(op: ComputeOp) -> tuple[Dim, ...]:
    """Return the dimensions of the shapes and axes of a computation, by name.

    Raise LanguageError if two of one name differ.
    """
    shapes = [(buffer.name, buffer.extents) for buffer in (*op.buffers, *op.reads)]
    axes = [(op.name, [axis.length for axis in (*op.axes, *op.reduce_axes)])]
    return _only([*shapes, *axes])


def _only(shapes: Iterable[tuple[str, Sequence[SizeLike]]]) -> tuple[Dim, ...]:
    known: dict[str, Dim] = {}
    for name, extents in shapes:
        for each in dims_of(extents):
            if known.setdefault(each.name, each) != each:
                raise LanguageError(
                    f"'{name}' has the dimension {each}, another tensor {known[each.name]}; "
                    "make it once, and use it for both"
                )
    return tuple(known[name] for name in sorted(known))


def uses_dims(op: ComputeOp) -> bool:
    """Return whether a shape, an axis or a value of a computation follows from dimensions."""
    return (
        any(axis.size is not None for axis in (*op.axes, *op.reduce_axes))
        or any(buffer.sizes for buffer in (*op.buffers, *op.reads))
        or bool(op.size_variables)
    )


def narrow_dim(each: Dim, low: int, high: int) -> SizeLike:
    """Return a dimension for a part of its range, or the only size that it then has."""
    first, last = -(-low // each.multiple) * each.multiple, high // each.multiple * each.multiple
    if first == last:
        return first
    return size_of(Dim(each.name, first, last, each.multiple))


def resized_op(op: ComputeOp, sizes: Mapping[str, SizeLike], dims: Sequence[Dim]) -> ComputeOp:
    """Return the computation with other `sizes` of all its dimensions `dims`."""
    values = {d.variable: size_expr(sizes[d.name] // d.multiple) for d in dims}

    def rule(node: Node) -> Node | None:
        if isinstance(node, Load) and node.buffer.sizes:
            return Load(resized_buffer(node.buffer, sizes), node.indices)
        return None

    def change(expr: Expr) -> Expr:
        return rewrite(substitute(expr, values), rule)

    by_name = {each.name: each for each in dims}
    changed = replace(
        op.with_bodies(change),
        hints=tuple((name, _hint_at(name, text, by_name, sizes)) for name, text in op.hints),
        axes=tuple(_resized_axis(axis, sizes) for axis in op.axes),
        reduce_axes=tuple(_resized_axis(axis, sizes) for axis in op.reduce_axes),
    )
    return changed.with_buffers([resized_buffer(buffer, sizes) for buffer in op.buffers])


def _hint_at(name: str, text: str, dims: Mapping[str, Dim], sizes: Mapping[str, SizeLike]) -> str:
    """Return the value of a hint at these sizes: operations are counted by them."""
    if name != "flop" or not any(each in text for each in dims):
        return text
    size = parse_size(text, dims)
    return str(size if isinstance(size, int) else size.replace(sizes))


def require_sizes(dims: Sequence[Dim], sizes: Mapping[str, int]) -> None:
    """Raise LanguageError unless there is a size for each of `dims`, and for no other."""
    for each in dims:
        size = sizes.get(each.name)
        if size is None or not each.includes(size):
            raise LanguageError(f"{each.name} = {size} is not in the range of the dimension {each}")
    if others := sizes.keys() - {each.name for each in dims}:
        raise LanguageError(
            f"there is no dimension '{min(others)}'; there are {', '.join(map(str, dims))}"
        )


def _resized_axis(axis: Axis, sizes: Mapping[str, SizeLike]) -> Axis:
    if axis.size is None:
        return axis
    size = axis.size.replace(sizes)
    return Axis(axis.name, most_of(size), size=size if isinstance(size, Size) else None)


def index_ends(
    index: Expr, axes: Iterable[Axis], dims: Iterable[Dim]
) -> tuple[SizeLike, SizeLike] | None:
    """Return the least and the largest value of `index` over its axes, as sizes.

    Return None unless it is a sum of axes, dimensions and numbers.
    """
    total = linear(index)
    if total is None:
        return None
    lengths = {axis.name: axis.length for axis in axes}
    known = {each.variable: Size((((each,), 1),)) for each in dims}
    low: SizeLike = total.constant
    high: SizeLike = total.constant
    for atom, factor in total.terms.items():
        if isinstance(atom, str) and atom in lengths:
            moved = (lengths[atom] - 1) * factor
            low, high = (low, high + moved) if factor > 0 else (low + moved, high)
            continue
        size = _atom_size(atom, known)
        if size is None:
            return None
        low, high = low + size * factor, high + size * factor
    return low, high


def _atom_size(atom: Atom, known: Mapping[str, Size]) -> SizeLike | None:
    """Return a term that depends on dimensions alone as a size, or None."""
    if isinstance(atom, str):
        return known.get(atom)
    match atom:
        case Const(value):
            return int(value)
        case Var(name):
            return known.get(name)
        case Binary(op, left, right):
            first, second = _atom_size(left, known), _atom_size(right, known)
            if first is None or second is None:
                return None
            match op:
                case BinaryOp.ADD:
                    return first + second
                case BinaryOp.SUB:
                    return first - second
                case BinaryOp.MUL:
                    return first * second
                case BinaryOp.FLOORDIV if isinstance(second, int) and second > 0:
                    return first // second
                case BinaryOp.MOD if isinstance(second, int) and second > 0:
                    return first % second
                case _:
                    return None
        case _:
            return None


def sampled_sizes(dims: Sequence[Dim]) -> list[dict[str, int]]:
    """Return sizes of `dims` that definitions are tried at: the ends, and some between."""
    tried = [_points(each) for each in dims]
    count = max(map(len, tried), default=0)
    rows: list[dict[str, int]] = []
    for turn in range(count):
        for shift in range(2 if len(dims) > 1 else 1):
            row = {
                each.name: points[(turn + shift * position) % len(points)]
                for position, (each, points) in enumerate(zip(dims, tried, strict=True))
            }
            if row not in rows:
                rows.append(row)
    return rows


def _points(each: Dim) -> list[int]:
    low, high = each.bounds
    points = {low, low + 1, low + 2, 7, 8, 9, (low * high) ** 0.5 // 1, high - 1, high}
    return [int(p) * each.multiple for p in sorted(points) if low <= p <= high]
