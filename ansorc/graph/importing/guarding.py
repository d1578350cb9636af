"""Errors that name the node whose converter failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ansorc.errors import AnsorcError, GraphError, InternalError
from ansorc.graph.importing.converter_call import ConverterCall
from ansorc.lang.arguments import too_deep

T = TypeVar("T")


def call_converter(
    call: ConverterCall, convert: Callable[[], T], explain: Callable[[str], AnsorcError]
) -> T:
    """Return what `convert` returns for a node; its errors name the node.

    Raise GraphError for what ansorc refuses. `explain` returns the error for what a converter did
    not foresee, whose words it is given: the network's fault or ansorc's.
    """
    try:
        return convert()
    except (GraphError, InternalError, MemoryError):
        raise
    except AnsorcError as error:
        raise GraphError(f"{call.where}: {error}") from error
    except RecursionError as error:
        raise GraphError(str(too_deep(call.where))) from error
    except Exception as error:
        raise explain(f"{type(error).__name__}: {error}") from error
