"""The CPU quota of control groups, read from files as containers show them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime"
UNIFIED = "31 23 0:28 {inner} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
FIRST = "32 31 0:29 {inner} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
OTHERS = (
    "22 1 8:1 / / rw - ext4 /dev/root rw\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
)
NONE = "none"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What prints the quota that the files below a directory state, in thousandths of a CPU."""
    path = tmp_path_factory.mktemp("quota") / "quota_test"
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    source = RUNTIME / "tests" / "quota_test.cc"
    subprocess.run(["c++", *flags, f"-I{RUNTIME}/include", source, "-o", path], check=True)
    return path


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def quota(program: Path, root: Path) -> str:
    done = subprocess.run([program, root], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def unified(mounted: str, group: str, **quotas: str) -> dict[str, str]:
    """The files of version 2: the group that is mounted, the process's, `cpu.max` by directory."""
    files = {f"sys/fs/cgroup/{place}/cpu.max": text for place, text in quotas.items()}
    return files | {
        "proc/self/mountinfo": OTHERS + UNIFIED.format(inner=mounted),
        "proc/self/cgroup": f"0::{group}\n",
    }


def test_there_may_be_no_groups_at_all(program: Path, tmp_path: Path) -> None:
    assert quota(program, tmp_path) == NONE


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("150000 100000\n", "1500"),
        ("20000 100000", "200"),
        ("400000 100000\n", "4000"),
        ("max 100000\n", NONE),
        ("max", NONE),
        ("5000", NONE),
        ("", NONE),
    ],
)
def test_version_2_in_a_container(program: Path, tmp_path: Path, text: str, expected: str) -> None:
    write(tmp_path, unified("/", "/", **{".": text}))
    assert quota(program, tmp_path) == expected


def test_the_smallest_quota_of_all_groups_around_counts(program: Path, tmp_path: Path) -> None:
    quotas = {".": "max 100000\n", "a": "150000 100000\n", "a/b": "300000 100000\n"}
    write(tmp_path, unified("/", "/a/b/c", **quotas))
    assert quota(program, tmp_path) == "1500"


@pytest.mark.parametrize("group", ["/docker/abc", "/elsewhere", "/docker/abcd", "/../other"])
def test_a_container_that_sees_its_own_group_only(
    program: Path, tmp_path: Path, group: str
) -> None:
    write(tmp_path, unified("/docker/abc", group, **{".": "250000 100000\n"}))
    assert quota(program, tmp_path) == "2500"


def test_a_group_in_a_part_that_is_mounted(program: Path, tmp_path: Path) -> None:
    quotas = {".": "250000 100000\n", "inner": "100000 100000\n"}
    write(tmp_path, unified("/docker/abc", "/docker/abc/inner", **quotas))
    assert quota(program, tmp_path) == "1000"


@pytest.mark.parametrize(("share", "expected"), [("150000\n", "1500"), ("-1\n", NONE)])
def test_version_1(program: Path, tmp_path: Path, share: str, expected: str) -> None:
    place = "sys/fs/cgroup/cpu,cpuacct/docker"
    write(tmp_path, {
        "proc/self/mountinfo": OTHERS + UNIFIED.format(inner="/") + FIRST.format(inner="/"),
        "proc/self/cgroup": "9:cpuset:/other\n4:cpu,cpuacct:/docker\n0::/\n",
        f"{place}/cpu.cfs_quota_us": share,
        f"{place}/cpu.cfs_period_us": "100000\n",
    })  # fmt: skip
    assert quota(program, tmp_path) == expected


def test_lines_that_are_too_long_are_passed_over(program: Path, tmp_path: Path) -> None:
    files = unified("/", "/", **{".": "150000 100000\n"})
    files["proc/self/mountinfo"] = f"22 1 8:1 / /{'x' * 5000} rw\n" + files["proc/self/mountinfo"]
    write(tmp_path, files)
    assert quota(program, tmp_path) == "1500"
