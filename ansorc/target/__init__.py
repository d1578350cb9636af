"""The machines that code is made for: a line of text in, a `Target` out."""

from ansorc.target.machine import CPU_BACKEND, Target, cpu_model, detect, usable_cores

__all__ = ["CPU_BACKEND", "Target", "cpu_model", "detect", "usable_cores"]
