"""Ask Linux whether an Arm processor has what the kernel's code uses."""

from __future__ import annotations

from ansorc.codegen.llvm.writer import FunctionWriter, ModuleWriter
from ansorc.target import Target
from ansorc.target.presets import ARM_FEATURES


def arm_masks(target: Target) -> dict[int, int]:
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


def write_arm_check(writer: FunctionWriter, module: ModuleWriter, target: Target) -> str:
    """Write the test and return the i1 that is true if the processor has all features."""
    module.declare("declare i64 @getauxval(i64) nounwind")
    good = "true"
    for key, mask in arm_masks(target).items():
        word = writer.emit(f"call i64 @getauxval(i64 {key})")
        bits = writer.emit(f"and i64 {word}, {mask}")
        test = writer.emit(f"icmp eq i64 {bits}, {mask}")
        good = writer.emit(f"and i1 {good}, {test}")
    return good
