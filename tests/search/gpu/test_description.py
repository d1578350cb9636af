"""Copies that the threads of a block make together: how often a warp stores, by the model."""

from __future__ import annotations

import numpy as np
import pytest

from ansorc.schedule import replay
from ansorc.search.evolution.sampling import sample
from ansorc.search.features.loop_nest import LoopNests
from ansorc.search.gpu.description import analyse_kernels
from ansorc.search.space import design_space, steps
from tests.search.gpu.counted_requests import executed, stores_of
from tests.search.gpu.gpu_programs import H100, ready
from tests.search.small_dags import DAGS


@pytest.mark.parametrize("name", ["conv_layer_nchw", "matmul_odd"])
def test_threads_that_no_sides_are_multiples_of(name: str) -> None:
    dag, uneven = DAGS[name], 0
    sketch = design_space(dag, H100).sketches[0]
    for row in sample(sketch, 4, np.random.default_rng(3)):
        program = steps(sketch, row)
        stores = list(stores_of(ready(dag, program, H100).body))
        for kernel in analyse_kernels(LoopNests(replay(dag, program), 1, {})):
            for statement in kernel.statements:
                if statement.stage.scope == "shared":
                    (stored,) = (x for x in statement.accesses if x.is_store)
                    name = statement.stage.name
                    counted = sum(executed(x, y) for s, x, y in stores if s.buffer.name == name)
                    assert np.isclose(stored.requests.item(), counted)
                    uneven += statement.more_rounds.item() != 1
    assert uneven
