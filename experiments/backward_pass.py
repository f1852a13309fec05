"""How long one knot of the backward pass takes: SIMD sweeps, plain loops and numpy's matrix products, one thread each.

    python -m experiments.backward_pass [--quick] [--out results/backward_pass.json]

Times are medians over rounds in which the variants take turns, so that a busy machine slows all of them alike.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.table import Table

from dynamics.simd.compilation import routine
from experiments.harness import Experiment, Run, in_turns, quick, table
from trajopt.backward.backward_pass import sweep

SIZES = [(4, 1), (12, 6), (18, 9), (36, 12), (36, 18)]
STEP = 0.01
Arrays = tuple[np.ndarray, ...]


def expansion(ndx: int, nu: int, N: int) -> Arrays:
    """fx, fu, lx, lu, lxx, lux, luu of a random problem with semi-implicit dynamics and a positive definite cost."""
    rng, n = np.random.default_rng([ndx, nu]), ndx // 2
    fx, fu = np.zeros((N, ndx, ndx)), np.zeros((N, ndx, nu))
    fx[:, n:] = STEP * rng.normal(size=(N, n, ndx)) + np.eye(n, ndx, n)
    fx[:, :n] = np.eye(n, ndx) + STEP * fx[:, n:]
    fu[:, n:] = rng.normal(size=(N, n, nu))
    fu[:, :n] = STEP * fu[:, n:]
    half = rng.normal(size=(N + 1, ndx + nu, ndx + nu))
    cost = half @ half.transpose(0, 2, 1) / (ndx + nu) + 0.1 * np.eye(ndx + nu)
    lxx, lux, luu = (np.ascontiguousarray(a) for a in (cost[:, :ndx, :ndx], cost[:N, ndx:, :ndx], cost[:N, ndx:, ndx:]))
    return fx, fu, rng.normal(size=(N + 1, ndx)), rng.normal(size=(N, nu)), lxx, lux, luu


@routine
def sweep_dot(fx, fu, lx, lu, lxx, lux, luu, k, K, Vx, Vxx):
    """The unregularized sweep with compiled calls of BLAS and LAPACK."""
    Vx[-1], Vxx[-1] = lx[-1], lxx[-1]
    for t in range(fx.shape[0] - 1, -1, -1):
        A, B, V = fx[t], fu[t], Vxx[t + 1]
        VA = np.dot(V, A)
        Qux, Quu = lux[t] + np.dot(B.T, VA), luu[t] + np.dot(B.T, np.dot(V, B))
        Qu = lu[t] + np.dot(B.T, Vx[t + 1])
        right = np.empty((Quu.shape[0], 1 + A.shape[0]))
        right[:, 0], right[:, 1:] = Qu, Qux
        solution = np.linalg.solve(Quu, right)
        k[t], K[t] = -solution[:, 0], -solution[:, 1:]
        Vx[t] = lx[t] + np.dot(A.T, Vx[t + 1]) + np.dot(Qux.T, k[t])
        value = lxx[t] + np.dot(A.T, VA) + np.dot(Qux.T, K[t])
        Vxx[t] = 0.5 * (value + value.T)


def run(kernel: Callable, *arrays: np.ndarray) -> Arrays:
    """One of these with its results allocated."""
    _, _, lx, lu, lxx, lux, _ = arrays
    results = np.empty_like(lu), np.empty_like(lux), np.empty_like(lx), np.empty_like(lxx)
    kernel(*arrays, *results)
    return results


@routine
def sweep_loops(fx, fu, lx, lu, lxx, lux, luu, k, K, Vx, Vxx):
    """The unregularized sweep with plain loops."""
    N, n, m = fu.shape
    F, VF, Q, S = np.empty((n, m + n)), np.empty((n, m + n)), np.empty((m + n, m + n)), np.empty((m, m + n + 1))
    Vx[-1], Vxx[-1] = lx[-1], lxx[-1]
    for t in range(N - 1, -1, -1):
        F[:, :m], F[:, m:] = fu[t], fx[t]
        Q[:m, :m], Q[:m, m:], Q[m:, m:] = luu[t], lux[t], lxx[t]
        VF[:] = 0.0
        for i in range(n):
            for l in range(n):
                for j in range(m + n):
                    VF[i, j] += Vxx[t + 1, i, l] * F[l, j]
        for l in range(n):
            for i in range(m + n):
                for j in range(m + n):
                    Q[i, j] += F[l, i] * VF[l, j]
        S[:, :-1] = Q[:m]
        for i in range(m):
            S[i, -1] = lu[t, i]
            for l in range(n):
                S[i, -1] += fu[t, l, i] * Vx[t + 1, l]
        for c in range(m):  # eliminate column c below the diagonal
            for i in range(c + 1, m):
                f = S[i, c] / S[c, c]
                for j in range(c, m + n + 1):
                    S[i, j] -= f * S[c, j]
        for j in range(n):
            Vx[t, j] = lx[t, j]
            for l in range(n):
                Vx[t, j] += fx[t, l, j] * Vx[t + 1, l]
            for c in range(m):
                Vx[t, j] -= S[c, m + j] * S[c, -1] / S[c, c]
            for i in range(j + 1):
                Vxx[t, i, j] = Q[m + i, m + j]
                for c in range(m):
                    Vxx[t, i, j] -= S[c, m + i] * S[c, m + j] / S[c, c]
                Vxx[t, j, i] = Vxx[t, i, j]
        for c in range(m - 1, -1, -1):
            for j in range(m, m + n + 1):
                for i in range(c + 1, m):
                    S[c, j] -= S[c, i] * S[i, j]
                S[c, j] /= S[c, c]
            k[t, c] = -S[c, -1]
            for j in range(n):
                K[t, c, j] = -S[c, m + j]


def variants(arrays: Arrays) -> dict[str, Callable]:
    """The contestants, by name; each returns k, K, Vx, Vxx first."""
    return {
        "structured": lambda: sweep(arrays, 0.0, STEP, constant_sizes=False),
        "structured, constant sizes": lambda: sweep(arrays, 0.0, STEP, constant_sizes=True),
        "dense": lambda: sweep(arrays, 0.0, constant_sizes=False),
        "dense, constant sizes": lambda: sweep(arrays, 0.0, constant_sizes=True),
        "plain loops": lambda: run(sweep_loops, *arrays),
        "numpy dot": lambda: run(sweep_dot, *arrays),
    }


def measure(ndx: int, nu: int, N: int, rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds per knot and first-call seconds of each variant, and its error relative to plain loops."""
    contestants = variants(expansion(ndx, nu, N))
    rows, expected = {}, contestants["plain loops"]()
    for name, function in contestants.items():
        start = time.perf_counter()
        result = function()
        first = time.perf_counter() - start
        pairs = zip(result[:4], expected[:4], strict=True)
        error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
        rows[name] = {"first_call_s": first, "error": error}
    for name, seconds in in_turns(contestants, rounds).items():
        rows[name]["us_per_knot"] = 1e6 * float(np.median(seconds)) / N
    return rows


def study(run: Run) -> dict[str, Any]:
    """All sizes."""
    (N, rounds), sizes = ((20, 3), [(4, 1)]) if run.options.quick else ((100, 201), SIZES)
    results = {f"{ndx},{nu}": measure(ndx, nu, N, rounds) for ndx, nu in run.track(sizes, "sizes")}
    return {"knots": N, "rounds": rounds, "sizes": results}


def sizes_table(sizes: dict[str, dict[str, dict[str, float]]]) -> Table:
    """Microseconds per knot: one line per variant, one column per size."""
    names = next(iter(sizes.values()))
    rows = [(name, *(f"{rows[name]['us_per_knot']:.3f}" for rows in sizes.values())) for name in names]
    return table("us per knot", ("ndx,nu",), list(sizes), [rows])


main = Experiment(
    "backward_pass",
    __doc__,
    study,
    options=[quick("one small size, few rounds")],
    tables=lambda results: (sizes_table(results["sizes"]),),
    out="results/backward_pass.json",
)

if __name__ == "__main__":
    sys.exit(main())
