"""The one place that knows LightGBM: gradient-boosted trees for an objective of our own."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module, util
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ansorc.errors import OptionError
from ansorc.search.cost_model import Float64Array

FeatureMatrix = npt.NDArray[np.float32]
Objective = Callable[[Float64Array, object], tuple[Float64Array, Float64Array]]
"""(what the trees say [rows]) → first and second derivative of the loss [rows]."""

_UNUSED = ("sklearn", "pandas", "matplotlib", "pyarrow", "dask", "graphviz")
"""Packages that LightGBM imports if they are there, and that are not needed here."""
_OPENMP = "libgomp.so.1"
"""The library that LightGBM's wheel needs and slim images of Python do not have."""


class Trees(Protocol):
    """The part of a trained `lightgbm.Booster` that is used."""

    def predict(
        self, data: FeatureMatrix, *, raw_score: bool, num_threads: int
    ) -> Float64Array: ...

    def model_to_string(self) -> str: ...


@dataclass(frozen=True)
class Growth:
    """How trees are grown."""

    trees: int = 80
    leaves: int = 24
    learning_rate: float = 0.2
    seed: int = 0
    threads: int = 1
    least_rows: int = 4
    """The least rows of a leaf."""

    def parameters(self) -> dict[str, object]:
        """Return LightGBM's names for these numbers, and the ones that are always the same."""
        return {
            "objective": "none",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "min_data_in_leaf": self.least_rows,
            "min_sum_hessian_in_leaf": 0.0,
            "lambda_l2": 0.3,
            "feature_fraction": 0.8,
            "extra_trees": True,
            "max_bin": 127,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "boost_from_average": False,
            "seed": self.seed,
            "deterministic": True,
            "force_col_wise": True,
            "num_threads": self.threads,
            "verbosity": -1,
        }


def what_is_missing() -> str:
    """Return why LightGBM cannot be used, as a half sentence; "" if it can."""
    if util.find_spec("lightgbm") is None:
        return "LightGBM is not installed"
    if not _has_openmp():
        return (f"LightGBM cannot be loaded without {_OPENMP}, which this system lacks "
                "(Debian, Ubuntu: apt install libgomp1; Fedora: dnf install libgomp)")  # fmt: skip
    return ""


def import_ahead() -> None:
    """Import LightGBM at a time when it delays nothing."""
    if not what_is_missing():
        _lightgbm()


@lru_cache(maxsize=1)
def _has_openmp() -> bool:
    return _loads(_OPENMP) or lend_openmp()


def lend_openmp() -> bool:
    """Load the OpenMP runtime of scikit-learn's wheel for LightGBM; return whether that worked.

    A library that is loaded satisfies later ones by the name that is written in it. That wheel
    brings the runtime under a longer name: what is loaded is a copy in memory with the short one.
    """
    sklearn = util.find_spec("sklearn")
    if sklearn is None or sklearn.origin is None:
        return False
    site = Path(sklearn.origin).parents[1]
    for library in site.glob("scikit_learn.libs/libgomp-*.so*"):
        longer = library.name.encode() + b"\0"
        short = _OPENMP.encode().ljust(len(longer), b"\0")
        with os.fdopen(os.memfd_create(_OPENMP), "wb") as copy:
            copy.write(library.read_bytes().replace(longer, short))
            copy.flush()
            if _loads(f"/proc/self/fd/{copy.fileno()}") and _loads(_OPENMP):
                return True
    return False


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class _Without(MetaPathFinder):
    """Hides what LightGBM can do without from one thread; others import it as ever."""

    thread: int

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ModuleNotFoundError for a hidden package."""
        if fullname in _UNUSED and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"'{fullname}' is not needed here", name=fullname)


@lru_cache(maxsize=1)
def _lightgbm() -> Any:
    """LightGBM without the packages that it can do without: 0.3 s instead of 1; or OptionError.

    The copy is our own: who imports LightGBM elsewhere in this process gets all of it.
    """
    if "lightgbm" in sys.modules:
        return sys.modules["lightgbm"]
    if missing := what_is_missing():
        raise OptionError(f"{missing}; learned cost models need it")
    finder = _Without(threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        return import_module("lightgbm")
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "lightgbm"]:
            sys.modules.pop(name, None)


def grow_trees(matrix: FeatureMatrix, objective: Objective, growth: Growth) -> Trees:
    """Return trees for the rows of `matrix` that make `objective` small."""
    lightgbm = _lightgbm()
    parameters = growth.parameters()
    unused = np.zeros(len(matrix))
    data = lightgbm.Dataset(matrix, unused, params=parameters, free_raw_data=False)
    booster = lightgbm.Booster(parameters, data)
    for _ in range(growth.trees):
        if booster.update(fobj=objective):
            break
    return booster


def trees_of(text: str) -> Trees:
    """Return the trees that `model_to_string` wrote; raise ValueError if `text` is cut off."""
    if not text.startswith("tree\n") or "end of parameters" not in text:
        raise ValueError("its trees are cut off")
    return _lightgbm().Booster(model_str=text)
