"""Keys and features say of a program what its loops say: nothing else, and nothing less.

Every operator on machines of all widths of vectors. The default suite draws a few programs of each,
of every third operator on one machine; `make nightly` draws 300 of all on every one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np
import pytest

from ansorc.codegen.build import prepare
from ansorc.ir.arith.affine import affine
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import Select
from ansorc.ir.node import children, walk
from ansorc.ir.stmt import Allocate, For, Function, If, LoopKind, Stmt, Store
from ansorc.lang import operators
from ansorc.schedule import lower, replay
from ansorc.schedule.stage import Stage
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import COLUMNS, FEATURE_NAMES
from ansorc.search.features.feature_set import Features
from ansorc.search.sketch import Sketch
from ansorc.search.space import Genes, design_space, extract, phenotype_keys, steps
from ansorc.target import Target
from tests.search.every_operator import NAMES, computation
from tests.search.space.canonical import canonical_text

MACHINES = (
    "x86_64-linux-gnu -mcpu=znver3 -cores=2",
    "x86_64-linux-gnu -mcpu=icelake-server -cores=4",
    "aarch64-linux-gnu -mcpu=cortex-a76 -cores=4",
    "x86_64-linux-gnu -mcpu=sapphirerapids -cores=96",
    "x86_64-linux-gnu -mcpu=x86-64-v2 -cores=1",
    "x86_64-linux-gnu -mcpu=znver5 -cores=16",
)
EVERY = [(name, machine) for machine in MACHINES for name in NAMES]
SOME = [(name, MACHINES[place % len(MACHINES)]) for place, name in enumerate(NAMES)][::3]
KEYS, KEYS_AT_NIGHT, COUNTED, COUNTED_AT_NIGHT = 6, 300, 2, 300
"""Programs of each operator on each machine."""
SUFFIXES = ("reg", "lanes")
"""Of the registers for sums; a tensor that is in registers as a whole keeps its
name, and holds what may be several tiles."""


def programs(name: str, machine: str, count: int) -> Iterator[tuple[Sketch, Genes]]:
    """`count` random programs or more, in about equal shares of sketches that it takes in turn."""
    rng = np.random.default_rng(len(name))
    sketches = design_space(computation(name), Target.parse(machine)).sketches
    taken: list[int] = rng.permutation(len(sketches))[:count].tolist()
    for place in taken:
        genes = sample(sketches[place], max(2, -(-count // len(taken))), rng)
        yield sketches[place], np.unique(genes, axis=0)


def test_every_operator_is_here() -> None:
    assert {name.partition(" ")[0] for name in NAMES} == set(operators.__all__)


def check_keys(name: str, machine: str, count: int) -> None:
    texts: dict[int, set[str]] = defaultdict(set)
    for sketch, genes in programs(name, machine, count):
        for key, row in zip(phenotype_keys(sketch, genes).tolist(), genes, strict=True):
            texts[key].add(canonical_text(sketch, row))
    assert all(len(same) == 1 for same in texts.values()), "one key, but several programs"
    every = [text for same in texts.values() for text in same]
    assert len(set(every)) == len(every), "one program, but several keys"


@pytest.mark.parametrize(("name", "machine"), SOME)
def test_keys_are_equal_exactly_where_programs_are(name: str, machine: str) -> None:
    check_keys(name, machine, KEYS)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "machine"), EVERY)
def test_keys_of_hundreds_of_programs(name: str, machine: str) -> None:
    check_keys(name, machine, KEYS_AT_NIGHT)


class Statement(NamedTuple):
    """What computes a tensor."""

    loops: tuple[For, ...]
    store: Store
    is_tested: bool
    """Whether it, or a part of its value, is subject to a test."""


def statements_of(function: Function) -> dict[str, Statement]:
    """For each tensor its last store, which is that of the sum after that of its identity."""
    found: dict[str, Statement] = {}

    def visit(stmt: Stmt, around: tuple[For, ...], *, is_tested: bool) -> None:
        if isinstance(stmt, Store):
            chooses = any(isinstance(part, Select) for part in walk(stmt.value))
            found[stmt.buffer.name] = Statement(around, stmt, is_tested or chooses)
        inside = (*around, stmt) if isinstance(stmt, For) else around
        for child in children(stmt):
            if isinstance(child, Stmt):
                visit(child, inside, is_tested=is_tested or isinstance(stmt, If))

    visit(function.body, (), is_tested=False)
    return found


def registers_of(prepared: Function) -> dict[str, list[Buffer]]:
    """For each tensor the registers that its sums are made in."""
    found: dict[str, list[Buffer]] = defaultdict(list)
    for scope in walk(prepared):
        if isinstance(scope, Allocate) and scope.buffer.scope is Scope.REGISTER:
            tensor, _, suffix = scope.buffer.name.rpartition(".")
            is_made = suffix.rstrip("0123456789") in SUFFIXES
            found[tensor if is_made else scope.buffer.name].append(scope.buffer)
    return found


def vectors_in(registers: Buffer, lanes: int) -> int:
    """How many vectors make up `registers`, of whose last dimension each has up to `lanes`."""
    *rows, last = registers.shape or (1,)
    return prod(rows) * (last // lanes + (last % lanes).bit_count())


def number(features: Features, row: int, statement: int, name: str) -> float:
    column = FEATURE_NAMES.index(name)
    value = float(features[row, statement, column])
    return 2**value - 1 if COLUMNS[column].is_log else value


def is_one_tile(stage: Stage, statement: Statement) -> bool:
    """Whether `stage` is a sum whose tile features know exactly.

    Loops are divided at tests, and each part has a tile of its own. Indices that are no sums, such
    as quotients, are known about (`index_form`).
    """
    indices = (index for load in stage.op.loads for index in load.indices)
    is_sum = stage.op.combiner is not None and not statement.is_tested
    return is_sum and all(affine(index) is not None for index in indices)


def lanes_of(stage: Stage, statement: Statement, target: Target) -> int:
    """The elements of a whole vector of the widest tensor; 1 where no loop is vectorised."""
    if all(loop.kind is not LoopKind.VECTORIZED for loop in statement.loops):
        return 1
    buffers = (*stage.op.buffers, *stage.op.reads)
    return target.vector_bytes // max(buffer.dtype.bytes for buffer in buffers)


KINDS = {
    LoopKind.UNROLLED: "loops.unrolled",
    LoopKind.VECTORIZED: "registers.vector_extent",
    LoopKind.PARALLEL: "loops.parallel_extent",
}


def check_counts(name: str, machine: str, count: int) -> None:
    target = Target.parse(machine)
    for sketch, genes in programs(name, machine, count):
        features = extract(sketch, genes, target)
        stages = [stage for stage in sketch.state.stages if not stage.is_inlined]
        for row, gene in enumerate(genes):
            lowered = lower(replay(sketch.dag, steps(sketch, gene)))
            statements = statements_of(lowered)
            tiles = registers_of(prepare(lowered, target))
            for place, stage in enumerate(stages):
                statement = statements[stage.name]
                for kind, feature in KINDS.items():
                    wanted = prod(loop.extent for loop in statement.loops if loop.kind is kind)
                    said = number(features, row, place, feature)
                    assert said == pytest.approx(wanted, rel=1e-4), feature
                if is_one_tile(stage, statement):
                    kept = number(features, row, place, "registers.is_promoted")
                    kept *= number(features, row, place, "registers.sums")
                    lanes = lanes_of(stage, statement, target)
                    tensor = stage.op.buffers[0].name
                    own = tiles[tensor]
                    made = max((vectors_in(each, lanes) for each in own), default=0)
                    holds_more = any(each.name == tensor for each in own) and 0 < kept < made
                    assert holds_more or kept == pytest.approx(made, rel=1e-4)


@pytest.mark.parametrize(("name", "machine"), SOME)
def test_features_count_what_is_in_the_loops(name: str, machine: str) -> None:
    check_counts(name, machine, COUNTED)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "machine"), EVERY)
def test_features_of_hundreds_of_programs(name: str, machine: str) -> None:
    check_counts(name, machine, COUNTED_AT_NIGHT)
