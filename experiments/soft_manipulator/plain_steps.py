"""Integrators in plain Python, whole batches at once: some that `SoftRobotSystem` has not, beside one that it has.

Diagonally implicit Runge-Kutta methods, SDIRK2 [Alexander 1977] and TR-BDF2 [Hosea, Shampine 1996], end with the last
of their stages

    V_i = v + h sum_j A_ij a_j        Q_i = q + h sum_j A_ij V_j        r(Q_i, V_i, a_i, u) = 0,

the generalized-alpha method of spectral radius 0 at infinity [Chung, Hulbert 1993; Arnold, Bruels 2007], which carries
an acceleration along, is

    q+ = q + h v + h^2/2 b        v+ = v + h (a + 3 b)/4        a+ = (a + b)/2        r(q+, v+, b, u) = 0.

Both first derivatives are exact, by the implicit function theorem.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.soft_steps import GAMMA
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from trajopt.interfaces.stepwise import ClosedLoopRollouts
from trajopt.problem.extended_system import ExtendedSystem

W = 0.25 * np.sqrt(2.0)
ALPHA = "generalized_alpha"
TABLEAUS = {
    "sdirk2": ((GAMMA,), (1.0 - GAMMA, GAMMA)),
    "tr_bdf2": ((0.0,), (GAMMA, GAMMA), (W, W, GAMMA)),
}
PLAIN = ("tr_bdf2", ALPHA)
"""Those that `SoftRobotSystem` has not."""
MOST, HALVINGS, TOLERANCE = 40, 12, 1e-12
"""Steps of Newton's method, halvings of each, and the relative change of coordinates and velocities by the last."""


class Path(NamedTuple):
    """Values (K, n) and their derivatives (K, n, nz) along z = (state, u)."""

    value: np.ndarray
    along: np.ndarray

    def plus(self, factor: float, other: Path) -> Path:
        return Path(self.value + factor * other.value, self.along + factor * other.along)


