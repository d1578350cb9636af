"""The steps: each class is a gene, its checks, its meaning and its record.

In: a State. Out: a changed State, or a ScheduleError. `STEPS` lists them all by name.
"""

from ansorc.schedule.state import Step
from ansorc.schedule.steps.annotate import BindThread, Parallelize, Pragma, Unroll, Vectorize
from ansorc.schedule.steps.cache import CacheRead, CacheWrite
from ansorc.schedule.steps.initial import DecomposeReduction
from ansorc.schedule.steps.layout import RewriteLayout
from ansorc.schedule.steps.location import ComputeAt, ComputeInline, ComputeRoot, StoreAt
from ansorc.schedule.steps.order import Fuse, Reorder
from ansorc.schedule.steps.redefine import Redefine
from ansorc.schedule.steps.reverse import ReverseComputeAt
from ansorc.schedule.steps.rfactor import RFactor
from ansorc.schedule.steps.split import Split
from ansorc.schedule.steps.storage import Panel, StorageAlign
from ansorc.schedule.steps.tensorize import Tensorize

STEPS: dict[str, type[Step]] = {
    step.__name__: step
    for step in (
        Split, Fuse, Reorder, ComputeAt, ComputeInline, ComputeRoot, CacheRead, CacheWrite, RFactor,
        StorageAlign, Panel, RewriteLayout, Parallelize, Vectorize, Unroll, BindThread, Pragma,
        Tensorize, Redefine, ReverseComputeAt, DecomposeReduction,
        StoreAt,
    )
}  # fmt: skip

__all__ = [
    "STEPS", "BindThread", "CacheRead", "CacheWrite", "ComputeAt", "ComputeInline", "ComputeRoot",
    "DecomposeReduction", "Fuse", "Panel", "Parallelize", "Pragma", "RFactor",
    "Redefine", "Reorder", "ReverseComputeAt", "RewriteLayout", "Split", "Step", "StorageAlign",
    "StoreAt", "Tensorize", "Unroll", "Vectorize",
]  # fmt: skip
