"""Calling kernels from Python: right results, from several threads, and refusals in clear words."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import load_code
from ansorc.codegen.package.signature import signature_of
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError, CallError
from ansorc.ir.parser import parse
from ansorc.target import Target, detect
from tests.codegen import kernels
from tests.codegen.kernels import arguments, build


class Exporter:
    """An array of another library: it has nothing but DLPack, of the given age."""

    def __init__(self, array: NDArray[Any], *, versioned: bool, fails: bool = False) -> None:
        self._array, self._versioned, self._fails = array, versioned, fails

    def __dlpack__(self, **options: Any) -> Any:
        if self._fails:
            raise BufferError("it lies on device 3")
        if options.get("max_version") and not self._versioned:
            raise TypeError("unexpected keyword 'max_version'")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("text", [kernels.TWICE, kernels.PARALLEL_TWICE])
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_a_call_computes(text: str, threads: int) -> None:
    a, b = arguments()
    build(text)(a, b, threads=threads)
    np.testing.assert_array_equal(b, 2 * a)


def test_the_name_can_be_chosen() -> None:
    module = build(kernels.TWICE, "doubled")
    a, b = arguments()
    module(a, b)
    assert module.signature.name == "doubled"
    np.testing.assert_array_equal(b, 2 * a)
    assert repr(module).startswith("<kernel doubled(A: float32[24, 40], B: float32[24, 40])")


def test_two_threads_may_call_at_once() -> None:
    module = build(kernels.WORKSPACE_SQUARE)
    wrong: list[int] = []

    def call(seed: int) -> None:
        a = np.random.default_rng(seed).random((24, 40), dtype=np.float32)
        b = np.empty_like(a)
        for _ in range(300):
            b[:] = 0
            module(a, b, threads=2)
            if not np.allclose(b, a * a):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert module.signature.workspace_bytes == 24 * 40 * 4
    assert not wrong


@pytest.mark.parametrize("versioned", [False, True])
def test_arrays_of_other_libraries(*, versioned: bool) -> None:
    a, b = arguments()
    build(kernels.TWICE)(Exporter(a, versioned=versioned), Exporter(b, versioned=versioned))
    np.testing.assert_array_equal(b, 2 * a)


def test_time_tells_the_time_of_a_call() -> None:
    timing = build(kernels.TWICE).time(*arguments(), min_time_s=0.01)
    assert 1e-9 < timing.median_s < 1e-3
    assert timing.spread_s >= 0
    assert timing.repeats >= 5
    assert timing.calls > 10  # a batch hides what the call itself costs


def refused(*values: object, threads: int = 0) -> str:
    with pytest.raises(CallError) as caught:
        build(kernels.TWICE)(*values, threads=threads)
    return str(caught.value)


def test_refuses_a_wrong_count() -> None:
    for count in (0, 3):
        assert refused(*[arguments()[0]] * count) == (
            f"twice takes 2 arrays (A: float32[24, 40], B: float32[24, 40]), but {count} were given"
        )


def test_refuses_a_wrong_shape() -> None:
    a, b = arguments()
    assert refused(a.T.copy(), b) == (
        "twice: argument 1 'A' has shape (40, 24), but the kernel wants (24, 40)"
    )


def test_refuses_a_wrong_dtype() -> None:
    a, b = arguments()
    assert refused(a.astype(np.float64), b) == (
        "twice: argument 1 'A' has dtype float64, but the kernel wants float32; "
        "convert it with .astype('float32')"
    )
    assert "dtype >f4" in refused(a.astype(">f4"), b)


def test_refuses_an_array_that_is_not_contiguous() -> None:
    a, b = arguments()
    wide = np.zeros((24, 80), np.float32)
    message = refused(wide[:, ::2], b)
    assert "argument 1 'A' is not contiguous (strides (320, 8) bytes)" in message
    assert message.endswith("use numpy.ascontiguousarray")
    assert "pass numpy.empty((24, 40), 'float32')" in refused(a, wide[:, ::2])


@pytest.mark.parametrize("wrapped", [False, True])
def test_refuses_a_read_only_output(*, wrapped: bool) -> None:
    a, b = arguments()
    b.flags.writeable = False
    output = Exporter(b, versioned=True) if wrapped else b
    assert refused(a, output) == (
        "twice: argument 2 'B' is read-only, "
        "but the kernel writes its result there; pass a writable array"
    )
    build(kernels.TWICE)(b, a)  # as an input it is welcome


def test_refuses_a_misaligned_array() -> None:
    memory = np.zeros(24 * 40 * 4 + 1, np.uint8)
    odd = memory[1:].view(np.float32).reshape(24, 40)
    assert "argument 1 'A' is misaligned" in refused(odd, arguments()[1])


def test_refuses_arrays_that_overlap() -> None:
    memory = np.zeros(24 * 40 * 2 - 1, np.float32)
    a, b = memory[: 24 * 40].reshape(24, 40), memory[-24 * 40 :].reshape(24, 40)
    assert refused(a, b).startswith("twice: the output 'B' overlaps 'A' in memory")


def test_refuses_what_is_no_array() -> None:
    a, b = arguments()
    assert "argument 1 'A' is a list, but it must be a NumPy array" in refused(a.tolist(), b)
    elsewhere = Exporter(a, versioned=True, fails=True)
    assert "NumPy cannot view (it lies on device 3)" in refused(elsewhere, b)


@pytest.mark.parametrize("threads", [-1, 1025, 1 << 40])
def test_refuses_a_thread_count_out_of_range(threads: int) -> None:
    words = f"threads is {threads}, but it must be 0 (all cores) to 1024"
    assert refused(*arguments(), threads=threads) == words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "twice ran out of memory"),
        (2, "twice was built for '.*', which has instructions that this CPU lacks"),
        (7, "twice got an index that a tensor does not have"),
        (8, "twice divides an integer by zero"),
        (9, "something which the program asserts does not hold"),
        (99, "twice failed with status 99"),
    ],
)
def test_says_what_a_status_means(tmp_path: Path, status: int, words: str) -> None:
    source, code = tmp_path / "twice.c", tmp_path / "twice.o"
    source.write_text(f"int twice(void *a, void *b, void *w, int t) {{ return {status}; }}")
    subprocess.run(["cc", "-c", "-fPIC", source, "-o", code], check=True)
    signature = signature_of(parse(kernels.TWICE), 0)
    with pytest.raises(CallError, match=words):
        load_code(CompiledProgram(code.read_bytes()), signature, detect())(*arguments())


def test_says_when_memory_runs_out() -> None:
    huge = kernels.WORKSPACE_SQUARE.replace(
        "alloc twice: float32[24, 40]", "alloc twice: float32[24, 40, 1000000000000]"
    )
    huge = huge.replace("twice[i, j]", "twice[i, j, 0]").replace("twice[k, l]", "twice[k, l, 0]")
    with pytest.raises(CallError, match="square needs 3840000000000000 bytes of workspace"):
        build(huge)(*arguments())


def test_a_kernel_for_another_machine_is_built_but_not_called() -> None:
    module = compile_module(
        parse(kernels.TWICE), Target.parse("aarch64-linux-gnu -mcpu=cortex-a53")
    )
    with pytest.raises(BuildError, match="'twice' was built for aarch64-linux-gnu and cannot run"):
        module(*arguments())


@pytest.mark.parametrize(
    "name", ["my kernel", "2d", "", "a.b", "int", "while", "memcpy", "ansorc_x"]
)
def test_refuses_a_name_that_c_cannot_use(name: str) -> None:
    function = parse(kernels.TWICE)
    with pytest.raises(BuildError, match="give another name"):
        compile_module(function, Target.parse("native"), name or " ")
