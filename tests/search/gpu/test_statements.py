"""What a statement does for each program, whichever programs are analysed with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ansorc as ac
from ansorc.lang.dag import ComputeDAG
from ansorc.search.options import DEFAULTS
from ansorc.search.sketch.generate import generate
from ansorc.search.space import search_space
from ansorc.target import Target

TARGET = Target.parse("cuda -arch=sm_90")


def product() -> ComputeDAG:
    a, b = ac.placeholder((256, 128), name="A"), ac.placeholder((128, 256), name="B")
    return ComputeDAG([a, b, ac.ops.matmul(a, b, name="C")])


def transposed() -> ComputeDAG:
    a = ac.placeholder((512, 384), name="A")
    return ComputeDAG([a, ac.compute((384, 512), lambda i, j: a[j, i] * 2.0, name="T")])


@pytest.mark.parametrize("define", [product, transposed])
def test_the_estimate_of_a_program_does_not_depend_on_the_others(
    define: Callable[[], ComputeDAG],
) -> None:
    """Rows are analysed once for each kind of warp: kinds that differ must not be taken for one."""
    dag, space = define().plain, search_space(TARGET)
    for _, whole in space.complete(generate(dag, TARGET, space.rules(DEFAULTS)), DEFAULTS):
        for sketch in whole:
            genes = space.sample(sketch, 512, np.random.default_rng(0), DEFAULTS)
            together = space.estimate(sketch, genes)
            picked = np.random.default_rng(1).integers(0, len(genes), 24)
            alone = [float(space.estimate(sketch, genes[row : row + 1])[0]) for row in picked]
            np.testing.assert_allclose(alone, together[picked], rtol=1e-12)
            break
