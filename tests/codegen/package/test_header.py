"""The header's names, types and words."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.codegen.package.c_names import c_names, is_reserved, require_c_name
from ansorc.codegen.package.header import c_type, header_text
from ansorc.codegen.package.manifest import Manifest
from ansorc.codegen.package.signature import Param, Signature
from ansorc.errors import BuildError
from ansorc.ir.dtype import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, UINT32
from ansorc.target import Target
from tests.support.nightly import examples

TARGET = Target.parse("x86_64-linux-gnu -mcpu=znver3")


def header(*params: Param, workspace_bytes: int = 0, parallel: bool = False) -> str:
    signature = Signature("kernel_7", params, workspace_bytes, parallel)
    return header_text(Manifest(signature, TARGET, "1.2.3+abcdef012345"))


def test_types() -> None:
    types = [c_type(kind) for kind in (FLOAT16, FLOAT32, FLOAT64, INT8, UINT32, BOOL)]
    assert types == ["uint16_t", "float", "double", "int8_t", "uint32_t", "uint8_t"]


def test_names_that_c_does_not_know() -> None:
    assert c_names(["conv.pad", "conv_pad", "2", "int", "größe", "threads", "a"]) == [
        "conv_pad", "conv_pad_2", "p_2", "int_", "gr__e", "threads_2", "a",
    ]  # fmt: skip


MACROS = [
    "NULL", "NAN", "unix", "linux", "I", "complex", "errno", "EOF",
    "INT8_MAX", "UINT64_C", "FLT_MAX", "PRId64",
    "EINVAL", "SIGINT", "M_PI", "assert", "stdin", "INFINITY",
]  # fmt: skip


def test_macros_are_no_names_of_arrays() -> None:
    assert c_names(MACROS) == [f"{name}_" for name in MACROS]
    others = ["x", "EPSILON", "ENCODER", "M_W", "data", "weight", "SIGMA", "max", "index"]
    assert c_names(others) == others


def test_a_header_with_names_of_macros_is_c(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler of C")
    params = [Param(name, (2,), FLOAT32, is_output=False) for name in MACROS]
    text = header(*params, Param("printf", (2,), FLOAT32, is_output=True))
    includes = ["assert", "complex", "errno", "float", "inttypes", "math", "signal", "stdio"]
    source = tmp_path / "user.c"
    source.write_text("".join(f"#include <{name}.h>\n" for name in includes) + text)
    done = subprocess.run(
        [compiler, "-std=gnu11", "-fsyntax-only", "-D_GNU_SOURCE", str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["printf", "NULL", "unix", "errno", "INT8_MAX", "EINVAL"])
def test_what_c_has_is_no_name_of_a_kernel(name: str) -> None:
    with pytest.raises(BuildError, match="C or the runtime uses that; give another name"):
        require_c_name(name)


@examples(18, nightly=300)
@given(st.lists(st.text(max_size=4), max_size=6))
def test_names_are_unique_identifiers(names: list[str]) -> None:
    found = c_names(names)
    assert len(found) == len(names)
    assert len({name.upper() for name in found}) == len(names)
    assert all(name.isascii() and name.isidentifier() and not is_reserved(name) for name in found)


def test_the_contract_is_in_the_header() -> None:
    text = header(
        Param("x.half", (2, 3), FLOAT16, is_output=False),
        Param("w", (3,), FLOAT32, is_output=False, constant=True),
        Param("y", (), FLOAT64, is_output=True),
        workspace_bytes=128,
        parallel=True,
    )
    assert " * kernel_7, version 1.2.3+abcdef012345, for x86_64-linux-gnu -mcpu=znver3." in text
    assert " * x_half ('x.half'): float16[2][3], input, IEEE binary16 bits\n" in text
    assert " * w: float32[3], input, a weight\n" in text
    assert " * y: float64 (one element), output\n" in text
    assert "row-major" in text
    assert "KERNEL_7_WORKSPACE_BYTES = 128 bytes, aligned to 64" in text
    assert "Calls from several threads at once are safe" in text
    assert "#define KERNEL_7_X_HALF_DIM1 3\n" in text
    assert "#define KERNEL_7_Y_ELEMENTS 1\n" in text
    assert '#define KERNEL_7_VERSION "1.2.3+abcdef012345"\n' in text
    assert "int32_t kernel_7(const ansorc_f16 *x_half,\n" in text
    assert "                 double *y,\n" in text


def test_a_serial_kernel_says_so() -> None:
    text = header(Param("y", (4,), FLOAT32, is_output=True))
    assert "workspace: not used, pass NULL." in text
    assert "threads: not used, the kernel runs on the calling thread; pass 1." in text


def test_no_name_ends_the_comment() -> None:
    text = header(Param("a*/b", (4,), FLOAT32, is_output=True))
    assert text.count("*/") == text.count("/*")
