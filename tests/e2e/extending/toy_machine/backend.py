"""The back end of a machine with a search space of its own: C text, as of the toy back end."""

from __future__ import annotations

from ansorc.codegen.base import Backend
from tests.e2e.toy_backend import Toy


class ToyMachine(Toy):
    """Names the module of its space; nothing else is needed."""

    space = "tests.e2e.extending.toy_machine.space"


BACKEND: Backend = ToyMachine()
