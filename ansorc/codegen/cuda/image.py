"""Forms in which a GPU program is saved: CUDA C, PTX, machine code, or both in a fat binary."""

from __future__ import annotations

from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.cuda.toolkit import assemble, compile_ptx, fat_binary, list_architectures
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError
from ansorc.target import Target
from ansorc.target.gpu import DEFAULT_GPUS, GPUS

SUFFIXES = (".ptx", ".cubin", ".fatbin", ".cu")


def image_for(suffix: str, code: CompiledProgram, target: Target) -> bytes:
    """Return what a file with `suffix` holds of compiled code; raise BuildError for others."""
    match suffix:
        case ".cubin":
            return code.image
        case ".cu":
            return cuda_text(code.device_program).encode()
        case ".ptx":
            return compile_ptx(cuda_text(code.device_program), target.arch).encode()
        case ".fatbin":
            return _fat_image(code, target)
        case _:
            raise BuildError(
                f"'{suffix}' does not say what to write for a GPU; end the name in .ptx (text for "
                "any later GPU), .cubin (code for one), .fatbin (both) or .cu (CUDA C)"
            )


def _fat_image(code: CompiledProgram, target: Target) -> bytes:
    """Machine code for the target and all later GPUs that are known, and PTX for those to come."""
    launches = code.device_program.plan.launches
    ptx = compile_ptx(cuda_text(code.device_program), target.arch)
    most = max((launch.dynamic_shared_bytes for launch in launches), default=0)
    cubins = {target.arch: code.image}
    for arch, name in DEFAULT_GPUS.items():
        is_later = int(arch.removeprefix("sm_")) > int(target.arch.removeprefix("sm_"))
        has_room = most <= GPUS[name].architecture.block_shared_bytes
        if is_later and has_room and arch in list_architectures():
            cubins[arch] = assemble(ptx, arch).image
    return fat_binary(cubins, {target.arch: ptx})
