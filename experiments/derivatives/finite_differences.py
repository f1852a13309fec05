"""Derivatives of inverse and forward dynamics by differences, the way that is fast here: all perturbed points of all
knots are lanes of one call.

    forward     (f(x + h) - f(x)) / h           h = 2^-26, about sqrt(eps)
    central     (f(x + h) - f(x - h)) / 2h      h = 2^-17, about cbrt(eps)

Steps are powers of two times the size of what is perturbed (1 for a tangent of configurations), so that x + h is
exact up to rounding.  Where a function is linear, in a or tau, h = 1 has no truncation error and is used once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import dynamics
from dynamics.derivatives.forward_dynamics import ForwardDynamicsDerivatives, ForwardDynamicsSecondDerivatives
from dynamics.derivatives.inverse_dynamics import InverseDynamicsDerivatives
from dynamics.derivatives.second_order import InverseDynamicsSecondDerivatives

STEP = {"forward": 2.0**-26, "central": 2.0**-17}
NUMBERS = 2**25
"""Results held at once (256 MiB): more knots are taken in turns."""


class _Stencil(NamedTuple):
    """Perturbations (P, nv) of q, v and the third argument; the first is none.  Columns of a derivative are
    (f[plus] - f[minus]) / width."""

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    columns: dict[str, tuple[np.ndarray, np.ndarray, float]]  # name -> plus, minus (nv,), width


def _stencil(model, scheme: str, wanted: str, speed: float) -> _Stencil:
    """wanted: letters of the arguments to differentiate by; speed: the size of v."""
    if scheme not in STEP:
        raise ValueError(f"scheme: got {scheme!r}, expected 'forward' or 'central'")
    n, rows, columns = model.nv, [np.zeros((1, 3, model.nv))], {}

    def moved(argument: str, h: float) -> np.ndarray:
        block = np.zeros((n, 3, n))
        block[:, "qvu".index(argument)] = h * np.eye(n)
        rows.append(block)
        return np.arange(n) + sum(len(x) for x in rows[:-1])

    for argument in wanted:
        h = 1.0 if argument == "u" else STEP[scheme] * (speed if argument == "v" else 1.0)
        plus = moved(argument, h)
        if scheme == "central" and argument != "u":
            columns[argument] = plus, moved(argument, -h), 2.0 * h
        else:
            columns[argument] = plus, np.zeros(n, dtype=int), h
    stencil = np.concatenate(rows)
    return _Stencil(stencil[:, 0], stencil[:, 1], stencil[:, 2], columns)


def _differences(model, function: Callable, q, v, u, scheme: str, wanted: str, numbers: int) -> list[dict]:
    """Per result of function(model, q, v, u) the derivatives by each argument in `wanted`, the direction last.

    numbers: results of one point, all together.
    """
    q, v, u = (np.atleast_2d(np.asarray(x, dtype=float)) for x in (q, v, u))
    speed = 2.0 ** np.ceil(np.log2(max(1.0, np.abs(v).max(initial=0.0))))
    stencil = _stencil(model, scheme, wanted, speed)
    P = len(stencil.q)
    block = max(1, NUMBERS // (P * numbers))
    parts = []
    for first in range(0, len(q), block):
        K = len(q[first : first + block])
        points = [np.repeat(x[first : first + block], P, axis=0) for x in (q, v, u)]
        moves = [np.tile(x, (K, 1)) for x in stencil[:3]]
        add = np.add if model.is_euclidean else lambda q, dq: dynamics.integrate(model, q, dq)
        values = function(model, add(points[0], moves[0]), points[1] + moves[1], points[2] + moves[2])
        values = [x.reshape(K, P, *x.shape[1:]) for x in values]
        parts.append([
            {
                name: np.moveaxis((x[:, plus] - x[:, minus]) / width, 1, -1)
                for name, (plus, minus, width) in stencil.columns.items()
            }
            for x in values
        ])  # fmt: skip
    results = zip(*parts, strict=True)
    return [{name: np.concatenate([part[name] for part in of_blocks]) for name in wanted} for of_blocks in results]


def inverse_dynamics_derivatives(model, q, v, a, scheme: str = "central") -> InverseDynamicsDerivatives:
    """dtau_dq, dtau_dv, M (K, nv, nv) from 3 nv + 1 (forward) or 5 nv + 1 (central) evaluations of inverse dynamics.

    Parameters: q (K, nq), v, a (K, nv), or single points, which count as K = 1; scheme: "forward" or "central".
    """
    function = lambda *x: (dynamics.inverse_dynamics(*x),)  # noqa: E731
    (tau,) = _differences(model, function, q, v, a, scheme, "qvu", model.nv)
    return InverseDynamicsDerivatives(tau["q"], tau["v"], tau["u"])


def forward_dynamics_derivatives(model, q, v, tau, scheme: str = "central") -> ForwardDynamicsDerivatives:
    """da_dq, da_dv, da_dtau (K, nv, nv) from as many evaluations of forward dynamics."""
    function = lambda *x: (dynamics.forward_dynamics(*x),)  # noqa: E731
    (a,) = _differences(model, function, q, v, tau, scheme, "qvu", model.nv)
    return ForwardDynamicsDerivatives(a["q"], a["v"], a["u"])


def inverse_dynamics_second_derivatives(model, q, v, a, scheme: str = "central") -> InverseDynamicsSecondDerivatives:
    """The four tensors (K, nv, nv, nv) from 2 nv + 1 or 4 nv + 1 evaluations of the analytical first derivatives."""
    first = dynamics.inverse_dynamics_derivatives
    dq, dv, M = _differences(model, first, q, v, a, scheme, "qv", 3 * model.nv**2)
    return InverseDynamicsSecondDerivatives(dq["q"], dq["v"], dv["v"], M["q"])


def forward_dynamics_second_derivatives(model, q, v, tau, scheme: str = "central") -> ForwardDynamicsSecondDerivatives:
    """d2a_dqdq, d2a_dqdv, d2a_dvdv, d2a_dqdtau (K, nv, nv, nv), the last [i, j, k]: j is q, k is tau."""
    first = dynamics.forward_dynamics_derivatives
    dq, dv, dtau = _differences(model, first, q, v, tau, scheme, "qv", 3 * model.nv**2)
    return ForwardDynamicsSecondDerivatives(dq["q"], dq["v"], dv["v"], dtau["q"].swapaxes(-1, -2))
