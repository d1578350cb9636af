"""A scalar function of the user's, by its text for each kind of machine and a reference."""

from __future__ import annotations

import hashlib
import json
import runpy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ansorc.errors import LanguageError, ParseError
from ansorc.ir.aligned import Array
from ansorc.ir.dtype import DType
from ansorc.ir.dtype import dtype as dtype_named


@dataclass(frozen=True)
class OwnFunction:
    """A pure function of scalars; two with different texts are different functions."""

    name: str
    arguments: tuple[DType, ...]
    """The dtypes of the operands."""
    result: DType
    llvm: str = ""
    """The name of an intrinsic of LLVM, such as `llvm.fma`, or the text of a function in LLVM IR.

    Without a text there is no code for CPUs."""
    cuda: str = ""
    """An expression of CUDA C, in which `{0}`, `{1}`, … are the operands."""
    reference: str = ""
    """Where a function of arrays is, `module:function` or `file.py:function`. It gets the operands,
    floats as float64, and returns the results."""
    c: str = field(default="", repr=False)
    """The text of a C function of whole arrays; the function then computes a stage.

    It has a part in the symbol, so keys of programs need not show it."""
    gradient: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    """From the operands to the derivative by each, as expressions; it is not kept in texts."""
    loaded: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    """The reference itself, in the process that it was given in."""

    @property
    def symbol(self) -> str:
        """The name in programs, in which the texts of the machine code have a part."""
        texts = [self.name, *map(str, self.arguments), str(self.result), self.llvm, self.cuda]
        texts += [self.c] if self.c else []
        return f"{self.name}@{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:8]}"

    def to_text(self) -> str:
        """Return the function as one line that `from_text` reads back."""
        values = {
            "name": self.name, "arguments": [str(each) for each in self.arguments],
            "result": str(self.result), "llvm": self.llvm, "cuda": self.cuda,
            "reference": self.reference, **({"c": self.c} if self.c else {}),
        }  # fmt: skip
        return json.dumps(values)

    def __reduce__(self) -> tuple[Callable[[str], OwnFunction], tuple[str]]:
        return OwnFunction.from_text, (self.to_text(),)

    @staticmethod
    def from_text(text: str) -> OwnFunction:
        """Return the function that `to_text` wrote; raise ParseError on other text."""
        try:
            values: dict[str, Any] = json.loads(text)
            values["arguments"] = tuple(map(dtype_named, values["arguments"]))
            values["result"] = dtype_named(values["result"])
            return OwnFunction(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise ParseError(f"this is no function of one's own: {error}") from None

    def evaluate(self, *args: Array) -> Array:
        """Return the reference of arrays; floats are float64 for it.

        Raise LanguageError if there is none, or it fails.
        """
        wide = [arg.astype(np.float64) if arg.dtype.kind == "f" else arg for arg in args]
        try:
            function = self.loaded or _load(self.reference, self.name)
            return np.asarray(function(*wide))
        except LanguageError:
            raise
        except Exception as error:
            raise LanguageError(
                f"the reference '{self.reference}' of '{self.name}' failed: "
                f"{type(error).__name__}: {error}"
            ) from error

    def of_arrays(self, shape: tuple[int, ...], *args: Array) -> Array:
        """Return the reference of the arrays of a stage, which has `shape`.

        Raise LanguageError if it fails, or if its result has another shape.
        """
        result = self.evaluate(*args)
        if result.shape != shape:
            raise LanguageError(
                f"the reference of '{self.name}' returned an array of shape {result.shape}, and "
                f"the stage has {shape}"
            )
        return result

    def of_scalars(self, *args: float) -> Any:
        """Return the reference of numbers, as a number of NumPy of the dtype of the result."""
        kinds = [dtype.numpy for dtype in self.arguments]
        arrays = [np.asarray(arg, kind) for arg, kind in zip(args, kinds, strict=True)]
        return self.evaluate(*arrays).astype(self.result.numpy)[()]


@lru_cache(maxsize=64)
def _load(place: str, name: str) -> Callable[..., Any]:
    """Return the function at `module:function` or `file.py:function`."""
    where, _, function = place.rpartition(":")
    if not where:
        raise LanguageError(
            f"'{name}' has no reference, so nothing says what it computes; give "
            "ac.intrinsic(reference=) a function of a module"
        )
    try:
        found: Any
        if where.endswith(".py"):
            found = runpy.run_path(str(Path(where)), run_name="ansorc_reference")[function]
        else:
            found = import_module(where)
            for part in function.split("."):
                found = getattr(found, part)
    except Exception as error:
        raise LanguageError(
            f"the reference '{place}' of '{name}' cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return found
