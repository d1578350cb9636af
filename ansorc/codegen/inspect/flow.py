"""The loops of a function in assembly: its basic blocks, and what of their graph is circular."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ansorc.codegen.inspect.text import Architecture, AssemblyFunction, Instruction

_BRANCH = {"x86": re.compile(r"j\w+|loop\w*"), "arm": re.compile(r"b(\.\w+)?|b[a-z]{2}|[ct]bn?z")}
_LEAVES = {"x86": re.compile(r"jmpq?|ret[lq]?|ud2"), "arm": re.compile(r"b|br|ret|brk")}
FlowGraph = list[list[int]]
"""The successors of each node."""


@dataclass(frozen=True)
class Circle:
    """Blocks that can reach each other: a loop with `depth` - 1 loops around it."""

    nodes: frozenset[int]
    header: int
    depth: int
    is_innermost: bool


def blocks(function: AssemblyFunction, architecture: Architecture) -> tuple[list[range], FlowGraph]:
    """Return the basic blocks, as ranges of instruction numbers, and the edges between them."""
    code = function.instructions
    is_branch = [_branches(instruction, architecture) for instruction in code]
    starts = {0, *function.labels.values(), *(n + 1 for n, ends in enumerate(is_branch) if ends)}
    marks = [*sorted(start for start in starts if start < len(code)), len(code)]
    ranges = [range(begin, end) for begin, end in pairwise(marks)]
    number = {block.start: index for index, block in enumerate(ranges)}
    edges: FlowGraph = []
    for index, block in enumerate(ranges):
        last = code[block[-1]]
        target = function.labels.get(last.operands[-1]) if last.operands else None
        jumps = is_branch[block[-1]] and target is not None and target in number
        leaves = _LEAVES[architecture].fullmatch(last.mnemonic) is not None
        falls = not leaves and index + 1 < len(ranges)
        after = [number[target]] if jumps and target is not None else []
        edges.append([*after, *([index + 1] if falls else [])])
    return ranges, edges


def circles(graph: FlowGraph) -> list[Circle]:
    """Return all loops of a graph, outer ones first.

    A loop is a strongly connected part; those within it are what is left circular when nothing
    returns to where it is entered. Unlike an order of lines, this holds wherever blocks are placed.
    """
    return _within(graph, set(range(len(graph))), set(), 1)


def _within(graph: FlowGraph, nodes: set[int], closed: set[int], depth: int) -> list[Circle]:
    """The loops among `nodes`, without the edges to nodes that are `closed`."""
    inside = {n: [m for m in graph[n] if m in nodes and m not in closed] for n in nodes}
    circles: list[Circle] = []
    for part in _strong_components(inside):
        if len(part) == 1 and not part & set(inside[min(part)]):
            continue
        entered = {m for n in nodes - part for m in inside[n] if m in part}
        headers = entered or {m for n in range(len(graph)) if n not in part
                              for m in graph[n] if m in part} or {min(part)}  # fmt: skip
        inner = _within(graph, part, headers, depth + 1)
        circles += [Circle(frozenset(part), min(headers), depth, not inner), *inner]
    return circles


def _strong_components(edges: dict[int, list[int]]) -> list[set[int]]:
    """Strongly connected parts (Kosaraju): a walk forwards gives the order of a walk backwards."""
    backwards: dict[int, list[int]] = {node: [] for node in edges}
    for node, after in edges.items():
        for other in after:
            backwards[other].append(node)
    seen: set[int] = set()
    order = [node for start in sorted(edges) for node in _finish_order(edges, start, seen)]
    seen = set()
    walks = (_finish_order(backwards, start, seen) for start in reversed(order))
    return sorted((set(part) for part in walks if part), key=min)


def _finish_order(edges: dict[int, list[int]], start: int, seen: set[int]) -> list[int]:
    """The nodes not `seen` that `start` reaches, in the order in which a deep walk leaves them."""
    if start in seen:
        return []
    seen.add(start)
    order: list[int] = []
    path = [(start, iter(edges[start]))]
    while path:
        node, rest = path[-1]
        following = next((other for other in rest if other not in seen), None)
        if following is None:
            order.append(node)
            path.pop()
        else:
            seen.add(following)
            path.append((following, iter(edges[following])))
    return order


def _branches(instruction: Instruction, architecture: Architecture) -> bool:
    """Whether a block ends here."""
    patterns: Iterable[re.Pattern[str]] = (_BRANCH[architecture], _LEAVES[architecture])
    return any(pattern.fullmatch(instruction.mnemonic) for pattern in patterns)
