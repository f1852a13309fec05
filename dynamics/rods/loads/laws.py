"""Loads after a law of the user's own: a function is traced, and its wrench differentiated as `loads` want it.

The law gives a wrench of the frame (R, p), its velocities and controls u.  In axes of the frame, for what resists,
G = - [R'm; R'f] at the frame displaced by exp(X) and with the twist eta + d,

    P = G_X      N = G_d      C, E, B = the blocks XX, X d, d d of the Hessian of mu'G      G_u, and X u of mu'G
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.tape.calculus import hessian, jacobian
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.program import Program, assemble
from dynamics.tape.symbol import Symbol, indices_of, symbols
from dynamics.tape.trace import traceable, traced

INPUTS = 18
"""Numbers that a program takes before controls: R, p and the twist in axes of the frame; after them mu (6)."""


class Law(NamedTuple):
    """A law as kernels need it: programs of three levels, controls, whether forces depend on velocities."""

    programs: tuple[Program, Program, Program]
    controls: int
    rates: bool


def law_of(function: Callable[..., Any], controls: int) -> Law:
    """The law of a function (R, p, w, v, u) -> [moment; force].

    Raises
    ------
    TypeError : no function.
    ValueError : one that cannot be traced or returns something else than six numbers; a force that is not affine in the
        controls, or in which a control is multiplied with velocities.
    """
    if not callable(function):
        raise TypeError(f"law: got {type(function).__name__}, expected a function of R, p, w, v and u")
    try:
        return _law(function, controls)
    except Untraceable as error:
        raise ValueError(f"law: got {function!r}, expected one that takes symbols for numbers, but {error}") from None


def _law(function: Callable[..., Any], controls: int) -> Law:
    graph = Graph()
    R, p, eta, u, mu, X, d = (symbols(graph, size) for size in (9, 3, 6, controls, 6, 6, 6))
    turn = _tilde(X[:3])
    frame = R.reshape(3, 3) @ (np.eye(3) + turn + 0.5 * (turn @ turn))
    place = p + R.reshape(3, 3) @ (X[3:] + 0.5 * (turn @ X[3:]))
    w, v = frame @ (eta + d)[:3], frame @ (eta + d)[3:]
    wrench = traced(traceable(function), frame, place, w, v, u)
    if wrench.shape != (6,):
        raise ValueError(f"law: got a result of shape {wrench.shape}, expected (6,), a moment and a force")
    G = -np.concatenate([frame.T @ wrench[:3], frame.T @ wrench[3:]])
    G = np.array([x if isinstance(x, Symbol) else Symbol(graph, graph.constant(float(x))) for x in G])
    z = np.concatenate([X, d, u])
    J, H = jacobian(G, z), hessian(G, mu, z)
    inputs = indices_of(graph, np.concatenate([R, p, eta, u, mu]))
    at_rest = {i: i for i in inputs} | dict.fromkeys(indices_of(graph, np.concatenate([X, d])), graph.constant(0.0))

    def nodes(*expressions: np.ndarray) -> list[int]:
        return graph.substitute([i for x in expressions for i in indices_of(graph, x)], at_rest, graph)

    def vanish(*expressions: np.ndarray) -> bool:
        return all(graph.values.get(i) == 0.0 for i in nodes(*expressions))

    if not vanish(H[12:, 6:]):
        raise ValueError("law: got controls that multiply each other or velocities, expected forces affine in controls")
    first = G, J[:, :6], J[:, 6:12], J[:, 12:].T
    second = H[:6, :6], H[:6, 6:12], H[6:12, 6:12], H[12:, :6]
    levels = (G,), first, (*first, *second)
    one, two, three = (assemble(graph, nodes(*expressions), inputs) for expressions in levels)
    return Law((one, two, three), controls, not vanish(J[:, 6:12]))


def _tilde(x: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]], dtype=object)
