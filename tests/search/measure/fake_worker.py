"""A worker that does what its message says: answers, crashes, hangs, eats memory."""

import os
import signal
import sys
import time

from ansorc.search.measure.messages import Decoder, Message, read_message, write_message
from ansorc.search.measure.zygote import set_alarm


def main(role: str) -> None:
    assert role == "fake"
    write_message(1, Message({"ready": True}))
    decoder = Decoder()
    served = 0
    while (message := read_message(0, decoder)) is not None:
        set_alarm(message.number("alarm_s"))
        act(message.text("do"), served)
        served += 1
        fields = {"echo": message.fields["n"], "pid": os.getpid(), "served": served}
        write_message(1, Message(fields, message.blob))


def act(what: str, served: int) -> None:
    if what == "crash" or (what == "crash if used" and served):
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "hang":
        time.sleep(1000)
    if what == "exit":
        sys.exit(3)
    if what == "fork and hang":
        os.fork()
        time.sleep(1000)
    if what == "eat":
        hoard: list[bytearray] = []
        while True:
            hoard.append(bytearray(64 << 20))
