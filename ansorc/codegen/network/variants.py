"""`VariantsPlan`: networks behind one function in C, which picks one by extents of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.weights import WeightBlock
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError


@dataclass(frozen=True, eq=False)
class VariantsPlan:
    """Networks with the same inputs and outputs by name, whose weights are one block."""

    name: str
    """The name of the function that picks; the names of the networks begin with it and "_"."""
    plans: tuple[NetworkPlan, ...]

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """Those of the networks."""
        return tuple(plan.signature for plan in self.plans)

    @property
    def weights(self) -> WeightBlock:
        """Return what all of them read."""
        return self.plans[0].weights


def joint_signature(name: str, signatures: Sequence[Signature]) -> Signature:
    """Return the signature of the function that picks: the most workspace of all."""
    size = max(signature.workspace_bytes for signature in signatures)
    parallel = any(signature.parallel for signature in signatures)
    return replace(signatures[0], name=name, workspace_bytes=size, parallel=parallel)


def choosing_extents(signatures: Sequence[Signature]) -> list[tuple[int, int]]:
    """Return the input and the dimension of each extent that is not the same in all networks.

    Raise BuildError where an input has different numbers of dimensions.
    """
    choices: list[tuple[int, int]] = []
    listed = [[p.shape for p in each.params if not p.is_output] for each in signatures]
    for number, shapes in enumerate(zip(*listed, strict=True)):
        if len({len(shape) for shape in shapes}) > 1:
            name = signatures[0].params[number].name
            raise BuildError(
                f"'{name}' has different numbers of dimensions, so that no function can pick a "
                "network by its extents; save each network by itself"
            )
        for d, extents in enumerate(zip(*shapes, strict=True)):
            if len(set(extents)) > 1:
                choices.append((number, d))
    return choices


def shapes_text(signature: Signature) -> str:
    """Return the inputs' shapes for people: "x: 1x3x32x32, mask: 1x7"."""
    inputs = [param for param in signature.params if not param.is_output]
    return ", ".join(f"{p.name}: {'x'.join(map(str, p.shape)) or 'one element'}" for p in inputs)
