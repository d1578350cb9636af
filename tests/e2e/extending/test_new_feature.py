"""A feature of one's own: a documented field, computed in closed form for a whole population."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ansorc.schedule import replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.features import MACHINE_FEATURES
from ansorc.search.features.columns import FloatArray, columns_of, values_of
from ansorc.search.features.feature_set import FeatureSet
from ansorc.search.features.loop_nest import LoopNest, LoopNests
from ansorc.search.options import SearchOptions
from ansorc.search.space import design_space, extract, steps
from ansorc.target import Target
from tests.search.small_dags import TARGET, matmul


@dataclass(frozen=True, eq=False)
class ShareFeatures:
    """How the iterations of a statement are shared among its loops."""

    reduce_share: FloatArray
    """Iterations of the reduce loops as a share of all, in bits: 1 where all loops reduce."""


def described(nests: LoopNests, nest: LoopNest, target: Target) -> Iterator[FloatArray]:
    """The columns of the machine's set, and those of `ShareFeatures`."""
    yield from MACHINE_FEATURES.describe(nests, nest, target)
    bits = np.log2(nest.extents)
    is_reduce = np.array([loop.is_reduce for loop in nest.loops])
    total = np.maximum(bits.sum(axis=0), 1e-9)
    yield from values_of(ShareFeatures(bits[is_reduce].sum(axis=0) / total))


EXTENDED = FeatureSet(
    "machine and shares",
    1,
    (*MACHINE_FEATURES.columns, *columns_of(ShareFeatures, "share")),
    described,
)
EVEN = SearchOptions(is_simd_aware=False)
"""Draws tile lengths that divide."""
SKETCH = design_space(matmul(16, 16, 16), TARGET, EVEN).sketches[0]
GENES = sample(SKETCH, 20, np.random.default_rng(0), EVEN)


def test_it_stands_behind_the_others() -> None:
    assert EXTENDED.names == (*MACHINE_FEATURES.names, "share.reduce_share")
    found = extract(SKETCH, GENES, TARGET, EXTENDED)
    known = extract(SKETCH, GENES, TARGET, MACHINE_FEATURES)
    np.testing.assert_array_equal(found[..., :-1], known)
    product, relu = found[..., -1].T  # 16 terms of each of 16 x 16 results are 4 of 12 bits
    np.testing.assert_allclose(product, 1 / 3, rtol=1e-6)
    np.testing.assert_array_equal(relu, 0)


def test_a_row_has_what_the_program_has_alone() -> None:
    together = extract(SKETCH, GENES, TARGET, EXTENDED)
    for row, genes in zip(together, GENES, strict=True):
        alone = EXTENDED.extract_state(replay(SKETCH.dag, steps(SKETCH, genes)), TARGET)
        np.testing.assert_allclose(alone[0], row, rtol=1e-6)
