"""Which search space a target has: that of its platform, unless its back end names one."""

from __future__ import annotations

import pytest

from ansorc.errors import OptionError, TargetError
from ansorc.search.features import ESTIMATE_COLUMN
from ansorc.search.options import PAPER
from ansorc.search.space.registry import platform_spaces, search_space
from ansorc.target import Target
from ansorc.target.platforms import PLATFORMS

CPU, GPU = platform_spaces()


@pytest.mark.parametrize(
    "text",
    [
        "native",
        "aarch64-linux-gnu -mcpu=cortex-a76",
        "native as x86_64-linux-gnu -mcpu=znver5",
        "native -backend=tests.e2e.toy_backend",
    ],
)
def test_cpus_share_one_space(text: str) -> None:
    assert search_space(Target.parse(text)) is CPU


@pytest.mark.parametrize("text", ["cuda -arch=sm_80", "cuda -gpu=h200", "cuda-emulated"])
def test_gpus_share_another(text: str) -> None:
    assert search_space(Target.parse(text)) is GPU
    with pytest.raises(OptionError, match="the search for a GPU has no"):
        GPU.require_options(PAPER)


def test_every_platform_has_a_space_whose_estimate_stands_in_one_column() -> None:
    assert len(PLATFORMS) == 2
    for space in (CPU, GPU):
        assert space.features.names[ESTIMATE_COLUMN].startswith("estimate.")


def test_a_back_end_that_there_is_not() -> None:
    with pytest.raises(TargetError, match="there is no module 'nowhere'"):
        search_space(Target.parse("native -backend=nowhere"))
