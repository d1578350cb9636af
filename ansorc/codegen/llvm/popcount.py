"""Count the bits of words in vectors, for machines that have no instruction for it.

Full adders turn three words of one weight into a word of that weight and one of the next, bit by
bit (Harley and Seal; Warren, Hacker's Delight, section 5-1). What is left is counted in bytes by
LLVM's popcount, of half a byte at a time by a table in a register.
"""

from __future__ import annotations

from collections.abc import Iterable

from ansorc.codegen.llvm.types import Value, literal, register_type
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import UINT8, DType

_AVX2 = 256
"""The bits of a vector of AVX2."""


def joins_words(writer: FunctionWriter, dtype: DType, count: int) -> bool:
    """Return whether adding up the bits of `count` words of `dtype` before pays on the machine."""
    target = writer.module.target
    is_instruction = "avx512vpopcntdq" in target.features and dtype.bits >= 32
    return target.is_x86 and dtype.lanes > 1 and count > 2 and not is_instruction


def count_bits(writer: FunctionWriter, words: Iterable[Value], dtype: DType) -> Value:
    """Write the sum of the popcounts of up to 31 words, vectors of `dtype`, in that dtype.

    A word is written where it is added, so few words wait in registers: LLVM keeps the order.
    """
    levels = _add_bits(writer, (word.text for word in words), register_type(dtype))
    lanes = UINT8.vector(dtype.lanes * dtype.bits // 8)
    kind, total = register_type(lanes), ""
    for level in reversed(levels):
        total = writer.emit(f"add {kind} {total}, {total}") if total else ""
        for word in level:
            count = _count_bytes(writer, word, dtype, kind, lanes.lanes)
            total = writer.emit(f"add {kind} {total}, {count}") if total else count
    return _add_bytes(writer, total, kind, dtype)


def _add_bits(writer: FunctionWriter, words: Iterable[str], kind: str) -> list[list[str]]:
    """Return one or two words of each weight 1, 2, 4, … that together have the bits of all."""
    levels: list[list[str]] = [[]]
    for word in words:
        place, carried = 0, word
        while True:
            if place == len(levels):
                levels.append([])
            levels[place].append(carried)
            if len(levels[place]) < 3:
                break
            c, a, b = levels[place]  # the sum so far waits for nothing but the last step
            half = writer.emit(f"xor {kind} {a}, {b}")
            levels[place] = [writer.emit(f"xor {kind} {half}, {c}")]
            both = writer.emit(f"and {kind} {a}, {b}")
            rest = writer.emit(f"and {kind} {half}, {c}")
            carried = writer.emit(f"or {kind} {both}, {rest}")
            place += 1
    return levels


def _count_bytes(writer: FunctionWriter, word: str, dtype: DType, kind: str, lanes: int) -> str:
    name = f"@llvm.ctpop.v{lanes}i8"
    writer.module.declare(f"declare {kind} {name}({kind})")
    parts = writer.emit(f"bitcast {register_type(dtype)} {word} to {kind}")
    return writer.emit(f"call {kind} {name}({kind} {parts})")


def _add_bytes(writer: FunctionWriter, text: str, kind: str, dtype: DType) -> Value:
    """Return the sum of the bytes of each lane of `dtype`; `text` is a vector of bytes, `kind`.

    The sum of a lane of 8 bits is below 256.
    """
    register = register_type(dtype)
    is_avx2 = "avx2" in writer.module.target.features and dtype.bits * dtype.lanes == _AVX2
    if is_avx2 and dtype.bits in (32, 64):
        return Value(_add_by_instruction(writer, text, dtype.bits), dtype)
    text, step = writer.emit(f"bitcast {kind} {text} to {register}"), 8
    while step < dtype.bits:
        moved = writer.emit(f"lshr {register} {text}, {literal(step, dtype).text}")
        if step == 8:
            low = literal(int("00ff" * (dtype.bits // 16), 16), dtype).text
            text = writer.emit(f"and {register} {text}, {low}")
            moved = writer.emit(f"and {register} {moved}, {low}")
        text = writer.emit(f"add {register} {text}, {moved}")
        step *= 2
    if dtype.bits > 16:
        text = writer.emit(f"and {register} {text}, {literal(0xFFFF, dtype).text}")
    return Value(text, dtype)


def _add_by_instruction(writer: FunctionWriter, text: str, bits: int) -> str:
    """Return the sums of each 4 or 8 of 32 bytes: those of distances, or of products with 1."""
    steps = (
        (("psad.bw", "<32 x i8>", "<4 x i64>", "zeroinitializer"),)
        if bits == 64
        else (
            ("pmadd.ub.sw", "<32 x i8>", "<16 x i16>", "splat (i8 1)"),
            ("pmadd.wd", "<16 x i16>", "<8 x i32>", "splat (i16 1)"),
        )
    )
    for name, taken, made, other in steps:
        full = f"@llvm.x86.avx2.{name}"
        writer.module.declare(f"declare {made} {full}({taken}, {taken})")
        text = writer.emit(f"call {made} {full}({taken} {text}, {taken} {other})")
    return text
