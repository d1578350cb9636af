"""In which caches the tasks of a network are measured: as its kernels find them when it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import get_args

from ansorc.codegen.base import backend_of
from ansorc.graph.arena import place_in_arena
from ansorc.graph.network import Network
from ansorc.graph.partition import lifetimes
from ansorc.search.measure import CachePolicy
from ansorc.search.programs import ProgramChoice, find_environment
from ansorc.search.record import Records, is_missing


def cache_policy_of(network: Network) -> CachePolicy:
    """Return "cold-weights" for a network that the last cache does not hold, else "warm".

    It is held if its weights and the arena of its intermediate tensors, unpacked, fit into
    `Target.last_cache_bytes` of the machine that it runs on. Otherwise a weight has left the caches
    when the network reads it again, while a kernel's other arrays have just been written. "warm"
    also where the back end cannot evict.
    """
    machine = network.target.real
    can_evict = backend_of(machine).capabilities(machine).cold_caches
    fits = count_bytes(network) <= machine.last_cache_bytes
    return "cold-weights" if can_evict and not fits else "warm"


def common_cache_policy(networks: Iterable[Network]) -> CachePolicy:
    """Return the policy of networks that are tuned together: that of the largest."""
    policies = [cache_policy_of(network) for network in networks]
    return "cold-weights" if "cold-weights" in policies else "warm"


def _warn(sentence: str) -> None:
    warnings.warn(sentence, stacklevel=4)


def choose_recorded_policy(
    networks: Sequence[Network], choice: ProgramChoice, tell: Callable[[str], None] = _warn
) -> ProgramChoice:
    """Return `choice` with the cache policy whose records `networks` are built from.

    It is `common_cache_policy(networks)`. If that one has no programs of them, it is another policy
    that has some; `tell` then gets a sentence about it (default: a UserWarning).
    """
    preferred = common_cache_policy(networks)
    tasks = {key: task for network in networks for key, task in network.tasks.items()}
    if not choice.use_default and not is_missing(choice.records):
        with Records.open(choice.records, create=False) as records:
            for policy in (preferred, *get_args(CachePolicy)):
                wanted = replace(choice, cache=policy)
                environment = find_environment(list(tasks.values()), wanted, records)
                recorded = sum(records.best(key, environment) is not None for key in tasks)
                if recorded and policy != preferred:
                    tell(
                        f"{choice.records} has no program of '{networks[0].source.name}' measured "
                        f"with caches as '{preferred}', which fits it best; those of {recorded} of "
                        f"its {len(tasks)} tasks that were measured with '{policy}' are used"
                    )
                if recorded:
                    return replace(choice, cache=policy)
    return replace(choice, cache=preferred)


def count_bytes(network: Network) -> int:
    """Return the bytes of the weights that kernels read and of the arena."""
    graph, partition = network.graph, network.partition
    roots = {partition.root(name) for group in partition.groups for name in group.inputs}
    weights = sum(graph.constants[name].nbytes for name in roots if name in graph.constants)
    _, arena_bytes = place_in_arena(lifetimes(graph, partition), network.arena_alignment)
    return weights + arena_bytes
