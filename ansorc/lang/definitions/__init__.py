"""Alternative definitions of a computation: the same tensor by other arithmetic.

In: one `ComputeOp`. Out: the stages that compute it differently, or None if they do not apply.
`DEFINITIONS` lists them by name.
"""

from collections.abc import Callable, Mapping

from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.definitions.digits import terms_of_digits
from ansorc.lang.definitions.extreme_in_blocks import extreme_in_blocks
from ansorc.lang.definitions.narrow_factors import int16_factors, shifted_factors, widened_factors
from ansorc.lang.definitions.redefinition import Redefinition
from ansorc.lang.definitions.scan_blocks import scan_in_blocks
from ansorc.lang.definitions.winograd import winograd, winograd4

OF_CONVOLUTIONS: Mapping[str, Callable[[ComputeOp], Redefinition | None]] = {
    "winograd": winograd,
    "winograd4": winograd4,
}
"""Those of convolutions by fewer multiplications."""
DEFINITIONS: Mapping[str, Callable[[ComputeOp], Redefinition | None]] = {
    **OF_CONVOLUTIONS,
    "blocks": scan_in_blocks,
    "digits": terms_of_digits,
    "extreme": extreme_in_blocks,
    "int16": int16_factors,
    "shifted": shifted_factors,
    "widened": widened_factors,
}
"""The definitions by name. Each returns None for a computation to which it does not apply."""

__all__ = [
    "DEFINITIONS",
    "OF_CONVOLUTIONS",
    "Redefinition",
    "extreme_in_blocks",
    "int16_factors",
    "scan_in_blocks",
    "shifted_factors",
    "terms_of_digits",
    "widened_factors",
    "winograd",
    "winograd4",
]
