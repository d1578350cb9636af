"""Code for matrix units: who asks for leave to use tiles, where they are loaded and given back."""

from __future__ import annotations

import ctypes
import os
import platform
import re

import numpy as np
import pytest

from ansorc.codegen.build import prepare
from ansorc.codegen.llvm.binding import compile_object, load_object_code
from ansorc.codegen.llvm.emit import emit_llvm
from ansorc.codegen.llvm.guard import SYSTEM_CALL
from ansorc.codegen.package.signature import LACKS_FEATURES
from ansorc.ir.stmt import Function
from ansorc.schedule import lower, schedule
from ansorc.target import Target, detect
from ansorc.target.tile_permission import may_use_tiles
from tests.codegen.llvm.llvm_harness import call
from tests.search.sketch.test_matrix_product import product
from tests.support.narrow_kernels import AMX
from tests.support.tiles.emulated import AMX as EMULATED


def in_tiles(rows: int, target: str = AMX, *, is_parallel: bool = False) -> Function:
    """Return a product of `rows` rows with 64 columns, in tiles of 32 x 32, as it is emitted."""
    program = schedule(product((rows, 64, 64), is_constant=True)).cache_write("C", "local")
    program = program.split("C", "i0", [32]).split("C", "i1", [32])
    program = program.reorder("C", ["i0.0", "i1.0", "i0.1", "i1.1"])
    program = program.compute_at("C.local", "C", "i1.0").split("C.local", "k", [16, 2])
    program = program.reorder("C.local", ["k.0", "k.1", "i0", "i1", "k.2"])
    program = program.tensorize("C.local", "k.2", "tile_bf16").rewrite_layout("C.local", "W")
    if is_parallel:
        program = program.parallel("C", "i0.0")
    return prepare(lower(program), Target.parse(target))


def plain(target: str = AMX) -> Function:
    return prepare(lower(schedule(product((4, 4, 2)))), Target.parse(target))


@pytest.mark.parametrize("is_guarded", [True, False])
def test_only_a_kernel_of_tiles_asks_for_them(*, is_guarded: bool) -> None:
    target = Target.parse(AMX)
    text = emit_llvm(in_tiles(64), target, is_guarded=is_guarded)
    assert 'sideeffect "syscall"' in text
    assert "(i64 158, i64 4131, i64 18)" in text
    masks = [int(mask) for mask in re.findall(r"and i32 %t\d+, (\d+)", text)]
    assert any(mask >> 17 == 3 and mask < 1 << 19 for mask in masks)  # of xcr0
    other = emit_llvm(plain(), target, is_guarded=is_guarded)
    assert "syscall" not in other
    assert ("check_cpu" in other) is is_guarded


def test_a_processor_without_tiles_is_refused() -> None:
    if may_use_tiles() or not detect().real.is_x86:
        pytest.skip("this processor has tiles, or is none of x86")
    function = in_tiles(32, EMULATED)
    arrays = [np.zeros(buffer.shape, buffer.dtype.numpy) for buffer in function.params]
    assert call(function, arrays, target=Target.parse(EMULATED))[0] == LACKS_FEATURES


def test_the_system_call_is_one() -> None:
    """The same instruction asks here for the number of this process."""
    if not detect().real.is_x86 or platform.system() != "Linux":
        pytest.skip("a system call of Linux on x86-64")
    getpid, target = 39, detect().real
    text = f"""target triple = "{target.triple}"
define i64 @ask() {{
  %number = call i64 {SYSTEM_CALL}(i64 {getpid}, i64 0, i64 0)
  ret i64 %number
}}
"""
    code = load_object_code(compile_object(text, target), {})
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("ask"))() == os.getpid()
    code.close()


@pytest.mark.parametrize("is_parallel", [False, True])
def test_each_function_that_multiplies_gives_its_tiles_back(*, is_parallel: bool) -> None:
    text = emit_llvm(in_tiles(128, is_parallel=is_parallel), Target.parse(AMX))
    bodies = [part for part in re.split(r"\ndefine ", text) if "tdpbf16ps(i8" in part]
    (body,) = (part for part in bodies if "call void @llvm.x86.tdpbf16ps" in part)
    assert ("parallel0(" in body.splitlines()[0]) is is_parallel
    assert body.count("@llvm.x86.ldtilecfg(") == 1
    assert body.count("@llvm.x86.tilerelease(") == body.count("ret i32") == 1


def test_the_last_rows_have_a_configuration_of_their_own() -> None:
    text = emit_llvm(in_tiles(70), Target.parse(AMX))
    shapes = re.findall(r"@tiles\.\d = private unnamed_addr constant \[64 x i8\] \[(.*?)\]", text)
    content = [[int(each.split()[1]) for each in shape.split(", ")] for shape in shapes]
    rows = {tuple(each[48:56]) for each in content}
    assert rows == {(16,) * 8, (6, 6, 6, 16, 16, 0, 0, 0)}
    assert all(each[0] == 1 and not any(each[1:16]) for each in content)
    assert {tuple(each[16:32:2]) for each in content} == {(64,) * 8, (64,) * 5 + (0,) * 3}
