"""Operators that reduce and then use the result for each element: softmax and norms.

For 16-bit floats everything but the largest element is computed in float32, and the result is
rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict, Unpack

from ansorc.lang import scalar
from ansorc.lang.checks import index_in_range
from ansorc.lang.define import compute
from ansorc.lang.naming import AutoName, stage_name
from ansorc.lang.operators.reduce import reduce_over, wide_sums
from ansorc.lang.operators.shapes import axis_number, refuse_unknown, require, require_rank
from ansorc.lang.operators.wide import widen
from ansorc.lang.operators.window import SPATIAL, Window
from ansorc.lang.reduction import Reduction, max, reduce_axis, sum
from ansorc.lang.scalar_type import Scalar
from ansorc.lang.tensor import Tensor, fixed

_SOFTMAX, _LOG_SOFTMAX = AutoName("softmax"), AutoName("log_softmax")
_CROSS_ENTROPY, _L2_NORMALIZE = AutoName("cross_entropy"), AutoName("l2_normalize")
_NORM2, _LAYER_NORM, _RMS_NORM = AutoName("norm2"), AutoName("layer_norm"), AutoName("rms_norm")


class NormOptions(TypedDict, total=False):
    """Options of a norm over groups of channels."""

    epsilon: float
    """Added to the variance; default 1e-5."""
    layout: str
    """Channels last (default: NLC, NHWC, NDHWC) or first (NCL, NCHW, NCDHW)."""
    name: str


def softmax(data: Tensor, axis: int = -1, name: str = _SOFTMAX) -> Tensor:
    """Return exp(data) / sum(exp(data)) along `axis`, of the shape of `data`.

    There are four stages: `<name>.max`, `<name>.exp` of the difference to it (so nothing
    overflows), `<name>.sum`, and the product with its inverse. That is one division a row and
    counts as one operation an element. For 16-bit floats the middle stages are float32. Raise
    LanguageError on an unknown axis.
    """
    dimension = axis_number("softmax", data, axis)
    peak = fixed(reduce_over("softmax", data, dimension, max, stage_name(name, "max")))
    raised = compute(
        data.shape,
        lambda *i: scalar.exp(widen(data[i]) - widen(peak[_without(i, dimension)])),
        stage_name(name, "exp"),
    )
    total = reduce_over("softmax", raised, dimension, sum, stage_name(name, "sum"))
    return compute(
        data.shape,
        lambda *i: (raised[i] * (1.0 / total[_without(i, dimension)])).astype(data.dtype),
        name,
        {"flop": math.prod(data.shape)},
    )


def log_softmax(data: Tensor, axis: int = -1, name: str = _LOG_SOFTMAX) -> Tensor:
    """Return log(softmax(data)) along `axis`, of the shape of `data`, without quotients.

    There are three stages: `<name>.max`, `<name>.sum` of the exponentials of the differences to it,
    and the result. Raise LanguageError on an unknown axis.
    """
    dimension = axis_number("log_softmax", data, axis)
    peak, total = _exponential_sums("log_softmax", data, dimension, name)

    def result(*i: Scalar) -> Scalar:
        outer = _without(i, dimension)
        logarithm = widen(data[i]) - widen(peak[outer]) - scalar.log(total[outer])
        return logarithm.astype(data.dtype)

    return compute(data.shape, result, name)


def cross_entropy(logits: Tensor, target: Tensor, name: str = _CROSS_ENTROPY) -> Tensor:
    """Return -log(softmax(logits))[target], the loss [...] of logits [..., classes].

    `target` [...] holds integers; a call fails for classes outside of 0 … classes - 1. There are
    three stages: `<name>.max`, `<name>.sum` of the exponentials of the differences to it, and the
    loss. Raise LanguageError on other shapes and dtypes.
    """
    fits = bool(logits.shape) and logits.shape[:-1] == target.shape and target.dtype.is_integer
    need = "they must be [..., classes] and integers [...]"
    require(fits, "cross_entropy", logits, target, need=need)
    peak, total = _exponential_sums("cross_entropy", logits, len(logits.shape) - 1, name)

    def loss(*i: Scalar) -> Scalar:
        last = logits.shape[-1] - 1
        label = index_in_range(target[i], last + 1, logits.name, len(logits.shape) - 1)
        label = scalar.minimum(scalar.maximum(label, 0), last)
        entropy = scalar.log(total[i]) + widen(peak[i]) - widen(logits[(*i, label)])
        return entropy.astype(logits.dtype)

    return compute(target.shape, loss, name)


def l2_normalize(
    data: Tensor, axis: int = -1, epsilon: float = 1e-12, name: str = _L2_NORMALIZE
) -> Tensor:
    """Return data / max(sqrt(sum(data^2)), epsilon) along `axis`, of the shape of `data`.

    Two stages: `<name>.squares` and the result. Raise LanguageError where there is no such axis.
    """
    dimension = axis_number("l2_normalize", data, axis)
    k = reduce_axis(data.shape[dimension], "k")

    def square(*i: Scalar) -> Reduction:
        element = widen(data[(*i[:dimension], k, *i[dimension:])])
        return sum(element * element, axis=k)

    shape = (*data.shape[:dimension], *data.shape[dimension + 1 :])
    total = compute(shape, square, stage_name(name, "squares"))

    def result(*i: Scalar) -> Scalar:
        length = scalar.maximum(scalar.sqrt(total[_without(i, dimension)]), epsilon)
        return (widen(data[i]) * (1.0 / length)).astype(data.dtype)

    return compute(data.shape, result, name)


def norm2(data: Tensor, name: str = _NORM2) -> Tensor:
    """Return the root of the sum of squares [batch] of each matrix of data [batch, n, m].

    Two stages: `<name>.sum` and the root. Raise LanguageError on another rank.
    """
    require_rank("norm2", 3, data)
    i, j = reduce_axis(data.shape[1], "i"), reduce_axis(data.shape[2], "j")
    total = compute(
        data.shape[:1],
        lambda b: sum(widen(data[b, i, j]) * widen(data[b, i, j]), axis=[i, j]),
        stage_name(name, "sum"),
    )
    return compute(data.shape[:1], lambda b: scalar.sqrt(total[b]).astype(data.dtype), name)


def layer_norm(
    data: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5, name: str = _LAYER_NORM
) -> Tensor:
    """Return (data - mean) / sqrt(variance + epsilon) * scale + shift, along the last axes.

    The last axes are those of `scale` and `shift`. There are three stages: `<name>.sum`,
    `<name>.squares` (of the differences to the mean) and the result. Raise LanguageError on other
    shapes.
    """
    first = _first_axis("layer_norm", data, scale, shift)
    share = 1.0 / math.prod(scale.shape)
    axes = range(first, len(data.shape))
    total = wide_sums("layer_norm", data, list(axes), stage_name(name, "sum"))
    inner = [reduce_axis(data.shape[d], f"k{d}") for d in axes]

    def squares(*indices: Scalar) -> Reduction:
        difference = widen(data[(*indices, *inner)]) - total[indices] * share
        return sum(difference * difference, axis=inner)

    variance = compute(data.shape[:first], squares, stage_name(name, "squares"))

    def result(*i: Scalar) -> Scalar:
        outer, inside = i[:first], i[first:]
        spread = scalar.rsqrt(variance[outer] * share + epsilon)
        normalised = (widen(data[i]) - total[outer] * share) * spread
        return (normalised * widen(scale[inside]) + widen(shift[inside])).astype(data.dtype)

    return compute(data.shape, result, name)


def rms_norm(data: Tensor, scale: Tensor, epsilon: float = 1e-5, name: str = _RMS_NORM) -> Tensor:
    """Return data / sqrt(mean(data^2) + epsilon) * scale, along the last axes (those of scale).

    Two stages: `<name>.squares` and the result. Raise LanguageError on other shapes.
    """
    first = _first_axis("rms_norm", data, scale)
    share = 1.0 / math.prod(scale.shape)
    inner = [reduce_axis(data.shape[d], f"k{d}") for d in range(first, len(data.shape))]

    def squares(*i: Scalar) -> Reduction:
        element = widen(data[(*i, *inner)])
        return sum(element * element, axis=inner)

    total = compute(data.shape[:first], squares, stage_name(name, "squares"))

    def result(*i: Scalar) -> Scalar:
        spread = scalar.rsqrt(total[i[:first]] * share + epsilon)
        return (widen(data[i]) * spread * widen(scale[i[first:]])).astype(data.dtype)

    return compute(data.shape, result, name)


def group_norm(
    data: Tensor, scale: Tensor, shift: Tensor, groups: int, **options: Unpack[NormOptions]
) -> Tensor:
    """Return `data` normalised over the positions and channels of each of `groups` groups.

    data is [n, …, c] (or channels first), scale and shift are [c]. Stages: `<name>.sum` and
    `<name>.squares` of groups, `<name>.mean` and `<name>.factor` of channels, and the result. Raise
    LanguageError on other shapes.
    """
    operator, name = "group_norm", options.get("name", AutoName("group_norm"))
    refuse_unknown(operator, options, NormOptions.__optional_keys__)
    rank = len(data.shape) - 2
    require(rank in SPATIAL, operator, data, need="it must have 1 to 3 spatial dimensions")
    letters = SPATIAL[rank].upper()
    window = Window.of(operator, rank, {"layout": options.get("layout", f"N{letters}C")})
    batch, spatial, channels = window.unpack(data.shape)
    fits = groups >= 1 and channels % groups == 0 and scale.shape == shift.shape == (channels,)
    need = f"scale and shift must be [{channels}], a multiple of {groups} groups"
    require(fits, operator, data, scale, shift, need=need)
    each = channels // groups
    places, rc = window.reduce_axes(spatial), reduce_axis(each, "rc")
    terms = [axis for axis in window.pack(None, places, rc) if axis is not None]
    share, epsilon = 1.0 / (math.prod(spatial) * each), options.get("epsilon", 1e-5)

    def element(n: Scalar, g: Scalar) -> Scalar:
        return widen(data[window.pack(n, places, g * each + rc)])

    def squares(n: Scalar, g: Scalar) -> Reduction:
        difference = element(n, g) - total[n, g] * share
        return sum(difference * difference, axis=terms)

    of_group = (batch, groups)
    total = compute(of_group, lambda n, g: sum(element(n, g), axis=terms), stage_name(name, "sum"))
    variance = compute(of_group, squares, stage_name(name, "squares"))

    def scaling(n: Scalar, c: Scalar) -> Scalar:
        return scalar.rsqrt(variance[n, c // each] * share + epsilon) * widen(scale[c])

    of_each = (batch, channels)
    mean = compute(of_each, lambda n, c: total[n, c // each] * share, stage_name(name, "mean"))
    factor = compute(of_each, scaling, stage_name(name, "factor"))

    def result(*i: Scalar) -> Scalar:
        n, _, c = window.unpack(i)
        normalised = (widen(data[i]) - mean[n, c]) * factor[n, c] + widen(shift[c])
        return normalised.astype(data.dtype)

    return compute(data.shape, result, name, axes=window.axes)


def instance_norm(
    data: Tensor, scale: Tensor, shift: Tensor, **options: Unpack[NormOptions]
) -> Tensor:
    """Return `data` normalised over the positions of each channel; see `group_norm`."""
    is_first = options.get("layout", "").startswith("NC")
    channels = data.shape[1 if is_first else -1] if data.shape else 1
    options["name"] = options.get("name", AutoName("instance_norm"))
    return group_norm(data, scale, shift, channels, **options)


def _first_axis(operator: str, data: Tensor, *vectors: Tensor) -> int:
    """Return the first axis of `data` that `vectors` also have."""
    shape = vectors[0].shape
    first = len(data.shape) - len(shape)
    fits = bool(shape) and first >= 0
    fits = fits and all(vector.shape == shape == data.shape[first:] for vector in vectors)
    need = f"scale and shift must have the last extents of {list(data.shape)}"
    require(fits, operator, data, *vectors, need=need)
    return first


def _exponential_sums(
    operator: str, data: Tensor, dimension: int, name: str
) -> tuple[Tensor, Tensor]:
    """Return the largest elements along an axis, and the sums of exp(element - largest)."""
    peak = fixed(reduce_over(operator, data, dimension, max, stage_name(name, "max")))
    k = reduce_axis(data.shape[dimension], "k")

    def exponentials(*i: Scalar) -> Reduction:
        element = widen(data[(*i[:dimension], k, *i[dimension:])])
        return sum(scalar.exp(element - widen(peak[i])), axis=k)

    return peak, compute(peak.shape, exponentials, stage_name(name, "sum"))


def _without(indices: Sequence[Scalar], dimension: int) -> tuple[Scalar, ...]:
    return (*indices[:dimension], *indices[dimension + 1 :])
