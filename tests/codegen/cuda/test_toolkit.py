from __future__ import annotations

from pathlib import Path

import pytest

from ansorc.codegen.cuda.disk_cache import DiskCache
from ansorc.codegen.cuda.toolkit import (
    Resources,
    assemble,
    compile_cubin,
    compile_ptx,
    disassemble,
    fat_binary,
    resources_of,
)
from ansorc.errors import BuildError
from tests.codegen.cuda.wheels import needs_wheels

REVERSE = """\
extern "C" __global__ void __launch_bounds__(256) reverse(const float* a, float* c) {
  __shared__ float s[256];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  c[threadIdx.x] = s[255 - threadIdx.x];
}
"""
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'two' for 'sm_90'
ptxas info    : Function properties for two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_what_ptxas_says_is_read() -> None:
    assert resources_of(LOG) == (
        Resources("one", 255, 12, 8, 16, 1024, 1),
        Resources("two", 12, 0, 0, 0, 0, 0),
    )


def test_the_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache, made = DiskCache(tmp_path, 16 * 1000), list[str]()

    def content(key: str) -> bytes:
        return cache.get(key, lambda: made.append(key) or key.encode() * 100)

    assert content("a") == content("a") == b"a" * 100
    assert made == ["a"]
    for number in range(400):
        content(f"key {number}")
    sizes = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(sizes) <= 16 * 1000
    made.clear()
    content("key 399")
    assert not made


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    cache.get("a", lambda: b"right")
    (path,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.get("a", lambda: b"again") == b"again"


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = DiskCache(tmp_path / "file")
    assert cache.get("a", lambda: b"made") == b"made"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@needs_wheels
def test_a_text_becomes_machine_code() -> None:
    cubin = compile_cubin(REVERSE, "sm_90")
    (found,) = cubin.resources
    assert (found.name, found.shared_bytes, found.barriers) == ("reverse", 1024, 1)
    assert found.spill_store_bytes == found.spill_load_bytes == 0
    assert 0 < found.registers <= 32
    assert compile_cubin(REVERSE, "sm_90") == cubin
    sass = disassemble(cubin.image)
    assert "BAR.SYNC" in sass
    assert "LDS" in sass


@needs_wheels
def test_a_fat_binary_has_code_for_several_architectures() -> None:
    ptx = compile_ptx(REVERSE, "sm_80")
    assert ".target sm_80" in ptx
    cubins = {arch: assemble(ptx, arch) for arch in ("sm_80", "sm_90")}
    assert [cubin.resources[0].shared_bytes for cubin in cubins.values()] == [1024, 1024]
    image = fat_binary({arch: cubin.image for arch, cubin in cubins.items()}, {"sm_80": ptx})
    assert len(image) > sum(len(cubin.image) for cubin in cubins.values()) / 2


@needs_wheels
@pytest.mark.parametrize(
    ("text", "arch", "words"),
    [
        (REVERSE.replace("a[", "b["), "sm_90",
         r"refuses line 3 of the text, 's\[threadIdx.x\] = b\[threadIdx.x\];': identifier \"b\""),
        (REVERSE, "sm_12", "makes no code for sm_12; it does for sm_"),
        (REVERSE.replace("[256]", "[99999]"), "sm_80", "uses too much shared data"),
    ],
)  # fmt: skip
def test_a_refusal_is_in_words(text: str, arch: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        compile_cubin(text, arch)


@needs_wheels
def test_a_header_of_nvidia_is_found() -> None:
    text = f"#include <cuda_fp16.h>\n{REVERSE.replace('s[255', '__half2float(__half(2)) * s[255')}"
    assert compile_cubin(text, "sm_75").resources[0].name == "reverse"
