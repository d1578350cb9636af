"""Passes with a fault, planted among those of the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

import ansorc as ac
from ansorc.codegen.base import backend_of
from ansorc.ir.expr import Const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.passes.pipeline import Pass
from ansorc.ir.stmt import Function, Store
from ansorc.target import Target


def plant(monkeypatch: pytest.MonkeyPatch, faulty: Pass, behind: str = "skip_padding") -> None:
    """Let `faulty` be the pass "faulty", the next one behind the first pass of that name."""
    backend = backend_of(Target.parse("native"))
    passes = list(backend.passes)
    at = [name for name, _ in passes].index(behind) + 1
    passes.insert(at, ("faulty", faulty))
    monkeypatch.setattr(backend, "passes", tuple(passes), raising=False)


def stumbles(function: Function, target: Target) -> Function:
    """Raise a bare error of Python."""
    raise KeyError(function.name)


def makes_illegal(function: Function, target: Target) -> Function:
    """Give the kernel a name that C does not have."""
    return replace(function, name="not a name")


def changes_constants(function: Function, target: Target) -> Function:
    """Double the numbers of floats: a legal program that computes something else."""

    def rule(old: Node) -> Node | None:
        if isinstance(old, Const) and old.dtype.is_float:
            return replace(old, value=old.value * 2)
        return None

    return rewrite(function, rule)


def doubles_stores(function: Function, target: Target) -> Function:
    """Store twice what should be stored."""

    def rule(old: Node) -> Node | None:
        return replace(old, value=old.value + old.value) if isinstance(old, Store) else None

    return rewrite(function, rule)


def doubled(extent: int = 6) -> ac.ComputeDAG:
    """Return a definition with numbers in it: B = A * 3 + 1.5."""
    a = ac.placeholder((extent,), name="A")
    b = ac.compute((extent,), lambda i: a[i] * 3.0 + 1.5, name="B")
    return ac.ComputeDAG([a, b])
