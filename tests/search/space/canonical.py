"""The text of a lowered program that is the same for all ways to write one program."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.node import Node, rewrite
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Allocate, Function, Seq, Stmt
from ansorc.schedule import lower, replay
from ansorc.search.sketch import Sketch
from ansorc.search.space import steps


def canonical_text(sketch: Sketch, row: np.ndarray) -> str:
    """The lowered program, its loops and tensors numbered in order of appearance.

    Loops of one iteration are not in it. They may still decide between which loops a tensor is
    allocated, and in which memory; that is left out, only the shapes are listed.
    """
    function = simplify_stmt(lower(replay(sketch.dag, steps(sketch, row))))
    shapes: dict[str, str] = {}

    def rule(old: Node) -> Node | None:
        if isinstance(old, Allocate):
            shapes[old.buffer.name] = f"{old.buffer.dtype}{list(old.buffer.shape)}"
            return old.body
        return Seq(tuple(_flat(old))) if isinstance(old, Seq) else None

    bare = rewrite(function, rule)
    assert isinstance(bare, Function)
    text = to_text(bare)
    names: dict[str, str] = {}
    for word in re.findall(r"[\w.@]+(?= in 0\.\.)|[\w.@]+(?=\[)", text):
        if word in shapes or f"{word} in 0.." in text:
            names.setdefault(word, f"v{len(names)}")
    held = [f"{names[name]}: {shape}" for name, shape in shapes.items() if name in names]
    renamed = re.sub(r"[\w.@]+", lambda word: names.get(word[0], word[0]), text)
    return "\n".join([renamed, *sorted(held)])


def _flat(sequence: Seq) -> Iterator[Stmt]:
    for stmt in sequence.stmts:
        if isinstance(stmt, Seq):
            yield from _flat(stmt)
        else:
            yield stmt
