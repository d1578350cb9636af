"""What the process of a side answers."""

from __future__ import annotations

import pytest

from ansorc.compare.program import Unsupported
from ansorc.compare.serving import Handlers, JsonFields, answer


def prepare(message: JsonFields) -> JsonFields:
    return {"program": message["name"]}


def refuse(_: JsonFields) -> JsonFields:
    raise Unsupported("it has no such operator")


def miss(_: JsonFields) -> JsonFields:
    raise ImportError("no package")


HANDLERS: Handlers = {"prepare": prepare, "refuse": refuse, "miss": miss}


def test_a_message_goes_to_its_handler() -> None:
    assert answer({"do": "prepare", "name": "mm"}, HANDLERS) == {"program": "mm"}


@pytest.mark.parametrize(
    ("request_", "kind", "words"),
    [
        ("refuse", "cannot", "it has no such operator"),
        ("miss", "missing", "no package"),
        ("prepare", "failed", "KeyError: 'name'"),
        ("dance", "failed", "there is no request 'dance'"),
    ],
)
def test_faults_are_gaps(request_: str, kind: str, words: str) -> None:
    assert answer({"do": request_}, HANDLERS) == {"kind": kind, "gap": words}
