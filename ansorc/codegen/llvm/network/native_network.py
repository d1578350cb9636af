"""Networks in this process: linked in memory by LLVM, without files and tools."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from ansorc.codegen.llvm.binding import compile_object, link_object_code
from ansorc.codegen.llvm.network.dispatch import emit_dispatch
from ansorc.codegen.llvm.network.driver import (
    emit_driver,
    file_prefix,
    kernel_prefix,
    prepare_symbol,
    symbol_of_bound,
    symbol_of_derived,
    weights_symbol,
)
from ansorc.codegen.llvm.opener import NativeNetwork
from ansorc.codegen.network.artifact import (
    MOST_EMBEDDED_BYTES,
    DerivedSection,
    NetworkObjects,
)
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan
from ansorc.codegen.package.runtime_library import runtime_symbols
from ansorc.codegen.package.symbols import hide_with_prefix
from ansorc.target import Target

_LEAST_MOVED_BYTES = 4 << 20
"""Fewer weights stay where they are: of so many at least half are in huge pages."""


def network_objects(
    plan: NetworkPlan,
    target: Target,
    file_digest: bytes | None = None,
    *,
    prepares: bool = True,
    embeds: bool = False,
) -> NetworkObjects:
    """Return the object files of the driver and of the kernels, without the weights.

    `embeds`: for a library that has them inside. With their SHA-256, `file_digest`, they are in a
    file. `prepares`: with what makes the derived weights. Raise BuildError with LLVM's words.
    """
    moved = _count_moved_bytes(plan, target) if embeds else 0
    used = {call.kernel: plan.kernels[call.kernel] for call in plan.calls}
    if prepares:
        used |= dict(enumerate(plan.derived.packers, len(plan.kernels)))
    kernels = [
        hide_with_prefix(used[number].code.image, kernel_prefix(plan, number))
        for number in sorted(used)
    ]
    driver = emit_driver(plan, target, file_digest, prepares=prepares, moved=moved)
    files = [compile_object(driver, target), *kernels]
    made = DerivedSection(
        symbol_of_derived(plan), plan.derived.nbytes + moved, prepare_symbol(plan)
    )
    return NetworkObjects(files, weights_symbol(plan), file_prefix(plan), made)


def _count_moved_bytes(plan: NetworkPlan, target: Target) -> int:
    """How many of the weights inside a library the loader moves to huge pages: all, or none.

    Linux maps a file by pages of 4 KiB (docs/decisions/0091).
    """
    size = plan.weights.nbytes
    has_room = 2 * size + plan.derived.nbytes <= MOST_EMBEDDED_BYTES
    is_worth_it = size >= _LEAST_MOVED_BYTES and "linux" in target.real.triple
    return size if has_room and is_worth_it else 0


def variants_objects(plan: VariantsPlan, target: Target) -> NetworkObjects:
    """Return the object files of all networks of `plan`, and of the function that picks one.

    The first network makes the derived weights of all.
    """
    files = [compile_object(emit_dispatch(plan, target), target)]
    parts = [
        network_objects(each, target, prepares=each is plan.plans[0], embeds=True)
        for each in plan.plans
    ]
    for part in parts:
        files += part.files
    return replace(parts[0], files=files)


def load_plan(plan: NetworkPlan, target: Target) -> NativeNetwork:
    """Load the network of `plan`, whose weights are then in memory, packed."""
    weights, derived = plan.weights.array(), plan.derived.memory()
    symbols = {weights_symbol(plan): weights.ctypes.data} if weights.nbytes else {}
    if derived.nbytes:
        symbols[symbol_of_derived(plan)] = derived.ctypes.data
    for number, weight in enumerate(plan.bound):
        symbols[symbol_of_bound(plan, number)] = weight.array.ctypes.data
    if plan.needs_runtime:
        symbols |= runtime_symbols()
    code = link_object_code(network_objects(plan, target).files, symbols)
    if derived.nbytes:
        plan.derived.make(ctypes.CFUNCTYPE(ctypes.c_int32)(code.address(prepare_symbol(plan))))

    def free() -> tuple[object, ...]:
        code.close()
        return weights, derived, plan.bound  # which live as long as the code

    name = plan.name
    profile = code.address(f"{name}_profile")
    return NativeNetwork(code.address(name), profile, len(plan.calls), free)
