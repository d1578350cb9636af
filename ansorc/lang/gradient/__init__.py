"""Gradients: the definitions of the derivatives of a computation."""

from ansorc.errors import LanguageError
from ansorc.lang.arguments import check_arguments
from ansorc.lang.gradient.adjoint import gradient, stop_gradient

__all__ = ["gradient", "stop_gradient"]

gradient = check_arguments(gradient, LanguageError)
stop_gradient = check_arguments(stop_gradient, LanguageError)
for _function in (gradient, stop_gradient):
    _function.__module__ = __name__  # where pickle finds it
