"""NVIDIA's compilers, where they are installed: tests that need them are skipped elsewhere."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from ansorc.codegen.cuda.toolkit import list_architectures
from ansorc.errors import BuildError


def _missing() -> str:
    if find_spec("cuda") is None:
        return "there are no CUDA wheels; pip install 'ansorc[cuda]'"
    try:
        list_architectures()
    except BuildError as error:
        return str(error)
    return ""


HAS_WHEELS = not _missing()
needs_wheels = pytest.mark.skipif(bool(_missing()), reason=_missing())
