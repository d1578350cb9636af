"""Calls of the C library, lane by lane, for those that vector code does not reach."""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter


def any_lane(w: VectorWriter, mask: str) -> str:
    """Return whether `mask` holds in any lane, an i1."""
    if w.shape.lanes == 1:
        return mask
    reduce = f"@llvm.vector.reduce.or.v{w.shape.lanes}i1"
    w.code.declarations[f"declare i1 {reduce}({w.shape.mask_type})"] = None
    return w.code.emit(f"call i1 {reduce}({w.shape.mask_type} {mask})")


def lane_by_lane(w: VectorWriter, name: str, operands: Sequence[str]) -> tuple[str, str]:
    """Call the C library's function for each lane, in a loop that begins behind the label `large`.

    Return its results, and the label of the block that they are in.
    """
    shape, code = w.shape, w.code
    element = "float" if shape.bits == 32 else "double"
    symbol = name if shape.bits == 64 else f"{name}f"
    head = f"declare {element} @{symbol}({', '.join([element] * len(operands))})"
    code.declarations[f"{head} nounwind willreturn memory(none)"] = None
    if shape.lanes == 1:
        given = ", ".join(f"{element} {operand}" for operand in operands)
        return code.emit(f"call {element} @{symbol}({given})"), "%large"
    kind = shape.float_type
    ones = [f"%one{number}" for number in range(len(operands))]
    code.lines += [
        "  br label %lane",
        "lane:",
        "  %i = phi i32 [0, %large], [%following, %lane]",
        f"  %found = phi {kind} [poison, %large], [%more, %lane]",
        *(
            f"  {lane} = extractelement {kind} {operand}, i32 %i"
            for lane, operand in zip(ones, operands, strict=True)
        ),
        f"  %value = call {element} @{symbol}({', '.join(f'{element} {lane}' for lane in ones)})",
        f"  %more = insertelement {kind} %found, {element} %value, i32 %i",
        "  %following = add nuw nsw i32 %i, 1",
        f"  %is_last = icmp eq i32 %following, {shape.lanes}",
        "  br i1 %is_last, label %left, label %lane",
        "left:",
    ]
    return "%more", "%left"
