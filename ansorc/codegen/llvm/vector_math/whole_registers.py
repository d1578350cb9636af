"""Instructions of x86 that LLVM knows for one length of vectors only, on vectors of any length.

A value is cut into registers, the last filled up, and the results are put together: shuffles that
cost nothing where the registers are those in which the value lies anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter


def scale_by_whole(w: VectorWriter, value: str, n: str) -> str:
    """Return value * 2**floor(n), rounded once; NaN for n = NaN (`vscalef` of AVX-512)."""
    return _avx512(w, "scalef", (value, n), "")


def cut_to_one(w: VectorWriter, value: str) -> str:
    """Return `value` where its size is at most 1, else 1 or -1, also for NaN (`vrange`)."""
    smaller_with_sign_of_first = 0b0010
    return _avx512(w, "range", (value, w.number(1.0)), f"i32 {smaller_with_sign_of_first}, ")


def look_up(w: VectorWriter, table: Sequence[float], index: str) -> str:
    """Return the entries of `table` that the low bits of the integers `index` number.

    16 entries, or 8 where there is AVX2 only: what one or two registers hold.
    """
    element, integer = _float(w), f"i{w.shape.bits}"
    lanes = min(len(table), 512 // w.shape.bits)
    kind, numbers = f"<{lanes} x {element}>", f"<{lanes} x {integer}>"
    halves = [
        f"{kind} <{', '.join(w.element(entry) for entry in table[start : start + lanes])}>"
        for start in range(0, len(table), lanes)
    ]
    if len(halves) == 2:
        name, kinds = "@llvm.x86.avx512.vpermi2var.pd.512", f"{kind}, {numbers}, {kind}"
    elif lanes == 16:
        name, kinds = "@llvm.x86.avx512.permvar.sf.512", f"{kind}, {numbers}"
    else:
        name, kinds = "@llvm.x86.avx2.permps", f"{kind}, {numbers}"
    w.code.declarations[f"declare {kind} {name}({kinds})"] = None
    parts = [
        w.code.emit(f"call {kind} {name}({', '.join([halves[0], f'{numbers} {i}', *halves[1:]])})")
        for i in _cut(w, index, integer, lanes)
    ]
    return _join(w, parts, element, lanes)


def _avx512(w: VectorWriter, operation: str, operands: tuple[str, str], choice: str) -> str:
    """Write an instruction on two floats that LLVM knows with a mask and a rounding only."""
    element, lanes = _float(w), 512 // w.shape.bits
    name = f"@llvm.x86.avx512.mask.{operation}.{'ps' if w.shape.bits == 32 else 'pd'}.512"
    kind, mask = f"<{lanes} x {element}>", f"i{lanes}"
    kinds = f"{kind}, {kind}, {'i32 immarg, ' if choice else ''}{kind}, {mask}, i32 immarg"
    w.code.declarations[f"declare {kind} {name}({kinds})"] = None
    rest = f"{choice}{kind} poison, {mask} -1, i32 4"
    pairs = zip(*(_cut(w, operand, element, lanes) for operand in operands), strict=True)
    parts = [w.code.emit(f"call {kind} {name}({kind} {a}, {kind} {b}, {rest})") for a, b in pairs]
    return _join(w, parts, element, lanes)


def _float(w: VectorWriter) -> str:
    return "float" if w.shape.bits == 32 else "double"


def _cut(w: VectorWriter, value: str, element: str, size: int) -> list[str]:
    """Return the lanes of `value` in vectors of `size` lanes; those behind the last hold poison."""
    lanes = w.shape.lanes
    if lanes == size or value.startswith("splat"):
        return [value] * -(-lanes // size)
    if lanes == 1:
        return [w.code.emit(f"insertelement <{size} x {element}> poison, {element} {value}, i32 0")]
    starts = range(0, lanes, size)
    return [_choose_lanes(w, value, "poison", (element, lanes), range(s, s + size)) for s in starts]


def _join(w: VectorWriter, parts: Sequence[str], element: str, size: int) -> str:
    """Undo `_cut`."""
    lanes = w.shape.lanes
    if lanes == 1:
        return w.code.emit(f"extractelement <{size} x {element}> {parts[0]}, i32 0")
    while len(parts) > 1:
        pairs = zip(parts[::2], [*parts[1::2], "poison"], strict=False)
        parts = [_choose_lanes(w, a, b, (element, size), range(2 * size)) for a, b in pairs]
        size *= 2
    (whole,) = parts
    return (
        whole if size == lanes else _choose_lanes(w, whole, "poison", (element, size), range(lanes))
    )


def _choose_lanes(w: VectorWriter, a: str, b: str, of: tuple[str, int], lanes: range) -> str:
    """Return these lanes of `a` followed by `b`."""
    element, size = of
    limit = size if b == "poison" else 2 * size
    mask = ", ".join(f"i32 {lane}" if lane < limit else "i32 poison" for lane in lanes)
    kind = f"<{size} x {element}>"
    return w.code.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>")
