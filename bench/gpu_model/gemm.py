"""The measured matrix products: what a kernel of these parameters does.

C = A·Bᵀ + C in float32, M = N = K = 4096, in the parameters of CLTune's product: a block of
MDIMC × NDIMC threads makes MWG × NWG results, KWG terms at a time; SA and SB say which factors go
through shared memory, copied by rows of MDIMA and NDIMB threads; VWM and VWN are the widths of
vectors of A and C, and of B.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ansorc.target.gpu_kernel import GlobalAccess, KernelDescription, SharedAccess
from ansorc.target.gpu_requests import count_shared_wavefronts, global_wavefronts, sectors

EXTENT = 4096
WORD_BYTES = 4
WIDEST = 4
"""Elements of the widest load; vectors of 8 are two of them."""
LANES = np.arange(32)

Integers, Floats = NDArray[np.int64], NDArray[np.float64]
Columns = dict[str, Floats]


def describe(columns: Columns) -> KernelDescription:
    """Return the kernels of these parameters, an array element for each row."""
    p = {name: values.astype(np.int64) for name, values in columns.items()}
    threads = p["MDIMC"] * p["NDIMC"]
    rows, cols = p["MWG"] // p["MDIMC"], p["NWG"] // p["NDIMC"]
    width_m, width_n = np.minimum(p["VWM"], WIDEST), np.minimum(p["VWN"], WIDEST)
    x, y = _split(p["MDIMC"])
    of_a = _Factor(p["SA"] == 1, p["MWG"], rows, width_m, x * _wide(rows * WORD_BYTES))
    of_b = _Factor(p["SB"] == 1, p["NWG"], cols, width_n, y * _wide(cols * WORD_BYTES))
    global_accesses: list[GlobalAccess] = []
    shared_accesses: list[SharedAccess] = []
    vectors = 0
    for factor, lanes, dims in ((of_a, p["MDIMA"], (1.0, 0.0)), (of_b, p["NDIMB"], (0.0, 1.0))):
        found, shared, copied = factor.accesses(p["KWG"], threads, lanes, dims)
        global_accesses += found
        shared_accesses += shared
        vectors = vectors + copied
    results = x * _wide(rows * WORD_BYTES) + y * _wide(cols * WORD_BYTES * EXTENT)
    for is_store in (False, True):
        global_accesses.append(_access(
            results, width_m, rows * cols / width_m, p["MWG"] * p["NWG"] * WORD_BYTES, (1.0, 1.0),
            is_store=is_store,
        ))  # fmt: skip
    staged = of_a.is_shared | of_b.is_shared
    loads = EXTENT * ((rows / p["VWM"]) * ~of_a.is_shared + (cols / p["VWN"]) * ~of_b.is_shared)
    steps = EXTENT / p["KWG"]
    registers = rows * cols + 2 * (rows + cols) + 24
    excess = np.maximum(0, registers - 255)
    return KernelDescription(
        grid=(EXTENT / p["MWG"], EXTENT / p["NWG"]),
        threads=threads,
        registers=np.minimum(registers, most_registers(threads)),
        shared_bytes=p["KWG"] * WORD_BYTES * (p["MWG"] * p["SA"] + p["NWG"] * p["SB"]),
        multiply_adds=EXTENT * rows * cols,
        integer_operations=loads + 2 * vectors + EXTENT * 1.0 + 20,
        global_accesses=tuple(global_accesses),
        shared_accesses=tuple(shared_accesses),
        independent=rows * cols,
        steps=np.where(staged, steps, 1.0),
        waits=EXTENT / p["KWI"],
        barriers=np.where(staged, 2 * steps, 0.0),
        spilled_bytes=WORD_BYTES * excess,
        spill_requests=2.0 * excess * EXTENT,
        global_waits=np.where(of_a.is_shared & of_b.is_shared, 0.0, EXTENT / p["KWI"]),
    )


def most_registers(threads: Integers) -> Integers:
    """Return the registers a thread can have at most: what was measured could be launched."""
    return np.minimum(255, 512 // -(-threads // 128) // 8 * 8)


class _Factor:
    """One of the two factors: how its elements reach the registers."""

    def __init__(
        self, is_shared: NDArray[np.bool_], tile: Integers, own: Integers, width: Integers,
        addresses: Integers,
    ) -> None:  # fmt: skip
        self.is_shared = is_shared
        self.tile, self.own, self.width, self.addresses = tile, own, width, addresses

    def accesses(
        self, terms: Integers, threads: Integers, lanes: Integers, dims: tuple[float, float]
    ) -> tuple[list[GlobalAccess], list[SharedAccess], Floats]:
        """Return global and shared accesses, and the vectors that a thread copies in all."""
        block_bytes = self.tile * EXTENT * WORD_BYTES
        to_registers = EXTENT * self.own / self.width
        copied = self.is_shared * (self.tile * EXTENT / threads / self.width)
        x, y = _split(lanes)
        in_row = x * _wide(self.tile // lanes * WORD_BYTES)
        row = y * _wide(terms * lanes // threads)
        from_global = in_row + row * (EXTENT * WORD_BYTES)
        to_shared = in_row + row * _wide(self.tile * WORD_BYTES)
        held = self.tile * terms * WORD_BYTES
        reads = [
            _access(from_global, self.width, copied, block_bytes, dims, held),
            _access(self.addresses, self.width, to_registers * ~self.is_shared, block_bytes, dims,
                    held),
        ]  # fmt: skip
        shared = [
            SharedAccess(copied, _by_width(count_shared_wavefronts, to_shared, self.width),
                         is_store=True),
            SharedAccess(to_registers * self.is_shared,
                         _by_width(count_shared_wavefronts, self.addresses, self.width)),
        ]  # fmt: skip
        return reads, shared, copied


def _access(
    addresses: Integers, width: Integers, requests: Floats, block_bytes: Integers,
    dims: tuple[float, float], held: Integers | float = 0.0, *, is_store: bool = False,
) -> GlobalAccess:  # fmt: skip
    return GlobalAccess(
        requests=requests,
        sectors=_by_width(sectors, addresses, width),
        wavefronts=_by_width(global_wavefronts, addresses, width),
        block_bytes=np.where(requests > 0, block_bytes, 0),
        depends_on=dims,
        held_bytes=held,
        is_store=is_store,
    )


def _by_width(
    count: Callable[[Integers, int], Integers | Floats], addresses: Integers, width: Integers
) -> Floats:
    """Counts of the requests [rows] of these addresses [rows, threads]; `width` in elements."""
    found = np.zeros(len(width))
    for each in np.unique(width):
        chosen = width == each
        found[chosen] = count(addresses[chosen], int(each) * WORD_BYTES)
    return found


def _split(extent: Integers) -> tuple[Integers, Integers]:
    """The coordinates of the threads of a warp that are arranged in rows of `extent`."""
    return LANES % _wide(extent), LANES // _wide(extent)


def _wide(values: Integers) -> Integers:
    return values[:, None]
