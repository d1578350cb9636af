"""The pipe: frames in pieces, garbage, damaged and cut-off frames, and what the runner says."""

from __future__ import annotations

import struct
import subprocess
import zlib
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorc.fleet.frames import (
    ANSWER,
    ERROR,
    HEADER_BYTES,
    MOST_PAYLOAD,
    Frame,
    FrameDecoder,
    FrameError,
)
from ansorc.fleet.runner_link import LinkError, Refusal, RunnerLink, RunnerRequest
from tests.runtime.runner.runners import MACHINES, runner_of

HELLO = Frame(RunnerRequest.HELLO, 7).encode()
FRAMES = st.lists(
    st.builds(Frame, st.integers(0, 65535), st.integers(0, 2**32 - 1), st.binary(max_size=99)),
    max_size=5,
)


@given(
    frames=FRAMES, cuts=st.lists(st.integers(0, 200)), banner=st.sampled_from([b"", b"Welcome!"])
)
def test_frames_arrive_in_pieces_of_any_size(
    frames: list[Frame], cuts: list[int], banner: bytes
) -> None:
    data = banner + b"".join(frame.encode() for frame in frames)
    decoder, found = FrameDecoder(), list[Frame]()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for begin, end in pairwise(edges):
        decoder.feed(data[begin:end])
        while (frame := decoder.next()) is not None:
            found.append(frame)
    assert found == frames
    assert not frames or decoder.skipped == banner


@given(data=st.binary(max_size=100), place=st.integers(0, 99), bit=st.integers(0, 7))
def test_a_changed_bit_is_noticed(data: bytes, place: int, bit: int) -> None:
    frame = bytearray(Frame(3, 4, data).encode())
    frame[place % len(frame)] ^= 1 << bit
    decoder = FrameDecoder()
    decoder.feed(HELLO)
    assert decoder.next() == Frame(RunnerRequest.HELLO, 7)
    decoder.feed(bytes(frame))
    with pytest.raises(FrameError):
        decoder.next()


def header(version: int, kind: int, length: int) -> bytes:
    head = struct.pack("<4sHHIII", b"ANSR", version, kind, 5, length, zlib.crc32(b""))
    return head + struct.pack("<I", zlib.crc32(head))


def answers(made: Path, sent: bytes) -> tuple[list[Frame], int, str]:
    """What the runner answers to these bytes, how it ends, and what it says then."""
    command = runner_of(MACHINES["native"], made)
    done = subprocess.run([command], input=sent, capture_output=True, timeout=20, check=False)
    decoder, found = FrameDecoder(), list[Frame]()
    decoder.feed(done.stdout)
    while (frame := decoder.next()) is not None:
        found.append(frame)
    return found, done.returncode, done.stderr.decode()


@pytest.mark.parametrize(
    ("damage", "why", "words"),
    [
        (b"garbage" * 20, Refusal.NO_FRAME, "140 bytes that are no frame"),
        (Frame(2, 5, b"x" * 99).encode()[:-40], Refusal.NO_FRAME, "damaged, or was cut off"),
        (Frame(2, 5, b"x" * 99).encode()[:-9], Refusal.NO_FRAME, "damaged, or was cut off"),
        (Frame(2, 5, b"abc").encode()[:-1] + b"X", Refusal.NO_FRAME, "damaged, or was cut off"),
        (header(1, 2, MOST_PAYLOAD + 1), Refusal.NO_FRAME, "longer than"),
        (header(9, 1, 0), Refusal.VERSION, "speaks version 1 of the protocol, not 9"),
        (header(1, 99, 0), Refusal.NO_REQUEST, "there is no request 99"),
        (Frame(2, 5, b"abc").encode(), Refusal.BAD_FIELD, "there are arrays 0 to 1023"),
        (Frame(8, 5, bytes(200)).encode(), Refusal.BAD_FIELD, "not described right"),
    ],
    ids=[
        "garbage",
        "cut off",
        "cut a little",
        "damaged",
        "long",
        "version",
        "kind",
        "field",
        "run",
    ],
)
def test_the_runner_says_what_is_wrong_and_goes_on(
    made: Path, damage: bytes, why: Refusal, words: str
) -> None:
    found, status, _ = answers(made, damage + HELLO)
    error, hello = found[0], found[-1]
    assert error.kind == ERROR
    assert struct.unpack_from("<I", error.payload) == (why,)
    assert words in error.payload[4:].decode()
    assert (hello.kind, hello.number) == (RunnerRequest.HELLO | ANSWER, 7)
    assert b"protocol: 1\n" in hello.payload
    assert status == 0


def test_a_pipe_that_ends_inside_of_a_frame_ends_the_runner(made: Path) -> None:
    found, status, words = answers(made, HELLO + HELLO[: HEADER_BYTES - 5])
    assert len(found) == 1
    assert status == 3
    assert "the pipe ended inside of a frame" in words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program-here", "cannot be started"),
        ("sh -c 'echo no route to host >&2; exit 5'", "ended with status 5: no route to host"),
        ("sh -c 'echo Welcome; cat >/dev/null'", "no answer for 1 s: Welcome"),
        ("cat", "answer 0x1 to request 1"),
    ],
)
def test_a_command_that_is_no_runner_is_told(command: str, words: str) -> None:
    def hello() -> bytes:
        with closing(RunnerLink(command)) as link:
            return link.request(RunnerRequest.HELLO, timeout_s=1.0)

    with pytest.raises(LinkError, match=words):
        hello()
