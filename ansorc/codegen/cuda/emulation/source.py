"""A CUDA text as C++: the headers that say what a GPU does, the text as it is, and who calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from ansorc.codegen.cuda.text import SHARED_ALIGNMENT, cuda_text
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.codegen.program.launch_plan import KernelArgument, LaunchPlan
from ansorc.errors import BuildError

HEADERS = Path(__file__).parent
"""The directory of the headers."""
_DYNAMIC = "char *const {0} = {0}_memory;"


def emulation_source(program: DeviceProgram) -> str:
    """Return C++ with the function

    `int ansorc_emulate(void *const *parameters, char *workspace, int64_t calls, uint64_t seed,
    double *seconds)`,

    which runs all launches of `program` and returns 0, or why not (`ansorc_emulation_failure` has
    the words). To `seconds`, unless it is null, it adds what each launch took.
    """
    plan = program.plan
    poison = f"__builtin_memset(workspace, 0xff, {plan.workspace_bytes});"
    return "\n".join([
        '#include "fibers.h"',
        *_body(program),
        'extern "C" __attribute__((visibility("default"))) int ansorc_emulate(',
        "    void *const *parameters, char *workspace, int64_t calls, uint64_t seed,",
        "    double *seconds) {",
        "  emulation::is_failed = false;",
        "  emulation::set_seed(seed);",
        "  for (; calls > 0; --calls) {",
        *([poison] if plan.workspace_bytes else []),
        "  emulation::Clock clock;",
        *_launches(program),
        "  }",
        "  return 0;",
        "}",
        "",
    ])  # fmt: skip


def sanitizer_source(program: DeviceProgram, parameter_bytes: Sequence[int]) -> str:
    """Return C++ of a program that runs all launches once, with threads, for a sanitizer.

    Its arguments are a file with the parameters one after another, a file for what becomes of
    them, the seed, and the most blocks of a launch that are run.
    """
    plan = program.plan
    if plan.calls:
        raise BuildError(f"'{plan.name}' is a network; its kernels are checked one at a time")
    sizes = ", ".join(map(str, parameter_bytes))
    count = len(parameter_bytes)
    memory = [
        f"  buffers[{n}] = malloc({size});\n  __builtin_memset(buffers[{n}], 0xff, {size});"
        for n, size in _workspace(plan).items()
    ]
    buffers = max(_workspace(plan), default=0) + 1
    return "\n".join([
        "#define EMULATION_CHECKS",
        '#include "threads.h"',
        *_body(program),
        f"static void *parameters[{count}];",
        "static int emulation::run(uint64_t) {",
        f"  static void *buffers[{buffers}];",
        *memory,
        *_launches(program, is_split=True),
        "  return 0;",
        "}",
        "int main(int, char **words) {",
        f"  static const size_t sizes[] = {{{sizes}}};",
        f"  return emulation::run_on_files(words, sizes, parameters, {count});",
        "}",
        "",
    ])  # fmt: skip


def _body(program: DeviceProgram) -> Iterator[str]:
    """The text, and the memory that its launches give to kernels."""
    dynamic = max((launch.dynamic_shared_bytes for launch in program.plan.launches), default=0)
    names = {kernel.dynamic_memory for kernel in program.kernels}
    for name in sorted(names - {""}):
        yield f"__shared__ __align__({SHARED_ALIGNMENT}) char {name}_memory[{max(1, dynamic)}];"
    yield '#line 1 "kernel.cu"'
    yield cuda_text(program, _DYNAMIC)
    yield '#line 1 "launches"'


def _launches(program: DeviceProgram, *, is_split: bool = False) -> Iterator[str]:
    plan, waiting = program.plan, {kernel.name for kernel in program.kernels if kernel.waits}
    for number, launch in enumerate(plan.launches):
        places = ", ".join(
            _argument(argument, plan, is_split=is_split) for argument in launch.arguments
        )
        waits = "true" if launch.name in waiting else "false"
        shape = f"{_triple(launch.grid)}, {_triple(launch.block)}, {waits}"
        yield f"  if (emulation::Status status = emulation::launch({shape},"
        yield f"          [&] {{ {launch.name}({places}); }})) return status;"
        if not is_split:
            yield f"  if (seconds) seconds[{number}] += clock.lap();"


def _argument(argument: KernelArgument, plan: LaunchPlan, *, is_split: bool) -> str:
    if argument.kind == "parameter":
        first = f"static_cast<char *>(parameters[{argument.place}])"
        return f"emulation::Argument{{{first} + {argument.offset}}}"
    if is_split:
        number = list(_places(plan)).index(argument.place)
        return f"emulation::Argument{{buffers[{number}]}}"
    return f"emulation::Argument{{workspace + {argument.place}}}"


def _places(plan: LaunchPlan) -> list[int]:
    """The offsets of the arrays in the workspace, in their order."""
    arguments = (argument for launch in plan.launches for argument in launch.arguments)
    return sorted({each.place for each in arguments if each.kind == "workspace"})


def _workspace(plan: LaunchPlan) -> dict[int, int]:
    """The bytes of each array in the workspace, by its number, up to where the next one begins."""
    edges = [*_places(plan), plan.workspace_bytes]
    return {number: end - start for number, (start, end) in enumerate(pairwise(edges))}


def _triple(extents: tuple[int, int, int]) -> str:
    return "{{{}, {}, {}}}".format(*extents)
