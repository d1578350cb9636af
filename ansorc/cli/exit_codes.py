"""The exit codes of `ansorc`, besides 0 and click's 2 for a wrong command line."""

FAILED = 1
"""An error that the user can fix."""
INTERNAL = 70
"""An error in ansorc itself, as in sysexits.h."""
INTERRUPTED = 130
"""Ctrl-C, as shells have it: 128 + SIGINT."""
