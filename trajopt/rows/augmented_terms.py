"""Augmented-Lagrangian terms of rows in an expansion: gradients C'p and Hessians C'wC; change of rows along a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.backward.expansions import Expansion, adjoint
from trajopt.problem.objective import zero_blocks


class Weights(NamedTuple):
    """First and second derivatives p, w (R,) of the terms with respect to their rows."""

    p: np.ndarray
    w: np.ndarray


@routine
def _add_terms(first, Cx, Cu, p, w, lx, lu, lxx, lux, luu):
    N, n, m = lu.shape[0], Cx.shape[1], Cu.shape[1]
    for t in range(N + 1):
        for i in range(first[t], first[t + 1]):
            if p[i] == 0.0 and w[i] == 0.0:
                continue
            for a in range(n):
                lx[t, a] += p[i] * Cx[i, a]
                x = w[i] * Cx[i, a]
                if x != 0.0:
                    for b in range(n):
                        lxx[t, a, b] += x * Cx[i, b]
            if t == N:
                continue
            for a in range(m):
                lu[t, a] += p[i] * Cu[i, a]
                x = w[i] * Cu[i, a]
                if x != 0.0:
                    for b in range(n):
                        lux[t, a, b] += x * Cx[i, b]
                    for b in range(m):
                        luu[t, a, b] += x * Cu[i, b]


@routine
def _add_gradient(first, Cx, Cu, p, lx, lu):
    for t in range(lx.shape[0]):
        for i in range(first[t], first[t + 1]):
            if p[i] != 0.0:
                for a in range(Cx.shape[1]):
                    lx[t, a] += p[i] * Cx[i, a]
                if t < lu.shape[0]:
                    for a in range(Cu.shape[1]):
                        lu[t, a] += p[i] * Cu[i, a]


def with_terms(e: Expansion, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], weights: Weights) -> Expansion:
    """The expansion with C'p in its gradients and C'wC in its Hessians."""
    blocks = tuple([block.copy() for block in e[2:]])
    _add_terms(first, *C, *weights, *blocks)
    return Expansion(e.fx, e.fu, *blocks)


def with_multipliers(
    e: Expansion, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], multipliers: np.ndarray
) -> Expansion:
    """The expansion with C'lam in its gradients, those of the Lagrangian."""
    lx, lu = e.lx.copy(), e.lu.copy()
    _add_gradient(first, *C, multipliers, lx, lu)
    return e._replace(lx=lx, lu=lu)


def random_sum_gradient(
    fx: np.ndarray, fu: np.ndarray, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], chosen: np.ndarray
) -> np.ndarray:
    """Gradient (N, nu), with respect to the controls, of the sum of the chosen rows with random signs: the expectation
    of its squares is the sum of the squares of these rows' own gradients, at the cost of one."""
    N, ndx, nu = fu.shape
    signs = np.zeros(len(C[0]))
    signs[chosen] = np.random.default_rng(0).choice([-1.0, 1.0], len(chosen))
    none = Expansion(fx, fu, *zero_blocks(N, ndx, nu))
    with np.errstate(all="ignore"):
        return adjoint(with_multipliers(none, first, C, signs))[1]


@routine
def _along(first, Cx, Cu, dx, du, change):
    for t in range(dx.shape[0]):
        for i in range(first[t], first[t + 1]):
            total = 0.0
            for a in range(Cx.shape[1]):
                total += Cx[i, a] * dx[t, a]
            if t < du.shape[0]:
                for a in range(Cu.shape[1]):
                    total += Cu[i, a] * du[t, a]
            change[i] = total


def change_of_rows(first: np.ndarray, C: tuple[np.ndarray, np.ndarray], dx: np.ndarray, du: np.ndarray) -> np.ndarray:
    """C (dx, du) for every row (R,)."""
    change = np.empty(len(C[0]))
    _along(first, *C, dx, du, change)
    return change
