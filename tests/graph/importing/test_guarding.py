"""A converter that fails says which node it failed at, and whose fault that is."""

from __future__ import annotations

import pytest

from ansorc.errors import AnsorcError, GraphError, InternalError, LanguageError
from ansorc.graph.builder import GraphBuilder
from ansorc.graph.importing.converter_call import ConverterCall
from ansorc.graph.importing.guarding import call_converter

CALL = ConverterCall("Relu 'y' (model.py:7)", GraphBuilder())


def explain(words: str) -> AnsorcError:
    return InternalError(f"not foreseen: {words}", "")


def raising(error: Exception) -> AnsorcError:
    def convert() -> str:
        raise error

    with pytest.raises(AnsorcError) as caught:
        call_converter(CALL, convert, explain)
    return caught.value


@pytest.mark.parametrize("error", [GraphError("as it is"), InternalError("as it is", "")])
def test_what_names_the_node_already_stays(error: AnsorcError) -> None:
    assert raising(error) is error


def test_other_refusals_name_the_node() -> None:
    error = raising(LanguageError("shapes differ"))
    assert isinstance(error, GraphError)
    assert str(error) == "Relu 'y' (model.py:7): shapes differ"


def test_an_expression_that_is_too_deep_is_refused() -> None:
    error = raising(RecursionError())
    assert isinstance(error, GraphError)
    assert "Relu 'y' (model.py:7): an expression is nested deeper" in str(error)


def test_what_was_not_foreseen_is_explained() -> None:
    error = raising(IndexError("tuple index"))
    assert isinstance(error, InternalError)
    assert "not foreseen: IndexError: tuple index" in str(error)
