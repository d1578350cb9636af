"""Regions of autocast: the same types and roundings as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from tests.graph.torch.torch_oracle import module_of, torch

pytestmark = pytest.mark.filterwarnings("ignore")
F = torch.nn.functional
X, Y, W = (torch.arange(n, n + 96).reshape(2, 3, 16).sin() for n in range(3))
PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "einsum": lambda x, y: torch.einsum("bij,bkj->bik", x, y) * 2,
    "tensordot": lambda x, y: torch.tensordot(x, y, dims=([2], [2])),
    "inner": torch.inner,
    "multi_dot": lambda x, y: torch.linalg.multi_dot([x[0], y[0].T, x[1]]),
    "rounded": lambda x, y: torch.einsum("ij,kj->ik", x[0].bfloat16(), y[0]),
    "cell": lambda x, y: torch.rnn_tanh_cell(x[0], y[0], torch.eye(16), torch.eye(16)),
    "linear": lambda x, y: F.linear(x, y[0]),
    "outer": lambda x, y: torch.einsum("i,j->ij", x[0, 0], y[0, 0]),
    "kept": lambda x, y: torch.softmax(torch.einsum("bij,bkj->bik", x, y), -1),
}


def region(compute: Callable[[Any, Any], Any], kind: str) -> Callable[[Any, Any], Any]:
    def computed(x: Any, y: Any) -> Any:
        with torch.autocast("cpu", dtype=getattr(torch, kind)):
            return compute(x, y)

    return computed


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "bfloat16") for name in PRODUCTS), ("einsum", "float16")]
)
def test_products_round_their_factors(name: str, kind: str) -> None:
    compute = region(PRODUCTS[name], kind)
    compiled = torch.compile(compute, backend="ansorc")
    graph = ac.from_torch(module_of(compute), (X, Y))
    built = ac.build(graph)(X.numpy(), Y.numpy())
    with torch.inference_mode():
        wanted, found = compute(X, Y), compiled(X, Y)
    assert found.dtype == wanted.dtype
    assert f"torch.{built.dtype}" == str(wanted.dtype)
    size = float(wanted.abs().max())
    one = {"bfloat16": 2.0**-7, "float16": 2.0**-10}[kind] * size  # between neighbours
    assert (found.float() - wanted.float()).abs().max() <= one
    np.testing.assert_allclose(built.astype("f"), wanted.float().numpy(), rtol=0, atol=one)


def test_factors_are_rounded_not_only_results() -> None:
    def product(x: Any, y: Any) -> Any:
        return torch.einsum("ij,kj->ik", x, y)

    x = torch.tensor([[1.0038, 0.0]])  # rounds to 1
    y = torch.tensor([[256.9, 0.0]])  # rounds to 256; the product of both would round to 258
    found = ac.build(ac.from_torch(module_of(region(product, "bfloat16")), (x, y)))
    assert found(x.numpy(), y.numpy()).astype("f") == 256.0
    assert region(product, "bfloat16")(x, y).float() == 256.0


def test_a_program_that_is_imported_stays_as_it_is() -> None:
    module = module_of(region(PRODUCTS["einsum"], "bfloat16"))
    program = torch.export.export(module, (X, Y))
    before = [str(part.graph) for part in program.graph_module.modules() if hasattr(part, "graph")]
    for _ in range(2):
        graph = ac.from_torch(program)
        assert [node.builtin for node in graph.nodes].count("cast") >= 2
    after = [str(part.graph) for part in program.graph_module.modules() if hasattr(part, "graph")]
    assert before == after
