"""Alternative definitions of a computation: the same tensor by other arithmetic.

In: one `ComputeOp`. Out: the stages that compute it differently, or None if they do not apply.
`DEFINITIONS` lists them by name.
"""

from collections.abc import Callable, Mapping

from ansorc.lang.compute_op import ComputeOp
from ansorc.lang.definitions.winograd import Redefinition, winograd, winograd4

DEFINITIONS: Mapping[str, Callable[[ComputeOp], Redefinition | None]] = {
    "winograd": winograd,
    "winograd4": winograd4,
}
"""The definitions by name. Each returns None for a computation to which it does not apply."""

__all__ = ["DEFINITIONS", "Redefinition", "winograd", "winograd4"]
