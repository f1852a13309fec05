"""A statement as a nonlinear programme for CasADi: multiple shooting, solved by IPOPT or by FATROP.

Variables w = [x_0, u_0, x_1, u_1, ..., x_N], stage by stage as FATROP's detection of structure wants; rows g of stage t
are x_{t+1} - f(x_t, u_t), at t = 0 also x_0, then the statement's own.  Limits of controls, and inequalities of single
states, are bounds of variables; everything else is a row.  Expressions are expanded (SX), Hessians exact.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import casadi as ca  # pyright: ignore[reportMissingImports]
import numpy as np

from experiments.constraints.statement import Limits, Statement, arguments

if hasattr(ca.GlobalOptions, "setNumpyMode"):
    ca.GlobalOptions.setNumpyMode(-1)  # numpy's functions of symbols give symbols, as in all versions so far

QUIET: dict[str, dict[str, Any]] = {
    "ipopt": {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}},
    "fatrop": {"print_time": False, "structure_detection": "auto", "fatrop": {"print_level": 0}},
}
"""Beyond this, options are the solvers' defaults: linear solver mumps, at most 3000 and 1000 iterations."""

WORDS = {"Infeasible_Problem_Detected": "infeasible", "Maximum_Iterations_Exceeded": "max_iterations"}
"""IPOPT's words for what this library calls otherwise."""


class Programme(NamedTuple):
    """minimize f(w) subject to lbg <= g(w) <= ubg, lbx <= w <= ubx."""

    w: Any
    f: Any
    g: Any
    lbg: np.ndarray
    ubg: np.ndarray
    lbx: np.ndarray
    ubx: np.ndarray


class Result(NamedTuple):
    """What a solver returned: states (N+1, nx), controls (N, nu), its word for success, iterations and seconds."""

    xs: np.ndarray
    us: np.ndarray
    converged: bool
    status: str
    iterations: int
    seconds: float


def programme(statement: Statement) -> Programme:
    """The nonlinear programme of a statement."""
    N, nx, nu = statement.horizon, statement.nx, statement.nu
    X = [ca.SX.sym(f"x{t}", nx) for t in range(N + 1)]
    U = [ca.SX.sym(f"u{t}", nu) for t in range(N)]
    lower_x, upper_x = np.full((N + 1, nx), -np.inf), np.full((N + 1, nx), np.inf)
    rows: list[list[tuple[Any, float, float]]] = [[] for _ in range(N + 1)]
    for i in np.flatnonzero(np.isfinite(statement.x0)).tolist():
        rows[0].append((X[0][i], statement.x0[i], statement.x0[i]))
    for each in statement.constraints:
        for t in statement.knots(each):
            if isinstance(each, Limits) and each.lower != each.upper:
                lower_x[t, each.components] = np.maximum(lower_x[t, each.components], each.lower)
                upper_x[t, each.components] = np.minimum(upper_x[t, each.components], each.upper)
            else:
                rows[t] += zip(each.values(X[t], U[t] if t < N else None), each.lower, each.upper, strict=True)
    w, g, limits = [], [], []
    for t in range(N + 1):
        w += [X[t]] if t == N else [X[t], U[t]]
        if t < N:
            g += [x - f for x, f in zip(ca.vertsplit(X[t + 1]), statement.step(X[t], U[t]), strict=True)]
            limits += [(0.0, 0.0)] * nx
        g += [row[0] for row in rows[t]]
        limits += [row[1:] for row in rows[t]]
    low, high = (
        np.concatenate([np.ravel(np.hstack([x[:-1], np.tile(u, (N, 1))])), x[-1]])
        for x, u in ((lower_x, statement.lower), (upper_x, statement.upper))
    )
    lbg, ubg = np.array(limits, dtype=float).T
    return Programme(ca.vertcat(*w), objective(statement, X, U), ca.vertcat(*g), lbg, ubg, low, high)


def objective(statement: Statement, X: list[Any], U: list[Any]) -> Any:
    """The cost of symbols, one column for each knot."""
    total: Any = sum(term.value(X[-1]) for term in statement.terminal)
    for term in statement.running:
        total += statement.dt * sum(term.value(*arguments(term.of, x, u)) for x, u in zip(X[:-1], U, strict=True))
    return total


def packed(xs: np.ndarray, us: np.ndarray) -> np.ndarray:
    """w of a trajectory."""
    return np.concatenate([np.ravel(np.hstack([xs[:-1], us])), xs[-1]])


def unpacked(w: np.ndarray, statement: Statement) -> tuple[np.ndarray, np.ndarray]:
    """xs (N+1, nx), us (N, nu) of w."""
    nx = statement.nx
    z = w[:-nx].reshape(statement.horizon, nx + statement.nu)
    return np.vstack([z[:, :nx], w[-nx:]]), z[:, nx:].copy()


class Peer:
    """IPOPT or FATROP, made for one statement."""

    def __init__(self, solver: str, statement: Statement, nlp: Programme | None = None) -> None:
        self.statement, self.nlp = statement, programme(statement) if nlp is None else nlp
        options = dict(QUIET[solver])
        if solver == "fatrop":
            options["equality"] = (self.nlp.lbg == self.nlp.ubg).tolist()
        symbols = {"x": self.nlp.w, "f": self.nlp.f, "g": self.nlp.g}
        self._solve = ca.nlpsol("solver", solver, symbols, options)

    def solve(self, us: np.ndarray, xs: np.ndarray) -> Result:
        """From a start."""
        nlp, begin = self.nlp, time.perf_counter()
        found = self._solve(x0=packed(xs, us), lbx=nlp.lbx, ubx=nlp.ubx, lbg=nlp.lbg, ubg=nlp.ubg)
        seconds, stats = time.perf_counter() - begin, self._solve.stats()
        word, steps = str(stats["return_status"]), int(stats["iter_count"])
        if not stats["success"] and "fatrop" in stats:  # which says neither how it failed, nor after how many
            word, steps = "failed", int(stats["fatrop"]["eval_hess_count"])
        word = "converged" if stats["success"] else WORDS.get(word, word.lower())
        states, controls = unpacked(np.array(found["x"]).ravel(), self.statement)
        return Result(states, controls, bool(stats["success"]), word, steps, seconds)
