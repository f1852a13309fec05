"""Small problems with constraints, their condensed form in the controls alone, and scipy's solution of it."""

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from tests.trajopt.systems import CirclePendulum, LinearSystem, Pendulum, TipResidual
from trajopt import (
    ControlBounds,
    ControlCost,
    Problem,
    ResidualConstraint,
    StateBounds,
    StateCost,
    StateResidual,
    expand,
    total_cost,
)


class DistanceResidual:
    """Distance of the position (the first two numbers of the state) from a point: curved, and not through zero."""

    nr = 1

    def __init__(self, centre, ndx=4):
        self.centre, self.ndx = np.asarray(centre, float), ndx

    def _normal(self, xs):
        d = xs[:, :2] - self.centre
        r = np.linalg.norm(d, axis=1, keepdims=True)
        return r, d / r

    def evaluate(self, xs, us):
        return self._normal(xs)[0]

    def jacobians(self, xs, us):
        rx = np.zeros((len(xs), 1, self.ndx))
        rx[:, 0, :2] = self._normal(xs)[1]
        return rx, None

    def hessian_products(self, xs, us, mu):
        r, n = self._normal(xs)
        H = np.zeros((len(xs), self.ndx, self.ndx))
        H[:, :2, :2] = (mu / r)[:, :, None] * (np.eye(2) - n[:, :, None] * n[:, None, :])
        return H, None, None


def point_mass(dt=0.2):
    """A double integrator in the plane, state [position, velocity]."""
    A = np.eye(4) + dt * np.eye(4, k=2)
    B = np.vstack([0.5 * dt**2 * np.eye(2), dt * np.eye(2)])
    return LinearSystem(A, B, dt)


def speed_limit():
    """A pendulum whose rate may not exceed 2.5."""
    s = Pendulum()
    return Problem(
        s, [0.3, 0.0], 12, [ControlCost(1e-2)], [StateCost(s, [1.5, 0.0], [50.0, 5.0])],
        [StateBounds(s, [-np.inf, -2.5], [np.inf, 2.5])],
    )  # fmt: skip


def arrival():
    """A pendulum that must end at rest at a given angle."""
    s = Pendulum()
    return Problem(
        s, [0.3, 0.0], 12, [ControlCost(1.0)], [], [ResidualConstraint(StateResidual(s, [1.2, 0.0]), at="terminal")]
    )  # fmt: skip


def obstacle():
    """A point mass passes a disk that lies in its way, a little to one side."""
    s = point_mass()
    return Problem(
        s, [0.0, 0.0, 0.0, 0.0], 12, [ControlCost(0.1)],
        [StateCost(s, [2.0, 0.0, 0.0, 0.0], [100.0, 100.0, 10.0, 10.0])],
        [ResidualConstraint(DistanceResidual([1.0, -0.1]), 0.4, np.inf, at="all", name="obstacle")],
    )  # fmt: skip


def power():
    """A pendulum with a limited power u v: a residual of state and control."""
    s = Pendulum()
    return Problem(
        s, [0.3, 0.0], 12, [ControlCost(1e-2)], [StateCost(s, [1.5, 0.0], [50.0, 5.0])],
        [ResidualConstraint(TipResidual(), -np.inf, [np.inf, np.inf, 12.0], name="power")],
    )  # fmt: skip


def several():
    """Obstacle, velocity limits, arrival and control limits at once."""
    s = point_mass()
    return Problem(
        s, [0.0, 0.0, 0.0, 0.0], 14, [ControlCost(0.1)], [],
        [
            ControlBounds(-1.6, [1.2, 1.6]),
            ResidualConstraint(DistanceResidual([1.0, -0.1]), 0.4, np.inf, name="obstacle"),
            ResidualConstraint(StateResidual(s, [2.0, 0.0, 0.0, 0.0]), at="terminal", name="arrival"),
            StateBounds(s, [-np.inf, -np.inf, -1.05, -1.05], [np.inf, np.inf, 1.05, 1.05]),
        ],
    )  # fmt: skip


def circle():
    """The speed limit with the angle on a circle, and an angle that may not be passed."""
    s = CirclePendulum()
    at = s.embed(np.array([[0.3, 0.0], [1.5, 0.0], [0.0, 0.0]]))
    return Problem(
        s, at[0], 12, [ControlCost(1e-2)], [StateCost(s, at[1], [50.0, 5.0])],
        [StateBounds(s, [-np.inf, -2.5], [1.3, 2.5], at[2])],
    )  # fmt: skip


