"""Kernels called with tensors of PyTorch: by its functions for C, with the checks of Python."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.codegen.base import DirectCall, DirectKernel, backend_of
from ansorc.codegen.build import compile_function
from ansorc.codegen.call.module import load_code
from ansorc.errors import CallError
from ansorc.target import Target
from tests.graph.torch.torch_oracle import torch

pytestmark = pytest.mark.nightly


def added() -> tuple[ac.Module, DirectCall]:
    a, b = ac.placeholder((4, 6), "A"), ac.placeholder((4, 6), "B")
    c = ac.compute((4, 6), lambda i, j: a[i, j] + b[i, j], "C")
    native = Target.parse("native")
    compiled = compile_function(ac.lower(ac.schedule(ac.ComputeDAG([a, b, c]))), native)
    kernel = backend_of(native).load(compiled.code, compiled.signature, native)
    assert isinstance(kernel, DirectKernel)
    call = kernel.direct(compiled.signature, {}, 1024)
    assert call is not None
    return load_code(compiled.code, compiled.signature, native), call


def test_tensors_are_read_in_machine_code_and_refused_in_words() -> None:
    module, call = added()
    a, b, c = torch.rand(4, 6), torch.rand(4, 6), torch.zeros(4, 6)
    has_functions = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    wide, flat = torch.rand(4, 12), torch.rand(25)
    right: list[Any] = [
        a, torch.nn.Parameter(a.clone(), requires_grad=False), wide.view(8, 6)[2:6],
        flat[1:].view(4, 6), flat[None, :24].view(4, 6), a.numpy(),
    ]  # fmt: skip
    for one in right:
        c.zero_()
        status = call((one, b, c), 0, 0)
        assert status == (0 if has_functions else None)
        module(one, b, c)
        torch.testing.assert_close(c, torch.as_tensor(one).detach() + b)
        np.testing.assert_array_equal(module(one, b), c.numpy())
    wrong: list[tuple[Any, str]] = [
        (a.double(), "has dtype float64"), (a[:3], "has shape"), (wide[:, ::2], "not contiguous"),
        (a.T.contiguous().T, "not contiguous"), (a.clone().requires_grad_(), "require gradient"),
        (torch.nn.Parameter(a.clone()), "require gradient"), (a.to_sparse(), "NumPy cannot view"),
        (a.to("meta"), "NumPy cannot view"), (a.bfloat16(), "has dtype bfloat16"),
        (torch.zeros(1, 1).expand(4, 6), "not contiguous"),
    ]  # fmt: skip
    for one, words in wrong:
        assert call((one, b, c), 0, 0) is None
        for _ in range(2):
            with pytest.raises(CallError, match=words):
                module(one, b, c)
    assert call((a, b, a), 0, 0) is None
    with pytest.raises(CallError, match="the output 'C' overlaps 'A'"):
        module(a, b, a)


def test_calls_leave_no_reference_to_a_tensor() -> None:
    module, call = added()
    tensors = [torch.rand(4, 6) for _ in range(3)]
    module(*tensors)
    before = [sys.getrefcount(one) for one in tensors], sys.getallocatedblocks()
    for _ in range(500):
        call(tuple(tensors), 0, 0)
        call((*tensors[:2], tensors[0]), 0, 0)
    gc.collect()
    assert [sys.getrefcount(one) for one in tensors] == before[0]
    assert sys.getallocatedblocks() - before[1] < 200
