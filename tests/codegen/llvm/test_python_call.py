"""Calls in machine code: the verdict of the checks in Python, no leak, and many threads at once."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from ansorc.codegen.base import DirectCall, DirectKernel, backend_of
from ansorc.codegen.build import compile_function
from ansorc.codegen.call.arguments import check_arrays, pack_weight
from ansorc.codegen.call.build import compile_module
from ansorc.codegen.call.module import Module, load_code
from ansorc.codegen.package.signature import Signature, signature_of
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import CallError
from ansorc.ir.packing import PackedWeight
from ansorc.ir.parser import parse
from ansorc.target import Target
from tests.codegen.call.call_fuzz import MIXED, TRANSPOSED, Draw, Value
from tests.codegen.kernels import PARALLEL_TWICE, TWICE, WORKSPACE_SQUARE, arguments, build

NATIVE = Target.parse("native")


def mixed() -> Module:
    return compile_module(parse(MIXED), NATIVE, packings=[TRANSPOSED])


def direct(text: str) -> tuple[Signature, DirectCall]:
    compiled = compile_function(parse(text), NATIVE, packings=[TRANSPOSED])
    kernel = backend_of(NATIVE).load(compiled.code, compiled.signature, NATIVE)
    assert isinstance(kernel, DirectKernel)
    found = kernel.direct(compiled.signature, {}, 1024)
    assert found is not None, "NumPy keeps its arrays in another way than the machine code expects"
    return compiled.signature, found


def refusal(signature: Signature, values: list[object]) -> str:
    """The words of the checks in Python; empty if they have none."""
    try:
        check_arrays(signature, values)
    except CallError as error:
        return str(error)
    except AttributeError:  # a packed weight that was never made
        return "AttributeError"
    return ""


def is_plain(values: list[object], signature: Signature) -> bool:
    """Whether there is nothing that is right, but left to Python: it is rare, or must be packed."""
    known = {id(param.dtype.numpy) for param in signature.params}
    own = {id(param.packing) for param in signature.params if param.packing is not None}
    for one, param in zip(values, signature.params, strict=True):
        if isinstance(one, PackedWeight):
            is_known = id(one.packing) in own
        else:
            is_known = isinstance(one, np.ndarray) and id(cast(Value, one).dtype) in known
            is_known = is_known and not param.is_rewritten
        if not is_known:
            return False
    return True


def expected(values: list[object], signature: Signature) -> list[Value]:
    d, a, s, c, b, w = check_arrays(signature, values)
    assert d.shape == b.shape
    assert c.shape == a.shape
    return [b + b, a * s + w.T]


def check_outputs(signature: Signature, values: list[object], wanted: list[Value]) -> None:
    found = check_arrays(signature, values)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[3], wanted[1])


def compare(signature: Signature, call: DirectCall, values: list[object]) -> bool:
    """Hold machine code against the checks in Python; return whether it ran."""
    words = refusal(signature, values)
    wanted = None if words else expected(values, signature)
    status = call(tuple(values), 1, 0)
    if wanted is None:
        assert status is None, words
    elif is_plain(values, signature):
        assert status == 0
    if status is None or wanted is None:
        return False
    check_outputs(signature, values, wanted)
    return True


def fuzz(signature: Signature, call: DirectCall, calls: int, seed: int) -> int:
    """Compare so many calls; return how many of them ran."""
    draw = Draw(signature, seed)
    own = pack_weight(signature, "W", np.ones((3, 4), np.float32))
    ran = 0
    for number in range(calls):
        values = draw.values()
        if number % 2 and len(values) == 6:
            values[5] = own
        ran += compare(signature, call, values)
    return ran


def test_machine_code_and_python_have_one_verdict() -> None:
    assert fuzz(*direct(MIXED), 2_000, 0) > 400


def test_so_they_have_in_several_threads_at_once() -> None:
    signature, call = direct(MIXED)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(fuzz, signature, call, 300, seed) for seed in range(4)]
        assert min(one.result() for one in running) > 50


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 11))
def test_machine_code_and_python_have_one_verdict_at_length(seed: int) -> None:
    assert fuzz(*direct(MIXED), 10_000, seed) > 2_000


def test_a_call_refuses_in_the_words_of_the_checks() -> None:
    module = mixed()
    draw = Draw(module.signature, 5)
    refused = 0
    for _ in range(1_000):
        values = draw.values()
        if len(values) == 4:
            continue  # the inputs alone
        words = refusal(module.signature, values)
        if words == "AttributeError":
            continue
        if words:
            with pytest.raises(CallError) as caught:
                module(*values, threads=1)
            assert str(caught.value) == words
            refused += 1
        else:
            wanted = expected(values, module.signature)
            assert module(*values, threads=1) is None
            check_outputs(module.signature, values, wanted)
    assert refused > 250


@pytest.mark.parametrize("threads", [2, np.int64(2), np.uint8(0), True])
def test_any_integer_is_a_number_of_threads(threads: int) -> None:
    module = build(PARALLEL_TWICE)
    for _ in range(2):
        a, b = arguments()
        module(a, b, threads=threads)
        np.testing.assert_array_equal(b, 2 * a)


@pytest.mark.parametrize("threads", [-1, 1025, 1 << 70, -(1 << 70), 1.0, None, "2"])
def test_a_wrong_number_of_threads_is_refused_at_every_call(threads: Any) -> None:
    module = build(PARALLEL_TWICE)
    a, b = arguments()
    for _ in range(2):
        with pytest.raises(CallError, match=r"threads is .* must be 0 .all cores. to 1024"):
            module(a, b, threads=threads)
        module(a, b)


def test_calls_leave_no_reference() -> None:
    module = mixed()
    signature = module.signature
    right: list[Any] = [Draw(signature, 0).right(param) for param in signature.params]
    right[5] = module.pack("W", right[5])
    inputs = [one for one, p in zip(right, signature.params, strict=True) if not p.is_output]
    wrong = [*right[:3], right[3][:, ::2], *right[4:]]
    run = module.bind(*right)
    odd: Any = np.int64(1)

    def call(times: int) -> None:
        for _ in range(times):
            module(*right)
            module(*inputs)
            module(*right, threads=2)
            module(*right, threads=odd)  # by Python
            run()
            with pytest.raises(CallError):
                module(*wrong)

    def counts() -> list[int]:
        objects = [*right, right[5].array, right[5].packing, np.dtype(np.float32), module]
        gc.collect()
        return [sys.getrefcount(one) for one in objects]

    call(20)
    before, blocks = counts(), sys.getallocatedblocks()
    call(300)
    assert counts() == before
    assert sys.getallocatedblocks() - blocks < 200  # of more than 300 calls


@pytest.mark.parametrize("text", [WORKSPACE_SQUARE, PARALLEL_TWICE])
def test_many_threads_call_at_once(text: str) -> None:
    """With arrays of their own, right and wrong, given or new, and with a bound call in each."""
    module = build(text)
    wrong: list[str] = []

    def call(seed: int) -> None:
        a = np.random.default_rng(seed).random((24, 40), dtype=np.float32)
        b, wanted = np.empty_like(a), a * a if text is WORKSPACE_SQUARE else a + a
        bound = module.bind(a, b, threads=2)
        for number in range(200):
            b[:] = 0
            if number % 4 == 0:
                bound()
            elif number % 4 == 1:
                with pytest.raises(CallError, match="overlaps"):
                    module(a, a)
                continue
            found = b if number % 2 == 0 else module(a, threads=number % 3)
            if number % 4 == 2:
                module(a, b, threads=number % 3)
            if not np.allclose(found, wanted):
                wrong.append(f"{seed}: call {number}")

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def of_c(tmp_path: Path, body: str) -> Module:
    """A kernel with the arguments of `twice` in C."""
    source, code = tmp_path / "twice.c", tmp_path / "twice.o"
    source.write_text(f"int twice(float *a, float *b, void *w, int t) {{ {body} }}")
    subprocess.run(["cc", "-c", "-O1", "-fPIC", source, "-o", code], check=True)
    return load_code(CompiledProgram(code.read_bytes()), signature_of(parse(TWICE), 0), NATIVE)


def test_a_status_is_told_by_every_kind_of_call(tmp_path: Path) -> None:
    module = of_c(tmp_path, "return (int)a[0];")
    a, b = np.zeros((24, 40), np.float32), np.zeros((24, 40), np.float32)
    run = module.bind(a, b)
    for status, words in ((0, ""), (1, "twice ran out of memory"), (-3, "failed with status -3")):
        a[0] = status
        for call in (lambda: module(a, b), lambda: module(a), run):
            if words:
                with pytest.raises(CallError, match=words):
                    call()
            else:
                call()


@pytest.mark.parametrize("is_bound", [False, True])
def test_other_threads_run_during_a_call(tmp_path: Path, *, is_bound: bool) -> None:
    """The kernel waits for another thread: without releasing the lock it would wait for ever."""
    module = of_c(tmp_path, "b[1] = 1; while (!*(volatile float *)a) { } b[0] = 2; return 0;")
    a, b = np.ones((24, 40), np.float32), np.zeros((24, 40), np.float32)
    module(a, b)  # the next one is in machine code
    bound = module.bind(a, b)
    a[:] = 0
    thread = threading.Thread(target=bound if is_bound else lambda: module(a, b))
    b[0] = 0
    thread.start()
    while not b[0, 1]:  # until it has begun
        time.sleep(0)
    a[:] = 1
    thread.join()
    assert b[0, 0] == 2