CASES = {
    "speed limit": speed_limit, "arrival": arrival, "obstacle": obstacle, "power": power, "several": several,
    "circle": circle,
}  # fmt: skip


class Condensed:
    """A problem as a function of its controls alone, u (N nu,), states by rollout."""

    def __init__(self, problem):
        self.problem = problem
        self.shape = problem.us_init.shape
        self._last = None

    def states(self, u):
        return self.problem.system.rollout(self.problem.x0, u.reshape(self.shape))

    def cost(self, u):
        return total_cost(self.problem, self.states(u), u.reshape(self.shape))

    def _sensitivities(self, u):
        """Expansion, and dx_t/du (N+1, ndx, N nu); those of the last u are kept."""
        if self._last is None or not np.array_equal(self._last[0], u):
            self._last = u.copy(), self._expand(u)
        return self._last[1]

    def _expand(self, u):
        N, nu = self.shape
        e = expand(self.problem, self.states(u), u.reshape(self.shape))
        S = np.zeros((N + 1, e.fx.shape[1], N * nu))
        for t in range(N):
            S[t + 1] = e.fx[t] @ S[t]
            S[t + 1][:, t * nu : (t + 1) * nu] += e.fu[t]
        return e, S

    def gradient(self, u):
        e, S = self._sensitivities(u)
        return e.lu.ravel() + np.einsum("ti,tij->j", e.lx, S)

    def _knots(self, constraint, u):
        """Knots it holds at by the documentation: not knot 0 if it is one of the state alone."""
        N, xs = self.shape[0], self.states(u)
        _, ru = constraint.residual.jacobians(xs[:1], u.reshape(self.shape)[:1])
        path = [] if constraint.at == "terminal" else list(range(1 if ru is None else 0, N))
        return path, ([] if constraint.at == "path" else [N])

    def values(self, constraint, u):
        """r, flat over knots in order."""
        xs, us = self.states(u), u.reshape(self.shape)
        path, last = self._knots(constraint, u)
        parts = [constraint.residual.evaluate(xs[path], us[path])] if path else []
        return np.concatenate([*parts, *([constraint.residual.evaluate(xs[-1:], None)] if last else [])]).ravel()

    def jacobian(self, constraint, u):
        """dr/du, rows as in `values`."""
        (N, nu), xs, us = self.shape, self.states(u), u.reshape(self.shape)
        _, S = self._sensitivities(u)
        rows = []
        path, last = self._knots(constraint, u)
        for t in [*path, *last]:
            rx, ru = constraint.residual.jacobians(xs[t : t + 1], us[t : t + 1] if t < N else None)
            J = rx[0] @ S[t]
            if ru is not None:
                J[:, t * nu : (t + 1) * nu] += ru[0]
            rows.append(J)
        return np.concatenate(rows)

    def limits(self, constraint):
        """lower and upper, flat."""
        count = len(self.values(constraint, np.zeros(np.prod(self.shape)))) // constraint.nr
        return tuple(np.broadcast_to(x, (count, constraint.nr)).ravel() for x in (constraint.lower, constraint.upper))

    def scipy(self, start) -> OptimizeResult:
        """Sequential quadratic programming on the controls, with exact gradients."""
        conditions = []
        for c in self.problem.residual_constraints:
            lower, upper = self.limits(c)
            same = lower == upper
            for kind, rows, sign, offset in (
                ("eq", same, 1.0, lower),
                ("ineq", ~same & np.isfinite(lower), 1.0, lower),
                ("ineq", ~same & np.isfinite(upper), -1.0, upper),
            ):
                if rows.any():
                    conditions.append({
                        "type": kind,
                        "fun": lambda u, c=c, r=rows, s=sign, o=offset: s * (self.values(c, u) - o)[r],
                        "jac": lambda u, c=c, r=rows, s=sign: s * self.jacobian(c, u)[r],
                    })  # fmt: skip
        limits = self.problem.control_limits
        bounds = None if limits is None else np.column_stack([x.ravel() for x in limits])
        return minimize(
            self.cost, start.ravel(), jac=self.gradient, bounds=bounds, constraints=conditions, method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 300},
        )  # fmt: skip
