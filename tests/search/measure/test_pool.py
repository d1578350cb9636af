"""Worker processes: one job fails, the others do not notice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ansorc.errors import MeasureError
from ansorc.search.measure.messages import Message, Request
from ansorc.search.measure.pool import WorkerPool, WorkerPoolOptions, ZygoteProcess
from ansorc.search.measure.result import Failure, FailureKind
from tests.search.measure.processes import is_alive, processes_of, wait_until_dead

ROOT = str(Path(__file__).parents[3])


class FakePool(WorkerPool):
    """A pool with a zygote of its own."""

    def close(self) -> None:
        super().close()
        self._options.zygote.close()


def pool_of(size: int, memory_bytes: int = 0, recycle_after: int = 500) -> WorkerPool:
    kind = FailureKind.BUILD_TIMEOUT
    zygote = ZygoteProcess("tests.search.measure.fake_worker", ROOT)
    return FakePool(
        WorkerPoolOptions(zygote, "fake", size, kind, memory_bytes, recycle_after=recycle_after)
    )


def request(n: int, do: str = "echo", limit_s: float = 20.0, blob: bytes = b"") -> Request:
    return Request(Message({"n": n, "do": do}, blob), limit_s)


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = pool_of(2)
    yield made
    made.close()


def test_every_job_is_answered_by_its_own_reply(pool: WorkerPool) -> None:
    blob = os.urandom(300_000)
    replies = dict(pool.run([request(n, blob=blob) for n in range(20)]))
    assert sorted(replies) == list(range(20))
    for n, reply in replies.items():
        assert isinstance(reply, Message)
        assert reply.number("echo") == n
        assert reply.blob == blob


@pytest.mark.parametrize(
    ("do", "kind", "words"),
    [
        ("crash", FailureKind.CRASH, "SIGSEGV"),
        ("exit", FailureKind.CRASH, r"exit(3)"),
        ("hang", FailureKind.BUILD_TIMEOUT, "no answer in 0.3 s"),
        ("fork and hang", FailureKind.BUILD_TIMEOUT, "no answer"),
    ],
)
def test_only_the_guilty_job_fails(
    pool: WorkerPool, do: str, kind: FailureKind, words: str
) -> None:
    jobs = [request(n) for n in range(9)]
    jobs[4] = request(4, do, limit_s=0.3 if "hang" in do else 20.0)
    replies = dict(pool.run(jobs))
    failure = replies.pop(4)
    assert isinstance(failure, Failure)
    assert failure.kind is kind
    assert words in failure.message
    assert all(isinstance(reply, Message) for reply in replies.values())
    assert len(pool.pids()) == 2


def test_a_process_started_by_a_hung_worker_is_killed_too() -> None:
    pool = pool_of(1)
    pool.settle()
    (group,) = pool.pids()
    for _, reply in pool.run([request(0, "fork and hang", 0.5)]):
        assert isinstance(reply, Failure)
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline and processes_of(group):
        time.sleep(0.02)
    assert processes_of(group) == []
    pool.close()


def test_a_worker_that_eats_memory_is_out_of_memory() -> None:
    pool = pool_of(1, memory_bytes=1 << 29)
    try:
        ((_, failure),) = pool.run([request(0, "eat")])
    finally:
        pool.close()
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.OUT_OF_MEMORY


def test_a_crash_in_a_used_worker_is_tried_again_in_a_fresh_one() -> None:
    pool = pool_of(1)
    try:
        list(pool.run([request(0)]))
        ((_, reply),) = pool.run([request(1, "crash if used")])
    finally:
        pool.close()
    assert isinstance(reply, Message)
    assert reply.number("served") == 1


def test_workers_are_replaced_after_so_many_jobs() -> None:
    pool = pool_of(1, recycle_after=3)
    try:
        replies = [reply for _, reply in pool.run([request(n) for n in range(7)])]
    finally:
        pool.close()
    served = [reply.number("served") for reply in replies if isinstance(reply, Message)]
    assert served == [1, 2, 3, 1, 2, 3, 1]


def test_a_worker_killed_while_idle_is_replaced(pool: WorkerPool) -> None:
    pool.settle()
    for pid in pool.pids():
        os.kill(pid, signal.SIGKILL)
    assert len(dict(pool.run([request(n) for n in range(4)]))) == 4


def test_answers_that_nobody_waited_for_do_not_come_back(pool: WorkerPool) -> None:
    for _ in pool.run([request(n) for n in range(8)]):
        break
    replies = dict(pool.run([request(n) for n in range(100, 104)]))
    found = sorted(reply.number("echo") for reply in replies.values() if isinstance(reply, Message))
    assert found == [100, 101, 102, 103]


def test_a_worker_that_cannot_start_is_an_error_with_its_words() -> None:
    zygote = ZygoteProcess("no_such_module")
    pool = FakePool(WorkerPoolOptions(zygote, "fake", 2, FailureKind.RUN_TIMEOUT))
    with pytest.raises(
        MeasureError, match=r"does not start(.|\n)*No module named 'no_such_module'"
    ):
        list(pool.run([request(0)]))
    pool.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children_of(pid: int) -> list[int]:
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [child for child in found if is_alive(child) and parent_of(child) == pid]


def test_a_zygote_that_is_killed_takes_its_workers_along_and_is_replaced(pool: WorkerPool) -> None:
    pool.settle()
    before = pool.pids()
    (parent,) = {parent_of(pid) for pid in before}
    os.kill(parent, signal.SIGKILL)
    assert wait_until_dead([parent, *before], 2.0) == []
    assert len(dict(pool.run([request(n) for n in range(4)]))) == 4
    assert not set(pool.pids()) & set(before)


def test_workers_that_are_not_forked_yet_end_with_their_pool() -> None:
    zygote = ZygoteProcess("tests.search.measure.fake_worker", ROOT)
    options = WorkerPoolOptions(zygote, "fake", 2, FailureKind.RUN_TIMEOUT)
    WorkerPool(options).close()
    with closing(FakePool(options)) as pool:
        pool.settle()
        pids = pool.pids()
        assert sorted(children_of(parent_of(pids[0]))) == sorted(pids)


def test_close_is_quick_even_when_workers_are_busy() -> None:
    pool = pool_of(2)
    pool.settle()
    jobs = pool.run([request(0, "hang", 100.0), request(1, "hang", 100.0), request(2)])
    pids = pool.pids()
    begin = time.monotonic()
    jobs.close()
    pool.close()
    assert time.monotonic() - begin < 50.0, "it does not wait for them"
    assert not any(is_alive(pid) for pid in pids)


def test_a_closed_pool_takes_no_jobs() -> None:
    pool = pool_of(1)
    pool.close()
    with pytest.raises(MeasureError, match="the measurer is closed; make a new one"):
        next(pool.run([request(0)]))


PARENT = """
import os, sys
sys.path.insert(0, {root!r})
from tests.search.measure.test_pool import pool_of, request
pool = pool_of(2)
pool.settle()
print(*pool.pids(), flush=True)
list(pool.run([request(0, "hang", 1e5), request(1, "hang", 1e5)]))
"""


def test_workers_die_with_their_starter() -> None:
    source = PARENT.format(root=ROOT)
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.1)
        parent.kill()
        parent.wait()
    assert wait_until_dead(pids, 2.0) == []


def test_ctrl_c_at_a_worker_is_ignored(pool: WorkerPool) -> None:
    pool.settle()
    before = pool.pids()
    for pid in before:
        os.kill(pid, signal.SIGINT)
    time.sleep(0.1)
    assert len(dict(pool.run([request(n) for n in range(4)]))) == 4
    assert pool.pids() == before
