"""Here the workers are under test, the zygote that they are forked from included."""

from __future__ import annotations

import pytest

from ansorc.search.measure import workers
from ansorc.search.measure.pool import ZygoteProcess


@pytest.fixture(autouse=True)
def zygote_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start zygotes as a user's process does."""
    monkeypatch.setattr(workers, "ZygoteProcess", ZygoteProcess)