class PlainSystem(ExtendedSystem):
    """A soft robot under one of these integrators; `inside` supplies the robot, dt, and the states that terms know."""

    remembers = "accelerations"

    def __init__(self, inside: SoftRobotSystem, integrator: str) -> None:
        super().__init__(inside, inside.nv if integrator == ALPHA else 0)
        self.robot, self.integrator = inside.robot, integrator

    def start(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The state at x = [q; v], with the acceleration that u gives, where that belongs to it."""
        if not self.memory:
            return x
        return np.concatenate([x, self.robot.forward_dynamics(*np.split(x, 2), u)])

    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state, one point or a batch."""
        found = np.hstack([path.value for path in self._motion(np.atleast_2d(x), np.atleast_2d(u))])
        return found if np.ndim(x) > 1 else found[0]

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx) under the controls us (N, nu)."""
        xs = [np.asarray(x0)]
        for u in us:
            xs.append(self.step(xs[-1], u))
        return np.array(xs)

    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """fx (N, nx, nx), fu (N, nx, nu)."""
        F = np.concatenate([path.along for path in self._motion(xs[: len(us)], us)], axis=1)
        return F[..., : self.nx].copy(), F[..., self.nx :].copy()

    def hessian_products(self, *_):
        """Not needed by iLQR."""
        raise NotImplementedError

    hessians = hessian_products
    _roll_out = ClosedLoopRollouts._roll_out  # step by step, as the system inside moves otherwise

    def _motion(self, xs: np.ndarray, us: np.ndarray) -> tuple[Path, ...]:
        n, h, unit = self.robot.nq, self.dt, np.eye(self.nx + self.nu)
        parts = [Path(xs[:, k : k + n], np.tile(unit[k : k + n], (len(xs), 1, 1))) for k in range(0, self.nx, n)]
        if self.integrator == ALPHA:
            q, v, a = parts
            last, speed = q.plus(h, v), v.plus(0.25 * h, a)
            b = stage(self.robot, last, speed, us, 0.5 * h * h, 0.75 * h)
            return last.plus(0.5 * h * h, b), speed.plus(0.75 * h, b), Path(0.5 * a.value, 0.5 * a.along).plus(0.5, b)
        return self._runge_kutta(*parts, us)

    def _runge_kutta(self, q: Path, v: Path, us: np.ndarray) -> tuple[Path, Path]:
        h, speeds, accelerations = self.dt, [], []
        place, speed = q, v
        for *before, own in TABLEAUS[self.integrator]:
            c, place, speed = h * own, q, v
            for factor, V, a in zip(before, speeds, accelerations, strict=True):
                place, speed = place.plus(h * factor, V), speed.plus(h * factor, a)
            place = place.plus(c, speed)
            a = stage(self.robot, place, speed, us, c * c, c)
            place, speed = place.plus(c * c, a), speed.plus(c, a)
            speeds.append(speed)
            accelerations.append(a)
        return place, speed


def stage(robot: SoftRobot, q: Path, v: Path, us: np.ndarray, cq: float, cv: float) -> Path:
    """a with r(q + cq a, v + cv a, a, u) = 0, by Newton's method, whose first step is with M + cq K + cv D and whose
    steps are halved until they decrease r; NaN where it does not converge."""
    a = np.full_like(q.value, np.nan)
    rows = np.flatnonzero(np.isfinite(np.hstack([q.value, v.value, us])).all(axis=1))
    z, linear, scale = np.zeros((len(rows), robot.nq)), cq * robot.model.stiffness + cv * robot.arrays.damping, None

    def state(z):
        return q.value[rows] + cq * z, v.value[rows] + cv * z, z, us[rows]

    for k in range(MOST):
        if not len(rows):
            break
        at = state(z)
        r, of_q, of_v, M, _ = _evaluate(robot, FIRST, *at)
        J = M + (linear if k == 0 else cq * of_q + cv * of_v)
        scale = 1.0 / np.diagonal(J, axis1=1, axis2=2) if scale is None else scale
        step = _solve(J, r)
        changes = [c * np.abs(step) / (1.0 + np.abs(x)) for c, x in zip((cq, cv), at[:2], strict=True)]
        done = np.max(changes, axis=(0, 2)) <= TOLERANCE
        a[rows[done]] = (z - step)[done]
        left = ~done & np.isfinite(step).all(axis=1)
        rows, z, r, step, scale = rows[left], z[left], r[left], step[left], scale[left]
        merit, length = (scale * r * r).sum(axis=1), np.ones((len(rows), 1))
        for _ in range(HALVINGS if len(rows) else 0):
            worse = (scale * _evaluate(robot, FORCES, *state(z - length * step))[0] ** 2).sum(axis=1) > merit
            if not worse.any():
                break
            length[worse] *= 0.5
        z = z - length * step
    return Path(a, _derivatives(robot, q, v, a, us, cq, cv))


def _derivatives(robot: SoftRobot, q: Path, v: Path, a: np.ndarray, us: np.ndarray, cq: float, cv: float) -> np.ndarray:
    """da/dz (K, n, nz)."""
    along, rows = np.full(q.along.shape, np.nan), np.flatnonzero(np.isfinite(a).all(axis=1))
    if len(rows):
        at = q.value + cq * a, v.value + cv * a, a, us
        _, of_q, of_v, M, B = _evaluate(robot, FIRST, *(x[rows] for x in at))
        right = of_q @ q.along[rows] + of_v @ v.along[rows]
        right[..., right.shape[2] - us.shape[1] :] -= B
        along[rows] = -_solve(M + cq * of_q + cv * of_v, right)
    return along


def _evaluate(robot: SoftRobot, level: int, *state: np.ndarray) -> list[np.ndarray]:
    """r, dr/dq, dr/dv, M and B at q, v, a, u (K, .), which may be where `SoftRobot.residual` refuses to go."""
    n, (q, v, a, u) = robot.nq, state
    states = np.zeros((len(q), 4 * n + robot.nu + int(robot.arrays.counts[1])))
    states[:, : 3 * n], states[:, 4 * n : 4 * n + robot.nu] = np.hstack([q, v, a]), u
    return robot._residual(level, states)[:5]


def _solve(J: np.ndarray, r: np.ndarray) -> np.ndarray:
    """J^-1 r for r (K, n) or (K, n, m); NaN where J is singular, as at states of candidates that run away."""
    right = r if r.ndim > 2 else r[..., None]
    with np.errstate(all="ignore"):
        regular = np.isfinite(np.linalg.slogdet(J)[1])
    out = np.full(right.shape, np.nan)
    out[regular] = np.linalg.solve(J[regular], right[regular])
    return out.reshape(r.shape)
