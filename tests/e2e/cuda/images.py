"""Images for the emulated driver: the library that g++ makes of a program, launch by launch."""

from __future__ import annotations

from ansorc.codegen.cuda.emulation.compiler import compile_cxx_text
from ansorc.codegen.cuda.emulation.source import emulation_source
from ansorc.codegen.program.device_program import DeviceProgram

FLAGS = ("-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE")


def image_of(program: DeviceProgram) -> bytes:
    """Return the image of a program of ansorc; raise BuildError with the compiler's words."""
    entries = (entry(one.name, len(one.arguments)) for one in program.plan.launches)
    source = "\n".join([emulation_source(program), *dict.fromkeys(entries)])
    return compile_cxx_text(source, *FLAGS)


def entry(kernel: str, arguments: int) -> str:
    """Return what the driver calls to launch a kernel, and what it has to know of it."""
    passed = ", ".join(f"emulation::Argument{{arguments[{n}]}}" for n in range(arguments))
    seen = 'extern "C" __attribute__((visibility("default")))'
    return f"""
{seen} int {kernel}__arguments = {arguments};
{seen} int {kernel}__launch(void **arguments, const unsigned *grid, const unsigned *block) {{
  emulation::is_failed = false;
  if (!emulation::random_state) emulation::random_state = 88172645463325252ull;
  return emulation::launch(dim3{{grid[0], grid[1], grid[2]}}, dim3{{block[0], block[1], block[2]}},
                           true, [&] {{ {kernel}({passed}); }});
}}"""
