"""A real server of PostgreSQL in a temporary folder, as a user who is not root."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict

import pytest

_START_S = 30.0


class _AsUser(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


class PostgresServer:
    """Serves any number of databases at one port until it is closed."""

    def __init__(self) -> None:
        """Make the folder of the server, and start it."""
        self._folder = Path(tempfile.mkdtemp(prefix="ansorc-postgres-"))
        self._who: _AsUser = {}
        if os.geteuid() == 0:  # the server refuses to be root's
            user = pwd.getpwnam("nobody")
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            self._who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "LC_ALL": "C"}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        try:
            self._run("initdb", "-D", f"{self._folder}/data", "-A", "trust", "-U", "ansorc",
                      "-E", "UTF8", "--no-sync")  # fmt: skip
            self.start()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def served() -> Generator[PostgresServer]:
        """What a fixture yields: a server while tests run; without PostgreSQL they skip."""
        if words := PostgresServer.obstacle():
            pytest.skip(words)
        made = PostgresServer()
        yield made
        made.close()

    @staticmethod
    def obstacle() -> str:
        """Why there can be no server here, or nothing."""
        for program in ("postgres", "initdb"):
            if shutil.which(program) is None:
                return f"there is no {program} of PostgreSQL"
        return ""

    def start(self) -> None:
        """Start the server on its folder, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ("postgres", "-D", f"{self._folder}/data", "-p", str(self.port),
                 "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off",
                 "-c", f"unix_socket_directories={self._folder}"),
                stdout=log, stderr=log, env=self._environment, cwd=self._folder, **self._who,
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while not (self._folder / f".s.PGSQL.{self.port}").exists() or not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self, way: signal.Signals = signal.SIGINT) -> None:
        """End all connections (SIGINT), or as a crash of the machine would (SIGQUIT)."""
        assert self._process is not None
        self._process.send_signal(way)
        self._process.wait(_START_S)

    def new_database(self) -> str:
        """Return the URL of an empty database."""
        self._databases += 1
        name = f"db{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://ansorc@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Do one statement, outside of a transaction."""
        with self._connect(database, autocommit=True) as connection:
            connection.execute(statement)

    def close(self) -> None:
        """End the server and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            self._connect("postgres").close()
        except import_module("psycopg").OperationalError:
            return False
        return True

    def _connect(self, database: str, **options: bool) -> Any:
        """A connection of psycopg, which the tests skip without."""
        return import_module("psycopg").connect(self.url(database), **options)

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=self._environment,
            cwd=self._folder, **self._who,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
