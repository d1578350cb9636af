"""Refuse to run on a processor that lacks what the kernel's code uses."""

from __future__ import annotations

from ansorc.codegen.llvm.writer import ONCE, FunctionWriter, ModuleWriter
from ansorc.codegen.package.signature import LACKS_FEATURES
from ansorc.target import Target
from ansorc.target.presets import ARM_FEATURES, GUARDED_FEATURES
from ansorc.target.tile_permission import (
    ARCH_PRCTL,
    PALETTE_LEAF,
    REQUEST_PERMISSION,
    TILE_DATA,
)

_CPUID = (
    'asm "xchgq %rbx, ${1:q}\\0Acpuid\\0Axchgq %rbx, ${1:q}", '
    '"={ax},=r,={cx},={dx},0,2,~{dirflag},~{fpsr},~{flags}"'
)
_XGETBV = 'asm ".byte 0x0f, 0x01, 0xd0", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)'
_REGISTERS = "{ i32, i32, i32, i32 }"
_SAVED_BY_SYSTEM = {"avx": 0x06, "avx512f": 0xE6}
"""Bits of xcr0: the system must save these registers when it switches tasks."""
_OSXSAVE = (1, 0, 2, 27)
_SAVED_TILES = 0x60000
"""The bits of xcr0 for tile registers and their configuration."""
SYSTEM_CALL = (
    'asm sideeffect "syscall", "={ax},{ax},{di},{si},~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},'
    '~{flags}"'
)
"""A system call of Linux on x86-64: its number and two arguments in, a negative error out."""


def define_check(module: ModuleWriter, kernel: str, target: Target) -> None:
    """Add to `module` what the guards of `kernel` call."""
    if module.is_guarded:
        module.functions.append(f"@{kernel}.cpu = internal global i32 0")
        module.functions.append(_check_function(module, kernel, target))


def write_guard(entry: FunctionWriter, kernel: str) -> None:
    """Return LACKS_FEATURES from `entry` unless the processor has the target's features.

    `cpuid` takes microseconds under a hypervisor, so the answer is kept: 0 unknown, 1 yes, 2 no.
    """
    if not entry.module.is_guarded:
        return
    check, join, before = entry.name("check"), entry.name("checked"), entry.block
    seen = entry.emit(f"load atomic i32, ptr @{kernel}.cpu monotonic, align 4")
    unknown = entry.emit(f"icmp eq i32 {seen}, 0")
    entry.line(f"br i1 {unknown}, label {check}, label {join}")
    entry.start_block(check)
    checked = entry.emit(f"call i32 @{kernel}.check_cpu()")
    entry.line(f"br label {join}")
    entry.start_block(join)
    answer = entry.emit(f"phi i32 [{seen}, {before}], [{checked}, {check}]")
    lacks = entry.emit(f"icmp ne i32 {answer}, 1")
    stop, go = entry.name("stop"), entry.name("go")
    entry.line(f"br i1 {lacks}, label {stop}, label {go}")
    entry.start_block(stop)
    entry.line(f"ret i32 {LACKS_FEATURES}")
    entry.start_block(go)


def needs_guard(target: Target) -> bool:
    """Whether a processor of the target's architecture may lack what its code uses."""
    return bool(target.features if target.is_x86 else _arm_masks(target))


def _check_function(module: ModuleWriter, kernel: str, target: Target) -> str:
    """Find the answer and keep it."""
    writer = FunctionWriter(module)
    if target.is_x86:
        module.functions.append(_cpuid_function(kernel))
        good = _write_x86_check(writer, kernel, target)
    else:
        good = _write_arm_check(writer, module, target)
    answer = writer.emit(f"select i1 {good}, i32 1, i32 {LACKS_FEATURES}")
    writer.line(f"store atomic i32 {answer}, ptr @{kernel}.cpu monotonic, align 4")
    writer.line(f"ret i32 {answer}")
    head = f"define internal i32 @{kernel}.check_cpu() {ONCE}"
    return f"{head} {{\n{writer.text()}\n}}"


