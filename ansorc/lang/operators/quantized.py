"""Layers of narrow numbers, in the layout of dot-product instructions."""

from __future__ import annotations

from ansorc.ir.dtype import BFLOAT16, FLOAT32, INT8, INT16, INT32, UINT8
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.shapes import require, require_rank
from ansorc.lang.reduction import reduce_axis, sum
from ansorc.lang.scalar import const
from ansorc.lang.tensor import Tensor

_DENSE_PACKED, _PACK_GROUPS = AutoName("dense_packed"), AutoName("pack_groups")
_SHIFT = 128
"""The number that shifts int8 values to uint8."""


def dense_packed(
    data: Tensor, weight: Tensor, *, is_shifted: bool = False, name: str = _DENSE_PACKED
) -> Tensor:
    """Return the layer [n, units] of data [n, k] and packed weight [k / t, units, t].

    Integers of 8 or 16 bits are summed in int32, bfloat16 in float32. The untuned default uses a
    dot-product instruction of the target (ansorc/target/dot_products.py) if there is one for `t`
    and these dtypes: t = 4 for uint8 data and int8 weights on x86 (VNNI), for equal ones on ARM;
    t = 2 for any integers on x86, and for bfloat16. `is_shifted` adds 128 to int8 data, to make
    it uint8, and corrects the sums. The result is the same, with an instruction of x86 that is
    twice as fast. Pack weights [units, k] by `pack_groups`, or in NumPy by
    `w.reshape(units, k // t, t).transpose(1, 0, 2)`. Raise LanguageError on other shapes or dtypes.
    """
    require_rank("dense_packed", 2, data)
    require_rank("dense_packed", 3, weight)
    groups, units, terms = weight.shape
    fits = data.shape[1] == groups * terms and terms in (2, 4)
    require(fits, "dense_packed", data, weight, need="they must be [n, k] and [k / t, units, t], "
            "t 2 or 4; pad k with zeros to a multiple of t")  # fmt: skip
    _require_dtypes(data, weight, is_shifted=is_shifted)
    if not is_shifted:
        return _dense(data, weight, name)
    shifted = compute(
        data.shape, lambda i, k: (data[i, k].astype(INT16) + _SHIFT).astype(UINT8),
        stage_name(name, "shifted"),
    )  # fmt: skip
    total = _dense(shifted, weight, stage_name(name, "sum"))
    surplus = _surplus(weight, stage_name(name, "surplus"))
    return compute((data.shape[0], units), lambda i, j: total[i, j] - surplus[j], name)


def pack_groups(weight: Tensor, terms: int, name: str = _PACK_GROUPS) -> Tensor:
    """Return weight [units, k] as [k / terms, units, terms], for `dense_packed`.

    Raise LanguageError where `terms` does not divide k.
    """
    require_rank("pack_groups", 2, weight)
    units, extent = weight.shape
    fits = terms >= 1 and extent % terms == 0
    require(fits, "pack_groups", weight, need=f"{terms} must divide the last extent; pad with 0")
    shape = (extent // terms, units, terms)
    return compute(shape, lambda g, j, t: weight[j, g * terms + t], name)


def _dense(data: Tensor, weight: Tensor, name: str) -> Tensor:
    units, terms = weight.shape[1:]
    total = FLOAT32 if data.dtype == BFLOAT16 else INT32
    if terms == 2 and total == INT32:
        data, weight = _short(data, name, "data"), _short(weight, name, "weight")
    k = reduce_axis(data.shape[1], "k")
    return compute(
        (data.shape[0], units),
        lambda i, j: sum(
            data[i, k].astype(total) * weight[k // terms, j, k % terms].astype(total), axis=k
        ),
        name,
    )


def _short(tensor: Tensor, name: str, role: str) -> Tensor:
    """Return `tensor` in int16, so that each element is converted once."""
    if tensor.dtype == INT16:
        return tensor
    shape = tensor.shape
    return compute(shape, lambda *i: tensor[i].astype(INT16), stage_name(name, role))


def _surplus(weight: Tensor, name: str) -> Tensor:
    groups, units, terms = weight.shape
    g, t = reduce_axis(groups, "g"), reduce_axis(terms, "t")
    shift = const(_SHIFT, UINT8).astype(INT32)
    return compute(
        (units,), lambda j: sum(shift * weight[g, j, t].astype(INT32), axis=[g, t]), name
    )


def _require_dtypes(data: Tensor, weight: Tensor, *, is_shifted: bool) -> None:
    terms = weight.shape[2]
    given = {data.dtype, weight.dtype}
    narrow = {INT8, UINT8} if terms == 4 else {INT8, UINT8, INT16}
    fits = given <= narrow or (given == {BFLOAT16} and terms == 2)
    listing = ", ".join(sorted(map(str, narrow))) + (", or both bfloat16" if terms == 2 else "")
    words = f"they are {data.dtype} and {weight.dtype}; groups of {terms} are of {listing}"
    require(fits, "dense_packed", data, weight, need=words)
    is_shiftable = not is_shifted or (data.dtype, weight.dtype, terms) == (INT8, INT8, 4)
    require(is_shiftable, "dense_packed", data, weight,
            need="is_shifted is for int8 data and int8 weights in groups of 4")  # fmt: skip
