"""The machines that the suite is run under, each as if it were this one."""

from __future__ import annotations

import os

from ansorc.errors import TargetError
from ansorc.search.programs import require_this_machine
from ansorc.target import Target, detect

MACHINES = {
    "znver3-2": "x86_64-linux-gnu -mcpu=znver3 -cores=2",
    "icelake-server-8": "x86_64-linux-gnu -mcpu=icelake-server -cores=8",
    "znver5-4": "x86_64-linux-gnu -mcpu=znver5 -cores=4",
    "cortex-a76-4": "aarch64-linux-gnu -mcpu=cortex-a76 -cores=4",
    "haswell-1": "x86_64-linux-gnu -mcpu=haswell -cores=1",
    "sapphirerapids-16": "x86_64-linux-gnu -mcpu=sapphirerapids -cores=16",
    "znver5-96": "x86_64-linux-gnu -mcpu=znver5 -cores=96",
}
"""Names for `ANSORC_TEST_AS`, and the machines they mean."""

VARIABLE = "ANSORC_TEST_AS"


def machine(text: str) -> Target:
    """Return the target that structural tests decide for: the one of `text`, unless one is set."""
    return Target.parse(MACHINES.get(os.environ.get(VARIABLE, ""), text))


def executable(text: str) -> Target:
    """Return the target; where this processor lacks what it has, it is assumed."""
    target = Target.parse(text)
    try:
        require_this_machine(target)
    except TargetError:
        return detect().assuming(target)
    return target
