"""The passes between lowering and code generation for a GPU, in their order."""

from __future__ import annotations

from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.passes.gpu.barriers import insert_barriers
from ansorc.ir.passes.gpu.join_loads import join_loads
from ansorc.ir.passes.gpu.join_stores import join_stores
from ansorc.ir.passes.gpu.matrix_tiles import form_matrix_tiles
from ansorc.ir.passes.gpu.order_reductions import order_reductions
from ansorc.ir.passes.gpu.pad_shared import pad_shared
from ansorc.ir.passes.gpu.pipeline_shared_copies import pipeline_shared_copies
from ansorc.ir.passes.gpu.private_arrays import MAX_REGISTERS, unroll_private
from ansorc.ir.passes.gpu.thread_nests import normalize_thread_nest
from ansorc.ir.passes.gpu.virtual_threads import inject_virtual_threads
from ansorc.ir.passes.gpu.whole_tiles import compute_whole_tiles
from ansorc.ir.passes.gpu.wide_sums import widen_sums
from ansorc.ir.passes.hoist_conditions import hoist_conditions
from ansorc.ir.passes.insert_checks import insert_checks
from ansorc.ir.passes.lane_groups import VectorUnit
from ansorc.ir.passes.partition_loops import partition_loops
from ansorc.ir.passes.pipeline import Passes
from ansorc.ir.passes.promote_accumulators import promote_accumulators
from ansorc.ir.passes.vectorize_loops import vectorize_loops
from ansorc.target.gpu import VECTOR_BYTES
from ansorc.target.gpu_limits import launch_limits

_PARTITION_STATEMENTS = 256
"""The most statements that splitting loops at their tests may add to a kernel."""
_TILE_BYTES = 4 * MAX_REGISTERS * 3 // 4

CUDA_PASSES: Passes = (
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("inject_virtual_threads", lambda f, _: inject_virtual_threads(f)),
    ("normalize_thread_nest", lambda f, _: normalize_thread_nest(f)),
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("compute_whole_tiles", lambda f, _: compute_whole_tiles(f)),
    ("order_reductions", lambda f, _: order_reductions(f)),
    ("widen_sums", lambda f, _: widen_sums(f)),
    (
        "form_matrix_tiles",
        lambda f, t: form_matrix_tiles(f, has_tiles=t.gpu.architecture.has_matrix_tiles),
    ),
    ("promote_accumulators", lambda f, _: promote_accumulators(f, _TILE_BYTES)),
    (
        "pipeline_shared_copies",
        lambda f, t: pipeline_shared_copies(f, has_async=t.gpu.architecture.has_async_copies),
    ),
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("insert_barriers", lambda f, _: insert_barriers(f)),
    ("join_stores", lambda f, _: join_stores(f)),
    ("hoist_conditions", lambda f, _: hoist_conditions(f)),
    ("partition_loops", lambda f, _: partition_loops(f, _PARTITION_STATEMENTS, by_choice=False)),
    ("unroll_private", lambda f, _: unroll_private(f)),
    ("vectorize_loops", lambda f, _: vectorize_loops(f, VectorUnit(VECTOR_BYTES))),
    ("pad_shared", lambda f, t: pad_shared(f, launch_limits(t).shared_bytes)),
    ("join_loads", lambda f, _: join_loads(f)),
    ("simplify", lambda f, _: simplify_stmt(f)),
    ("insert_checks", lambda f, _: insert_checks(f, clamps=True)),
)
"""The passes before CUDA C is emitted."""
