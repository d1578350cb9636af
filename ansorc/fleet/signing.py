"""The key of a fleet: what is signed with it is run, and believed; nothing else is.

A signed message is an HMAC-SHA256 (RFC 2104) of its purpose and its bytes, then the bytes. The
purpose keeps an answer from being taken for a job.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from ansorc.errors import OptionError

KEY_BYTES = 32
_DIGEST_BYTES = hashlib.sha256().digest_size
_VARIABLE = "ANSORC_FLEET_KEY"
_DEFAULT = Path("~/.config/ansorc/fleet.key")


class SignatureError(Exception):
    """Bytes that were not signed with the key of this fleet, or for another purpose."""


class FleetKey:
    """A secret that the tuners and the workers of a fleet share."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise OptionError(f"a fleet key has {KEY_BYTES} bytes, not {len(secret)}")
        self._secret = secret

    @staticmethod
    def read(path: Path | None = None) -> FleetKey:
        """Return the key in `path`, or where `key_path` says.

        Raise OptionError if there is none, or others may read it.
        """
        path = path or key_path()
        try:
            text, mode = path.read_text().strip(), path.stat().st_mode
        except OSError as error:
            raise OptionError(
                f"there is no fleet key in {path} ({error.strerror}); make one with "
                "`ansorc fleet key` and copy it to every machine of the fleet"
            ) from error
        if mode & 0o077:
            raise OptionError(f"others may read the fleet key {path}; chmod 600 {path}")
        try:
            return FleetKey(bytes.fromhex(text))
        except ValueError as error:
            raise OptionError(f"{path} is not a fleet key: it is not hexadecimal") from error

    @staticmethod
    def create(path: Path | None = None) -> Path:
        """Write a new key to `path`, readable by its owner alone; raise OptionError if it is there.

        Return the path.
        """
        path = path or key_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise OptionError(
                f"{path} is there already; all machines of a fleet have the same key"
            ) from error
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
        return path

    def sign(self, purpose: str, content: bytes) -> bytes:
        """Return `content` with its signature before it."""
        return self._digest(purpose, content) + content

    def verify(self, purpose: str, signed: bytes) -> bytes:
        """Return the content of `signed`; raise SignatureError if it is not what was signed."""
        digest, content = signed[:_DIGEST_BYTES], signed[_DIGEST_BYTES:]
        if not hmac.compare_digest(digest, self._digest(purpose, content)):
            raise SignatureError(f"a {purpose} that was not signed with the key of this fleet")
        return content

    def _digest(self, purpose: str, content: bytes) -> bytes:
        return hmac.new(self._secret, purpose.encode() + b"\0" + content, hashlib.sha256).digest()


def key_path() -> Path:
    """Return the path of the key: $ANSORC_FLEET_KEY, else ~/.config/ansorc/fleet.key."""
    named = os.environ.get(_VARIABLE)
    return (Path(named) if named else _DEFAULT).expanduser()
