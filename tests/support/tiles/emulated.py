"""Run kernels for AMX on any x86 machine: their LLVM module, with tile instructions as functions.

The module is the one that is emitted for a target with AMX: the same loops, addresses and strides.
Only the calls of LLVM's tile intrinsics are calls of `emulator.c` instead, which has the registers
of each thread in memory, and counts what a processor would refuse.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from ansorc.codegen.build import prepare
from ansorc.codegen.llvm.binding import compile_object, load_object_code
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.codegen.llvm.storage import workspace_bytes
from ansorc.codegen.package.runtime_library import runtime_symbols
from ansorc.ir.aligned import aligned_empty
from ansorc.schedule import lower, packings
from ansorc.schedule.state import State
from ansorc.target import Target, detect
from tests.support.guarded_memory import guarded
from tests.support.narrow_kernels import Array, poison

AMX = "x86_64-linux-gnu -mcpu=x86-64-v3 -mattr=+amx-tile,+amx-bf16,+amx-int8,+amx-fp16"
"""Any x86 machine of today, as if it had AMX: what is emitted for it runs here, with emulated
tiles."""
_NAMES = (
    "ldtilecfg", "tilerelease", "tilezero", "tileloadd64", "tilestored64", "tdpbf16ps",
    "tdpfp16ps", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud",
)  # fmt: skip


@dataclass(frozen=True)
class Counts:
    """What was executed, by all threads."""

    configurations: int
    releases: int
    zeros: int
    loads: int
    products: int
    stores: int


@lru_cache(maxsize=1)
def emulator() -> ctypes.CDLL:
    """Return the library of `emulator.c`, compiled by the system's compiler."""
    compiler = shutil.which("cc")
    assert compiler is not None
    library = Path(mkdtemp()) / "tiles.so"
    source = Path(__file__).with_name("emulator.c")
    flags = ["-O2", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lm"], check=True)
    opened = ctypes.CDLL(str(library))
    opened.tiles_fault.restype = ctypes.c_char_p
    return opened


def with_emulated_tiles(text: str) -> str:
    """Return an LLVM module with the tile intrinsics as functions of the emulator."""
    text = re.sub(r"@llvm\.x86\.(\w+)\(", lambda m: _renamed(m[0], m[1]), text)
    check = r"(define internal i32 @\S+\.check_cpu\(\)) .*?\n\}\n"  # the machine has no AMX
    text = re.sub(check, r"\1 { ret i32 1 }\n", text, flags=re.DOTALL)
    return re.sub(r"\+amx-\w+,", "", text)


def _renamed(whole: str, name: str) -> str:
    return f"@tiles_{name}(" if name in _NAMES else whole


def run_emulated(
    program: State, inputs: Sequence[Array], threads: int = 1, *, at_end: bool = True
) -> tuple[list[Array], Counts]:
    """Run `program` on `inputs`; return its outputs, and what was done with tiles.

    No array may be left, at its end or else its beginning. Fails if the kernel did what a processor
    refuses, or left its tiles to the thread.
    """
    if not detect().real.is_x86:
        pytest.skip("tiles are emulated on x86 only")
    library, chosen = emulator(), Target.parse(AMX)
    function = prepare(lower(program), chosen)
    source = with_emulated_tiles(emit_llvm(function, chosen))
    code = compile_object(source, chosen)
    symbols = {f"tiles_{name}": _address(library, f"tiles_{name}") for name in _NAMES}
    loaded = load_object_code(code, {**symbols, **runtime_symbols()})
    layouts = {packing.source.name: packing for packing in packings(program)}
    given = {b.name: a for b, a in zip(program.dag.inputs, inputs, strict=True)}
    arrays = [
        layouts[b.name].apply(given[b.name])
        if b.name in layouts
        else given.get(b.name, poison(b.shape, b.dtype))
        for b in program.dag.params
    ]
    arrays = [guarded(array, at_end=at_end) for array in arrays]
    workspace = aligned_empty(max(1, workspace_bytes(function)), np.uint8)
    library.tiles_reset()
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, workspace)]
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(pointers), ctypes.c_int32)
    status = kind(loaded.address(function.name))(*pointers, threads)
    assert status == 0
    assert library.tiles_fault() == b"", library.tiles_fault()
    assert not library.tiles_are_held()
    numbers = (ctypes.c_int64 * 6)()
    library.tiles_counts(numbers)
    loaded.close()
    outputs = [a for a, b in zip(arrays, program.dag.params, strict=True) if b.name not in given]
    return outputs, Counts(*numbers)


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