def _write_x86_check(writer: FunctionWriter, kernel: str, target: Target) -> str:
    """Ask `cpuid` for every feature, and for each leaf whether it exists.

    Tile registers are only asked for by a kernel that uses them: leave to use them makes the system
    refuse small stacks for signals.
    """
    masks: dict[tuple[int, int, int], int] = {}
    saved = sum({bit for name in target.features for bit in [_SAVED_BY_SYSTEM.get(name, 0)]}) & 0xE6
    has_tiles = writer.module.has_tiles
    saved |= _SAVED_TILES * has_tiles
    asked = [name for name in target.features if has_tiles or not name.startswith("amx-")]
    places = [GUARDED_FEATURES[name] for name in asked] + ([_OSXSAVE] if saved else [])
    for leaf, subleaf, register, bit in places:
        key = (leaf, subleaf, register)
        masks[key] = masks.get(key, 0) | 1 << bit
    good = "true"
    leaves = {leaf for leaf, _, _ in masks} | ({PALETTE_LEAF} if has_tiles else set[int]())
    for leaf in sorted(leaves):
        largest = _cpuid(writer, kernel, (leaf & 0x80000000, 0, 0))
        good = _both(writer, good, f"icmp uge i32 {largest}, {leaf}")
    for source, mask in masks.items():
        good = _has(writer, good, _cpuid(writer, kernel, source), mask)
    good = _check_saved(writer, good, saved) if saved else good
    return _ask_for_tiles(writer, kernel, good) if has_tiles else good


def _ask_for_tiles(writer: FunctionWriter, kernel: str, good: str) -> str:
    """Ask whether there is a palette of tiles, and the system for leave to use them."""
    palettes = _cpuid(writer, kernel, (PALETTE_LEAF, 0, 0))
    good = _both(writer, good, f"icmp uge i32 {palettes}, 1")
    ask, done, before = writer.name("ask"), writer.name("done"), writer.block
    writer.line(f"br i1 {good}, label {ask}, label {done}")
    writer.start_block(ask)
    words = ", ".join(f"i64 {word}" for word in (ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA))
    refused = writer.emit(f"call i64 {SYSTEM_CALL}({words})")
    may = writer.emit(f"icmp eq i64 {refused}, 0")
    writer.line(f"br label {done}")
    writer.start_block(done)
    return writer.emit(f"phi i1 [false, {before}], [{may}, {ask}]")


def _cpuid_function(kernel: str) -> str:
    """One place for the assembly, because LLVM takes half a millisecond for each."""
    head = f"define internal {_REGISTERS} @{kernel}.cpuid(i32 %leaf, i32 %subleaf) {ONCE}"
    text = f"call {_REGISTERS} {_CPUID}(i32 %leaf, i32 %subleaf)"
    return f"{head} {{\n  %result = {text}\n  ret {_REGISTERS} %result\n}}"


def _cpuid(writer: FunctionWriter, kernel: str, source: tuple[int, int, int]) -> str:
    leaf, subleaf, register = source
    call = f"call {_REGISTERS} @{kernel}.cpuid(i32 {leaf}, i32 {subleaf})"
    return writer.emit(f"extractvalue {_REGISTERS} {writer.emit(call)}, {register}")


def _has(writer: FunctionWriter, good: str, register: str, mask: int) -> str:
    bits = writer.emit(f"and i32 {register}, {mask}")
    return _both(writer, good, f"icmp eq i32 {bits}, {mask}")


def _both(writer: FunctionWriter, good: str, test: str) -> str:
    return writer.emit(f"and i1 {good}, {writer.emit(test)}")


def _check_saved(writer: FunctionWriter, good: str, mask: int) -> str:
    """`xgetbv` itself exists only where the tests so far hold."""
    ask, done, before = writer.name("ask"), writer.name("done"), writer.block
    writer.line(f"br i1 {good}, label {ask}, label {done}")
    writer.start_block(ask)
    result = writer.emit(f"call {{ i32, i32 }} {_XGETBV}")
    low = writer.emit(f"extractvalue {{ i32, i32 }} {result}, 0")
    saved = _has(writer, "true", low, mask)
    writer.line(f"br label {done}")
    writer.start_block(done)
    return writer.emit(f"phi i1 [false, {before}], [{saved}, {ask}]")


def _arm_masks(target: Target) -> dict[int, int]:
    """Return the bits that each word of the auxiliary vector must have, by the word's key.

    Empty where nothing is asked: NEON is in all of aarch64, and macOS has no auxiliary vector, but
    every one of its processors has the features of the first.
    """
    masks: dict[int, int] = {}
    for name in target.features if "linux" in target.triple else ():
        if name in ARM_FEATURES:
            key, bit = ARM_FEATURES[name]
            masks[key] = masks.get(key, 0) | 1 << bit
    return masks


def _write_arm_check(writer: FunctionWriter, module: ModuleWriter, target: Target) -> str:
    """Write the test and return the i1 that is true if the processor has all features."""
    module.declare("declare i64 @getauxval(i64) nounwind")
    good = "true"
    for key, mask in _arm_masks(target).items():
        word = writer.emit(f"call i64 @getauxval(i64 {key})")
        bits = writer.emit(f"and i64 {word}, {mask}")
        test = writer.emit(f"icmp eq i64 {bits}, {mask}")
        good = writer.emit(f"and i1 {good}, {test}")
    return good
