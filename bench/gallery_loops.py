"""The operators of docs/gallery.md as loops that Numba compiles: the other way to write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np

jit: Callable[..., Any] = nb.njit(parallel=True, fastmath=True)
each = nb.prange


@jit
def manhattan(x, y):
    found = np.empty((len(x), len(y)), np.float32)
    for i in each(len(x)):
        for j in range(len(y)):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += abs(x[i, k] - y[j, k])
            found[i, j] = total
    return found


@jit
def min_plus(a, b):
    found = np.full((len(a), b.shape[1]), np.float32(np.inf))
    for i in each(len(a)):
        for k in range(len(b)):
            for j in range(b.shape[1]):
                found[i, j] = min(found[i, j], a[i, k] + b[k, j])
    return found


@jit
def squared_relu(x, w, b):
    found = x @ w
    for i in each(len(x)):
        for j in range(len(b)):
            found[i, j] = max(found[i, j] + b[j], np.float32(0)) ** 2
    return found


@jit
def gaussian(x, y):
    found = np.empty((len(x), len(y)), np.float32)
    for i in each(len(x)):
        for j in range(len(y)):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += (x[i, k] - y[j, k]) ** 2
            found[i, j] = np.exp(np.float32(-0.5) * total)
    return found


@jit
def bilateral(x):
    width = 5
    found = np.empty((len(x), x.shape[1] - width + 1), np.float32)
    for i in each(len(found)):
        for j in range(found.shape[1]):
            total = weights = np.float32(0)
            for r in range(width):
                weight = np.exp(-((x[i, j + r] - x[i, j + width // 2]) ** 2))
                total += weight * x[i, j + r]
                weights += weight
            found[i, j] = total / weights
    return found


@jit
def dilation(x, element):
    width = len(element)
    found = np.full((len(x) - width + 1, x.shape[1] - width + 1), np.float32(-np.inf))
    for i in each(len(found)):
        for r in range(width):
            for s in range(width):
                for j in range(found.shape[1]):
                    found[i, j] = max(found[i, j], x[i + r, j + s] + element[r, s])
    return found


@jit
def cost_volume(x, y):
    moves = len(y) - len(x) + 1
    found = np.empty((len(x), x.shape[1], moves, moves), np.float32)
    for i in each(len(x)):
        for j in range(x.shape[1]):
            for u in range(moves):
                for v in range(moves):
                    total = np.float32(0)
                    for k in range(x.shape[2]):
                        total += x[i, j, k] * y[i + u, j + v, k]
                    found[i, j, u, v] = total
    return found


@jit
def triplet(a, p, n):
    found = np.empty((len(a), len(n)), np.float32)
    for i in each(len(a)):
        near = np.float32(0)
        for k in range(a.shape[1]):
            near += (a[i, k] - p[i, k]) ** 2
        for j in range(len(n)):
            far = np.float32(0)
            for k in range(a.shape[1]):
                far += (a[i, k] - n[j, k]) ** 2
            found[i, j] = max(near - far + np.float32(1), np.float32(0))
    return found


@jit
def complex_matmul(x, y):
    found = np.zeros((len(x), y.shape[1], 2), np.float32)
    for i in each(len(x)):
        for k in range(len(y)):
            for j in range(y.shape[1]):
                found[i, j, 0] += x[i, k, 0] * y[k, j, 0] - x[i, k, 1] * y[k, j, 1]
                found[i, j, 1] += x[i, k, 0] * y[k, j, 1] + x[i, k, 1] * y[k, j, 0]
    return found


@jit
def relative_scores(q, k, b):
    heads, n, d = q.shape
    found = np.empty((heads, n, n), np.float32)
    for h in each(heads):
        for i in range(n):
            for j in range(n):
                total = np.float32(0)
                for c in range(d):
                    total += q[h, i, c] * k[h, j, c]
                found[h, i, j] = total * np.float32(d**-0.5) + b[h, i - j + n - 1]
    return found


@jit
def four_bits(x, w, s):
    rows, half = w.shape
    size = rows // len(s)
    values = np.empty((rows, 2 * half), np.float32)
    for k in each(rows):
        for j in range(half):
            scale = s[k // size]
            values[k, 2 * j] = (np.float32(w[k, j] % 16) - np.float32(8)) * scale[2 * j]
            values[k, 2 * j + 1] = (np.float32(w[k, j] // 16) - np.float32(8)) * scale[2 * j + 1]
    return x @ values


@jit
def variation(x):
    found = np.empty(len(x), np.float32)
    for b in each(len(x)):
        total = np.float32(0)
        for r in range(x.shape[1] - 1):
            for s in range(x.shape[2] - 1):
                down, right = x[b, r + 1, s] - x[b, r, s], x[b, r, s + 1] - x[b, r, s]
                total += np.sqrt(down * down + right * right + np.float32(1e-6))
        found[b] = total
    return found
