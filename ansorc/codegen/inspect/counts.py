"""The effects of one instruction, as numbers that add up: multiply-adds, loads, stores, spills."""

from __future__ import annotations

import operator
import re
from dataclasses import astuple, dataclass

from ansorc.codegen.inspect.text import Architecture, Instruction


@dataclass(frozen=True)
class Counts:
    """Numbers of instructions, or of registers where an instruction moves several."""

    instructions: int = 0
    fma: int = 0
    """Vector multiply-adds and dot products."""
    scalar_fma: int = 0
    loads: int = 0
    """Vectors read from memory, also as an operand of arithmetic."""
    broadcasts: int = 0
    """Elements read from memory to all lanes of a vector."""
    scalar_loads: int = 0
    """Single numbers and addresses read from memory, also lanes of a vector."""
    stores: int = 0
    """Vectors written to memory."""
    scalar_stores: int = 0
    vector_spills: int = 0
    """Vector registers saved on the stack for want of registers; these are no stores."""
    vector_reloads: int = 0
    """Vector registers read back, also as an operand of arithmetic; these are no loads."""
    scalar_spills: int = 0
    scalar_reloads: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of both."""
        return Counts(*map(operator.add, astuple(self), astuple(other)))

    @property
    def spills(self) -> int:
        """All that moves between registers and the stack for want of registers."""
        vectors = self.vector_spills + self.vector_reloads
        return vectors + self.scalar_spills + self.scalar_reloads


def counts_of(instruction: Instruction, architecture: Architecture, *, has_notes: bool) -> Counts:
    """Return what one instruction does.

    Spills are known by LLVM's notes in the comments if the file `has_notes`; else each access to a
    fixed place of the stack frame counts as one, as also an element of a local array does.
    """
    plain = _x86(instruction) if architecture == "x86" else _arm(instruction)
    if has_notes:
        spills, reloads = "Spill" in instruction.comment, "Reload" in instruction.comment
        # A read-modify-write has one note, for what it writes.
        reloads = reloads or (spills and plain.scalar_loads > 0)
    else:
        fixed = any(_FRAME.fullmatch(operand) for operand in instruction.operands)
        spills, reloads = fixed, fixed
    return _as_spills(plain, spills=spills, reloads=reloads)


_FRAME = re.compile(
    r"-?\d*\(%r[sb]p\)|(\w+ ptr )?\[r[sb]p( [+-] \d+)?\]|\[(sp|x29|fp)(, #-?\d+)?\]!?",
    re.IGNORECASE,
)


def _as_spills(plain: Counts, *, spills: bool, reloads: bool) -> Counts:
    """The counts with what goes to and comes from memory counted as spills and reloads."""
    return Counts(
        plain.instructions, plain.fma, plain.scalar_fma,
        loads=0 if reloads else plain.loads,
        broadcasts=0 if reloads else plain.broadcasts,
        scalar_loads=0 if reloads else plain.scalar_loads,
        stores=0 if spills else plain.stores,
        scalar_stores=0 if spills else plain.scalar_stores,
        vector_spills=plain.stores if spills else 0,
        vector_reloads=plain.loads + plain.broadcasts if reloads else 0,
        scalar_spills=plain.scalar_stores if spills else 0,
        scalar_reloads=plain.scalar_loads if reloads else 0,
    )  # fmt: skip


_X86_FMA = re.compile(r"vfn?m(add|sub|addsub|subadd)\d{3}p[sdh]|vpdp\w+|vdpbf16ps")
_X86_SCALAR_FMA = re.compile(r"vfn?m(add|sub)\d{3}s[sdh]")
_X86_BROADCAST = re.compile(r"vp?broadcast\w+|v?movddup")
_X86_SCALAR = re.compile(
    r"v?(mov|add|sub|mul|div|min|max|sqrt|rsqrt\d*|rcp\d*|round|rndscale|fn?m(add|sub)\d{3}"
    r"|cmp\w*|u?comi|cvt\w*)s[sdh]|v?mov[dqw]|v?p(insr|extr)[bwdq]|v?(insert|extract)ps|k\w+"
)
_X86_NO_ACCESS = re.compile(r"lea\w?|nop\w?|prefetch\w+|v?\w*zeroupper|call\w?|j\w+|push\w?|pop\w?")
_X86_ONLY_READS = re.compile(r"v?u?(cmp|test|comi|ucomi)\w*|k?ortest\w*|bt[wlq]?|i?div\w?|i?mul\w?")
_X86_ONLY_WRITES = re.compile(
    r"v?p?(mov|extr|compress|scatter|cvtps2ph)\w*|set\w+|k?mov\w?|v?extract\w+"
)


def _x86(instruction: Instruction) -> Counts:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    fma = _X86_FMA.fullmatch(mnemonic) is not None
    scalar_fma = _X86_SCALAR_FMA.fullmatch(mnemonic) is not None
    places = [position for position, text in enumerate(operands) if _in_memory(text)]
    if not places or _X86_NO_ACCESS.fullmatch(mnemonic):
        return Counts(1, int(fma), int(scalar_fma))
    registers = any(re.search(r"[xyz]mm\d", text) for text in operands)
    vector = registers and _X86_SCALAR.fullmatch(mnemonic) is None
    writes = places[0] == 0 and _X86_ONLY_READS.fullmatch(mnemonic) is None
    reads = not writes or _X86_ONLY_WRITES.fullmatch(mnemonic) is None
    spread = any("{1to" in operands[position] for position in places)
    spread = spread or _X86_BROADCAST.fullmatch(mnemonic) is not None
    return Counts(
        1, int(fma), int(scalar_fma),
        loads=int(reads and vector and not spread),
        broadcasts=int(reads and vector and spread),
        scalar_loads=int(reads and not vector),
        stores=int(writes and vector),
        scalar_stores=int(writes and not vector),
    )  # fmt: skip


def _in_memory(operand: str) -> bool:
    return "(" in operand or "[" in operand


_ARM_FMA = re.compile(
    r"fml[as]l?2?|ml[as]|[su]ml[as]l2?|(su|us|s|u|bf)dot|(us|s|u|bf)mmla|bfmlal[bt]"
)
_ARM_SCALAR_FMA = re.compile(r"fn?m(add|sub)")


def _arm(instruction: Instruction) -> Counts:
    mnemonic, operands = instruction.mnemonic, instruction.operands
    base, _, lanes = mnemonic.partition(".")
    vector = bool(lanes) or bool(operands and re.search(r"v\d+\.", operands[0]))
    multiplies = _ARM_FMA.fullmatch(base) is not None
    fma = multiplies and vector
    scalar_fma = (multiplies and not vector) or _ARM_SCALAR_FMA.fullmatch(base) is not None
    places = [position for position, text in enumerate(operands) if text.startswith("[")]
    if not places or not re.match(r"ld|st", base):
        return Counts(1, int(fma), int(scalar_fma))
    full, part = _arm_registers(operands[: places[0]])
    if re.fullmatch(r"ld[1-4]r", base):
        return Counts(1, broadcasts=full + part)
    if base.startswith("ld"):
        return Counts(1, loads=full, scalar_loads=part)
    return Counts(1, stores=full, scalar_stores=part)


def _arm_registers(operands: tuple[str, ...]) -> tuple[int, int]:
    """How many registers are moved: whole vectors, and single numbers."""
    full = part = 0
    for operand in operands:
        if operand.startswith("{"):
            listed = operand.count(",") + 1
            is_lane = "]" in operand
            full, part = full + listed * (not is_lane), part + listed * is_lane
        else:
            is_vector = re.fullmatch(r"q\d+", operand) is not None
            full, part = full + is_vector, part + (not is_vector)
    return full, part
