"""The two operators that `make demo` tunes, as workloads for the command line."""

import ansorc as ac


@ac.workload
def matmul_relu(n: int = 512, m: int = 512, k: int = 512) -> list[ac.Tensor]:
    """D[n, m] = max(A[n, k] · B[k, m], 0)."""
    a = ac.placeholder((n, k), name="A")
    b = ac.placeholder((k, m), name="B", constant=True)
    r = ac.reduce_axis(k, name="k")
    c = ac.compute((n, m), lambda i, j: ac.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = ac.compute((n, m), lambda i, j: ac.maximum(c[i, j], 0.0), name="D")
    return [a, b, d]


@ac.workload
def conv2d_bn_relu(
    size: int = 56, channels: int = 64, filters: int = 64, kernel: int = 3, stride: int = 2
) -> list[ac.Tensor]:
    """A convolution (NHWC, padding 1), a batch norm as scale and shift, and ReLU."""
    x = ac.placeholder((1, size, size, channels), name="X")
    w = ac.placeholder((kernel, kernel, channels, filters), name="W", constant=True)
    scale = ac.placeholder((filters,), name="scale", constant=True)
    shift = ac.placeholder((filters,), name="shift", constant=True)
    y = ac.ops.conv2d(x, w, stride=stride, padding=1, name="conv")
    y = ac.ops.batch_norm(y, scale, shift, name="bn")
    return [x, w, scale, shift, ac.ops.relu(y, name="Y")]
