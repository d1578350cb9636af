"""A pass of one's own: a function from program to program, tested by text and by meaning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ansorc.ir.arith.simplify import simplify
from ansorc.ir.expr import Var, const
from ansorc.ir.interpret import interpret
from ansorc.ir.node import Node, rewrite
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import For, Function, LoopKind, Seq
from ansorc.ir.substitute import substitute
from ansorc.ir.verify import verify
from tests.ir.passes.nests import Matmul

BEFORE = """\
kernel scale(A: float32[8], B: float32[8]):
    for i in 0..8:
        B[i] = A[i] * 2.0
"""
AFTER = """\
kernel scale(A: float32[8], B: float32[8]):
    for i in 0..4:
        B[i * 2] = A[i * 2] * 2.0
        B[i * 2 + 1] = A[i * 2 + 1] * 2.0
"""


def unroll_by_two(function: Function) -> Function:
    """Return `function` with two iterations of its serial loops in one, where extents are even."""
    return replace(function, body=rewrite(function.body, _halved))


def _halved(node: Node) -> Node | None:
    if not isinstance(node, For) or node.kind is not LoopKind.SERIAL or node.extent % 2:
        return None
    name = node.var.name
    copies = [
        substitute(node.body, {name: simplify(Var(name) * const(2) + const(first))})
        for first in (0, 1)
    ]
    return replace(node, extent=node.extent // 2, body=Seq(tuple(copies)))


def test_it_gives_the_golden_text() -> None:
    assert to_text(unroll_by_two(parse(BEFORE))) == AFTER


@pytest.mark.parametrize("guard", ["", "k.1"])
def test_it_keeps_what_is_computed(guard: str) -> None:
    before = Matmul(guard=guard).function()
    after = unroll_by_two(before)
    verify(after)
    assert to_text(after) != to_text(before)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(p.shape).astype(p.dtype.numpy) for p in before.params]
    found = [array.copy() for array in given]
    interpret(before, given)
    interpret(after, found)
    for one, other in zip(found, given, strict=True):
        assert one.tobytes() == other.tobytes()
