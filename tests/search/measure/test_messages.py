"""The message format between the tuner and its workers."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.errors import MeasureError
from ansorc.search.measure.messages import Decoder, Message, read_message, write_message

FIELDS = st.dictionaries(
    st.text(max_size=5),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
    max_size=4,
)


@given(st.lists(st.tuples(FIELDS, st.binary(max_size=50)), max_size=5), st.integers(1, 40))
def test_messages_survive_being_cut_into_pieces(
    items: list[tuple[dict[str, object], bytes]], size: int
) -> None:
    messages = [Message(fields, blob) for fields, blob in items]
    stream = b"".join(message.encode() for message in messages)
    decoder = Decoder()
    found: list[Message] = []
    for begin in range(0, len(stream), size):
        decoder.feed(stream[begin : begin + size])
        while (message := decoder.next()) is not None:
            found.append(message)
    assert found == messages


def test_the_end_of_a_pipe_is_none() -> None:
    reader, writer = os.pipe()
    write_message(writer, Message({"a": 1}, b"xyz"))
    os.close(writer)
    decoder = Decoder()
    assert read_message(reader, decoder) == Message({"a": 1}, b"xyz")
    assert read_message(reader, decoder) is None
    os.close(reader)


def test_a_field_of_the_wrong_type_is_named() -> None:
    message = Message({"n": "x", "t": 1})
    with pytest.raises(MeasureError, match="'n' is 'x', not a number"):
        message.number("n")
    with pytest.raises(MeasureError, match="'t' is 1, not text"):
        message.text("t")
