"""The exit codes of `ansorc`, besides 0 and click's 2 for a wrong command line."""

FAILED = 1
"""Something that the user can put right."""
INTERNAL = 70
"""A fault of ansorc itself, as in sysexits.h."""
INTERRUPTED = 130
"""Ctrl-C, as shells have it: 128 + SIGINT."""
