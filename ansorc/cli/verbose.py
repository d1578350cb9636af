"""`ansorc --verbose`: print messages of ansorc's logger on the error output."""

from __future__ import annotations

import logging
import sys

import click

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
_FORMAT = "%(relativeCreated)8.0f ms %(name)s: %(message)s"


def log_to_stderr(context: click.Context, parameter: click.Parameter, count: int) -> None:
    """Print the messages of the logger `ansorc` until `context` ends; more with a `count` of 2."""
    del parameter
    if not count or context.resilient_parsing:
        return
    logger = logging.getLogger("ansorc")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(_LEVELS[min(count, len(_LEVELS) - 1)])

    def restore() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)

    context.call_on_close(restore)
