"""What a worker refuses: jobs without the key's signature, and pickles of anything else."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path

import pytest

from ansorc.errors import OptionError
from ansorc.fleet.announcement import Announcement, calibrate, group_devices
from ansorc.fleet.device import FleetDevice
from ansorc.fleet.jobs import ANSWER, JOB, decode
from ansorc.fleet.signing import KEY_BYTES, FleetKey, SignatureError
from ansorc.search.measure.messages import Message

KEY = FleetKey(b"k" * KEY_BYTES)


class Echo:
    """Remembers what it was asked to do."""

    def __init__(self) -> None:
        self.jobs: list[Message] = []

    def do(self, job: Message) -> Message:
        self.jobs.append(job)
        if job.text("kind") == "disk":
            raise OSError(28, "No space left on device")
        return Message({"job": job.text("job")})

    def close(self) -> None:
        pass


def device(label: str = "one", probe_s: float = 1e-3, cpu: str = "a CPU") -> Announcement:
    return Announcement(label, "native", cpu, ("avx2",), 4, probe_s)


def test_what_is_not_signed_for_the_purpose_is_refused_in_words() -> None:
    labour = Echo()
    made = FleetDevice(device(), KEY, labour)
    job = Message({"job": "1"}).encode()
    forged = FleetKey(b"x" * KEY_BYTES).sign(JOB, job)
    changed = KEY.sign(JOB, job)[:-1] + b"?"
    for bad in (job, forged, changed, KEY.sign(ANSWER, job), b""):
        answer = decode(KEY.verify(ANSWER, made.answer(bad)))
        assert "refused" in answer.text("fault")
        assert "not signed with the key" in answer.text("fault")
    assert made.refused == 5
    assert not labour.jobs
    assert decode(KEY.verify(ANSWER, made.answer(KEY.sign(JOB, job)))).text("job") == "1"
    full = KEY.sign(JOB, Message({"job": "2", "kind": "disk"}).encode())
    assert "No space left" in decode(KEY.verify(ANSWER, made.answer(full))).text("fault")
    made.close()


@pytest.mark.parametrize("factor", [3.0, 1 / 3, 1.2, 1.0])
def test_times_of_a_device_that_has_become_another_are_its_fault(factor: float) -> None:
    made = FleetDevice(device(), KEY, Echo(), lambda enough_s: 1e-3 * factor)
    measure = Message({"job": "1", "kind": "measure"}).encode()
    fault = decode(KEY.verify(ANSWER, made.answer(KEY.sign(JOB, measure)))).text("fault")
    assert ("its clock is wrong" in fault) == (factor in {3.0, 1 / 3})
    build = Message({"job": "2", "kind": "build"}).encode()
    assert not decode(KEY.verify(ANSWER, made.answer(KEY.sign(JOB, build)))).text("fault")
    assert made.report().faults == (factor in {3.0, 1 / 3})
    made.close()


def test_a_worker_unpickles_one_function_and_no_code() -> None:
    pytest.importorskip("distributed", reason="a fleet needs the package distributed")
    from ansorc.fleet import engine  # noqa: PLC0415 - not without Dask

    assert engine.load_admitted(pickle.dumps(engine.serve)) is engine.serve
    for harmful in (subprocess.run, eval, Path, engine.run_devices):
        with pytest.raises(pickle.UnpicklingError, match="refused"):
            engine.load_admitted(pickle.dumps(harmful))


def test_a_key_is_secret_and_made_once(tmp_path: Path) -> None:
    path = FleetKey.create(tmp_path / "a" / "key")
    assert path.stat().st_mode & 0o777 == 0o600
    signed = FleetKey.read(path).sign(JOB, b"x")
    assert FleetKey.read(path).verify(JOB, signed) == b"x"
    with pytest.raises(SignatureError):
        FleetKey.read(path).verify(ANSWER, signed)
    with pytest.raises(OptionError, match="there already"):
        FleetKey.create(path)
    path.chmod(0o644)
    with pytest.raises(OptionError, match="chmod 600"):
        FleetKey.read(path)
    path.chmod(0o600)
    path.write_text("no key")
    with pytest.raises(OptionError, match="hexadecimal"):
        FleetKey.read(path)


def test_devices_whose_probes_or_machines_differ_are_kept_apart() -> None:
    near = [("a", device(probe_s=1.0)), ("b", device(probe_s=1.04)), ("c", device(probe_s=1.1))]
    kept, (note,) = group_devices(near)
    assert kept == {"a", "b"}
    assert "at c is kept apart: its probe differs by +8%" in note
    kept, (note,) = group_devices([*near[:2], ("d", device(probe_s=1.0, cpu="another"))])
    assert kept == {"a", "b"}
    assert "another machine" in note
    assert group_devices([]) == (frozenset(), ())
    assert Announcement.from_json(near[0][1].to_json()) == near[0][1]


def test_the_probe_takes_the_shortest_time() -> None:
    times = iter([0.0, 5.0, 5.0, 7.0] + [t for k in range(58) for t in (10.0 * k, 10.0 * k + 3)])
    assert calibrate(lambda threads: None, lambda: next(times)) == 2.0
    times = iter([0.0, 5.0, 5.0, 7.0])
    assert calibrate(lambda threads: None, lambda: next(times), enough_s=2.5) == 2.0
