"""Workloads: functions in a user's file that define what to tune, with integer settings."""

from __future__ import annotations

import inspect
import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ansorc.errors import AnsorcError, LanguageError
from ansorc.lang.arguments import check_arguments
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.literal import short_text
from ansorc.lang.tensor import Tensor


@dataclass(frozen=True)
class Workload:
    """A function that returns tensors, all inputs and outputs in call order."""

    function: Callable[..., Sequence[Tensor]]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def defaults(self) -> dict[str, int]:
        """The settings and their default values."""
        parameters = inspect.signature(self.function).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    def __call__(self, **settings: int) -> Sequence[Tensor]:
        """Return the tensors with `settings`, the others at their defaults."""
        return self.function(**settings)

    def dag(self, settings: Mapping[str, int]) -> ComputeDAG:
        """Return the DAG with `settings`; raise LanguageError on unknown ones or a bad result."""
        unknown = [name for name in settings if name not in self.defaults]
        if unknown:
            known = ", ".join(f"{name}={value}" for name, value in self.defaults.items()) or "none"
            raise LanguageError(
                f"the workload '{self.name}' has no setting '{unknown[0]}'; it has {known}"
            )
        tensors: object = self.function(**settings)
        if not isinstance(tensors, (list, tuple)):
            raise LanguageError(
                f"the workload '{self.name}' returned {type(tensors).__name__}; "
                "return the list [inputs…, outputs…]"
            )
        return ComputeDAG(list[Tensor](tensors))


def workload(function: Callable[..., Sequence[Tensor]]) -> Workload:
    """Mark `function`, which returns `[inputs…, outputs…]`, as a workload to tune.

    Raise LanguageError unless each of its parameters has an integer default.
    """
    if not inspect.isfunction(function):
        raise LanguageError(f"a workload is a function with settings, not {short_text(function)}")
    for parameter in inspect.signature(function).parameters.values():
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_variadic or not isinstance(parameter.default, int):
            raise LanguageError(
                f"the parameter '{parameter.name}' of the workload '{function.__name__}' needs an "
                f"integer as default, like {parameter.name}: int = 512"
            )
    return Workload(function)


def load_workloads(path: str | Path) -> dict[str, Workload]:
    """Run the Python file `path` and return its workloads by name, in the order of the file.

    Raise LanguageError if the file cannot be run or has none.
    """
    if not Path(path).is_file():
        raise LanguageError(f"there is no file '{path}'; give a Python file with @ac.workload")
    try:
        variables = runpy.run_path(str(path), run_name="ansorc_workload")
    except AnsorcError:
        raise
    except Exception as error:
        raise LanguageError(f"'{path}' cannot be run: {_blame(error, path)}") from error
    workloads = {value.name: value for value in variables.values() if isinstance(value, Workload)}
    if not workloads:
        raise LanguageError(f"'{path}' has no workload; put @ac.workload above a function in it")
    return workloads


@check_arguments
def load_workload(
    path: str | Path, function_name: str = "", settings: Mapping[str, int] | None = None
) -> ComputeDAG:
    """Return the DAG of the workload `function_name` of the file `path`, with `settings`.

    The name may be omitted if there is only one. Raise LanguageError if it is ambiguous, or if the
    file, the function or a setting does not exist.
    """
    workloads = load_workloads(path)
    known = ", ".join(workloads)
    if not function_name and len(workloads) > 1:
        raise LanguageError(f"'{path}' has several workloads; choose one, {path}:NAME, of {known}")
    name = function_name or next(iter(workloads))
    if name not in workloads:
        raise LanguageError(f"'{path}' has no workload '{name}'; it has {known}")
    try:
        return workloads[name].dag(settings or {})
    except AnsorcError:
        raise
    except Exception as error:
        raise LanguageError(f"the workload '{name}' failed: {_blame(error, path)}") from error


def _blame(error: Exception, path: str | Path) -> str:
    """Return the error in one line, with the line of the file."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == Path(path)]
    where = f" (line {lines[-1]} of {path})" if lines else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
