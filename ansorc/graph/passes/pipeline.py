"""The rewrites of a network, in their order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ansorc.errors import InternalError, LanguageError
from ansorc.graph.graph import Graph, GraphPass
from ansorc.graph.passes.channels_last import channels_last
from ansorc.graph.passes.cleanup import copy_outputs, merge_equal_nodes, remove_dead_nodes
from ansorc.graph.passes.fold_affine import fold_affine
from ansorc.graph.passes.fold_constants import fold_constants
from ansorc.graph.passes.move_views import cancel_views, sink_transposes
from ansorc.graph.passes.multiply_integers import multiply_integers
from ansorc.graph.passes.sink_reshapes import sink_reshapes
from ansorc.graph.passes.sink_scales import sink_scales
from ansorc.graph.verify import report_of, verify_rewrite
from ansorc.ir.dump import DumpFolder
from ansorc.ir.verify import verifies_each
from ansorc.target.units import seconds_text

_LOG = logging.getLogger(__name__)
NamedPass: TypeAlias = "tuple[str, GraphPass]"

NETWORK_PASSES: Sequence[NamedPass] = (
    ("remove_dead_nodes", remove_dead_nodes),
    ("multiply_integers", multiply_integers),
    ("remove_dead_nodes", remove_dead_nodes),
    ("fold_constants", fold_constants),
    ("fold_affine", fold_affine),
    ("sink_scales", sink_scales),
    ("channels_last", channels_last),
    ("sink_transposes", sink_transposes),
    ("sink_reshapes", sink_reshapes),
    ("cancel_views", cancel_views),
    ("fold_constants", fold_constants),
    ("merge_equal_nodes", merge_equal_nodes),
    ("copy_outputs", copy_outputs),
    ("remove_dead_nodes", remove_dead_nodes),
)


def optimize_graph(
    graph: Graph,
    passes: Sequence[NamedPass] = NETWORK_PASSES,
    trace: Callable[[str, Graph], None] | None = None,
    dump: DumpFolder | None = None,
) -> Graph:
    """Return `graph` after `passes`; `trace` gets each one's name and result.

    What each pass changed is written to `dump`. Raise InternalError where a pass fails, or where
    its result is no graph of the same network.
    """
    source, is_each, is_logged = graph, verifies_each(), _LOG.isEnabledFor(logging.DEBUG)
    for name, rewrite in passes:
        begin = time.perf_counter()
        result = _rewrite(name, rewrite, graph, dump)
        if is_logged:
            passed = seconds_text(time.perf_counter() - begin, 3)
            _LOG.debug("%s: pass %s, %s, %d nodes", graph.name, name, passed, len(result.nodes))
        if dump is not None:
            _write(dump, name, graph, result)
        if is_each:
            verify_rewrite(graph, result, name, dump)
        graph = result
        if trace is not None:
            trace(name, graph)
    verify_rewrite(source, graph, " and ".join(dict(passes)), dump)
    return graph


def _rewrite(name: str, rewrite: GraphPass, graph: Graph, dump: DumpFolder | None) -> Graph:
    try:
        return rewrite(graph)
    except (LanguageError, MemoryError):  # of a definition of the user's, or of the machine
        raise
    except Exception as error:
        words = f"the pass {name} failed: {type(error).__name__}: {error}"
        raise InternalError(words, report_of(graph, dump)) from error


def _write(dump: DumpFolder, name: str, before: Graph, after: Graph) -> None:
    text = after.to_text()
    if after is before or text == before.to_text():
        dump.skip()
    else:
        dump.write(name, text)
