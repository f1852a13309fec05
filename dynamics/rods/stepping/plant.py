"""A soft robot with its inputs as functions of time, or of its state, as integrated by the methods of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dynamics.rods.algorithms.closed_chains import check_closed, evaluate_chains
from dynamics.rods.algorithms.constrained_dynamics import ConstrainedMotion, constrained_motion
from dynamics.rods.kinematics.center_lines import check_turns, turned_far
from dynamics.rods.kinematics.charts import within_limit
from dynamics.rods.model.arrays import MASS_MATRIX
from dynamics.rods.robot.reactions import PrescribedMotion, at_time
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.newton import CONVERGED, TOO_MANY, Newton, NewtonResult

State = tuple[np.ndarray, np.ndarray]
"""Coordinates and velocities q, v (n,)."""
Run = tuple[np.ndarray, np.ndarray, np.ndarray, int, int, int, np.ndarray, dict[str, np.ndarray]]
"""Result of a method: the first fields of a `Simulation`."""
Report = Callable[[float], object]
"""A function that is called with the times that a method reaches."""
Policy = Callable[[float, np.ndarray], np.ndarray]
"""Controls u (nu,) as a function of the time and of the state x = [q; v]."""
STEP = 1e-7
"""Step of the finite differences of policies, relative to 1 + the magnitude of the state."""


class RodPlant(NamedTuple):
    """A robot with its inputs: u (nu) and external wrenches (6 W) as a function of time, prescribed joints, 1 / T of
    Baumgarte's method, joints that may change their chart (J, 6), and a policy for u, or None."""

    robot: SoftRobot
    inputs: Callable[[float], np.ndarray]
    prescribed: PrescribedMotion
    rate: float
    turns: np.ndarray
    policy: Policy | None = None

    @property
    def constrained(self) -> bool:
        """True if chains are closed or joints are prescribed."""
        return self.robot.model.constraint_count > 0 or len(self.prescribed.coordinates) > 0

    def states(self, t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """States (K, .) in the layout of `residual_kernel` for q, v (K, n), with prescribed coordinates overwritten."""
        n, inputs, p = self.robot.nq, self.inputs(t), self.prescribed.coordinates
        states = np.zeros((len(q), 4 * n + self.robot.nu + int(self.robot.arrays.counts[1])))
        states[:, :n], states[:, n : 2 * n], states[:, 4 * n : 4 * n + len(inputs)] = q, v, inputs
        if len(p):
            values = self.prescribed.values(t)
            for k in range(3):
                states[:, k * n + p] = values[k]
        if self.policy is not None:
            states[:, 4 * n : 4 * n + self.robot.nu] = [self.policy(t, x) for x in states[:, : 2 * n]]
        return states

    def controls(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Controls u (T, nu) along a motion q, v (T, n)."""
        if self.policy is not None:
            return np.array([self.policy(s, x) for s, x in zip(t.tolist(), np.hstack([q, v]), strict=True)])
        return np.array([self.inputs(s) for s in t.tolist()])[:, : self.robot.nu]

    def gain(self, t: float, x: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Derivatives (nu, D) of the policy at x = [q; v] along directions (2 n, D), by finite differences."""
        assert self.policy is not None
        u, columns = self.policy(t, x), np.empty((self.robot.nu, directions.shape[1]))
        for j, d in enumerate(directions.T):
            step = STEP / max(np.abs(d / (1.0 + np.abs(x))).max(), 1e-300)
            columns[:, j] = (self.policy(t, x + step * d) - u) / step
        return columns

    def motion(self, level: int, t: float, q: np.ndarray, v: np.ndarray) -> ConstrainedMotion:
        """Accelerations and multipliers, with derivatives as the level goes, at q, v (K, n) and a time."""
        return self._solve(level, self.states(t, q, v))

    def _solve(self, level: int, states: np.ndarray) -> ConstrainedMotion:
        return constrained_motion(self.robot.model, self.robot.arrays, level, states, self.prescribed.free, self.rate)

    def start(self, q: np.ndarray, v: np.ndarray) -> State:
        """Initial q, v (n,) with the prescribed coordinates at t = 0, in a chart within the limit.  ValueError where
        chains are open, about to open, or singular."""
        n, state = self.robot.nq, self.states(0.0, q[None], v[None])[0]
        q, v = self.in_chart(state[: 2 * n].reshape(2, n).copy())
        check_closed(self.robot.model, q, v, ("q0", "v0"), self.prescribed.free)
        return q, v

    def in_chart(self, state: np.ndarray) -> np.ndarray:
        """q, v or q, v, a (., n), with joints beyond the limit in their other chart; the same array if there are
        none."""
        return within_limit(self.turns, self.robot.nq, state) if len(self.turns) else state

    def reactions(self, t: np.ndarray, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Multipliers (T, G) and forces of prescribed joints along a motion, q, v (T, n)."""
        if not self.constrained:
            return np.zeros((len(t), 0)), {}
        states = [self.states(float(t[k]), q[k : k + 1], v[k : k + 1]) for k in range(len(t))]
        motion = self._solve(MASS_MATRIX, np.concatenate(states))
        return motion.multipliers.copy(), self.prescribed.of_links(motion.forces)


def finite(plant: RodPlant, t: float, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x; where it is not finite, from coordinates q (n,), RuntimeError, or ValueError of a start that turns too far."""
    if not np.isfinite(x).all():
        if t == 0.0:
            check_turns(plant.robot.model, q, "q0")
        raise failure(plant, f"t = {t:.6g} s: the motion is not finite", q)
    return x


def failure(plant: RodPlant, what: str, q: np.ndarray) -> RuntimeError:
    """Of a simulation at this time for this reason, the last coordinates being q (n,)."""
    return RuntimeError(f"simulate: failed at {what}{turned_far(plant.robot.model, q)}")


# --------------------------------------------------------------------------------------------
# Controls that depend on the state, u = policy(t, x): inside an implicit step, or sampled and held.
#
# Inside a step of unknown z, x = x0 + c z, policy and equation of motion hold together.  Newton's method for u has
#
#     (1 - u_x x_u) du = policy(t, x(u)) - u,        x_u = c z_u,    J z_u = B
#
# with J and B of the step, bordered where chains are closed, and u_x x_u by differences along the columns of x_u.

MAX_ROUNDS = 30
SLOW = 0.1
"""Derivatives are renewed where a round leaves more than this share of what the one before did."""


def as_policy(policy: Callable[..., Any], nu: int) -> Policy:
    """A function of t and x that returns u (nu,); TypeError for what is no function, ValueError, as soon as it is
    asked, for one that returns something else."""
    if not callable(policy):
        raise TypeError(f"policy: got {type(policy).__name__}, expected a function of t and x = [q; v]")
    return lambda t, x: at_time("policy", t, policy(t, x), (nu,)).ravel()


# ------------------------------------------------------------------------------------------------ inside a step
class ClosedLoop(Newton):
    """Newton's method for implicit steps of a plant whose controls a policy asks for, from those at the step before, at
    first at q, v (n,)."""

    def __init__(self, plant: RodPlant, q: np.ndarray, v: np.ndarray) -> None:
        super().__init__(plant.robot, plant.prescribed.free)
        self.plant, self.u = plant, _asked(plant, 0.0, np.array([q, v]))

    def settle(
        self, t: float, base: np.ndarray, c: np.ndarray, z: np.ndarray, tolerance: float, *options: Any
    ) -> NewtonResult:
        """As `solve`, at a time, with the controls that the policy asks for at the states base + c z (3, n) that it
        finds.  Ends when what is left changes q and v by no more than the tolerance, relative to 1 + their size."""
        plant, nu, counts = self.plant, self.plant.robot.nu, np.zeros(2, int)
        inputs, du, before, along = np.append(self.u, plant.inputs(t)[nu:]), np.zeros(nu), np.inf, None
        for _ in range(MAX_ROUNDS):
            result = self.solve(base, c, inputs, z, tolerance, *options)
            counts += result.evaluations, result.jacobians
            if result.status != CONVERGED:  # half as far from controls that had a solution
                du *= 0.5
                inputs[:nu] -= du
                if not du.any():
                    break
                continue
            z, state = result.z, base + c[:, None] * result.z
            missed = _asked(plant, t, state) - inputs[:nu]
            if along is None:
                along = _along_controls(plant, state, c, inputs, result.multipliers)
                loop = np.eye(nu) - plant.gain(t, state[:2].ravel(), along)
            du = np.linalg.lstsq(loop, missed, rcond=None)[0]
            left = (np.abs(along @ du) / (1.0 + np.abs(state[:2].ravel()))).max()
            if left <= tolerance:
                self.u = inputs[:nu] + du
                break
            inputs[:nu] += du
            along, before = along if left < SLOW * before else None, left
        else:
            result = result._replace(status=TOO_MANY)
        return result._replace(evaluations=int(counts[0]), jacobians=int(counts[1]))


def _asked(plant: RodPlant, t: float, state: np.ndarray) -> np.ndarray:
    """What the policy asks for at q, v, ... (., n)."""
    assert plant.policy is not None
    return plant.policy(t, state[:2].ravel())


def _along_controls(plant: RodPlant, state: np.ndarray, c: np.ndarray, inputs: np.ndarray, multipliers) -> np.ndarray:
    """x_u (2 n, nu) of a step that ends at q, v, a (3, n)."""
    robot, free, n = plant.robot, plant.prescribed.free, plant.robot.nq
    u, wrenches = inputs[: robot.nu], inputs[robot.nu :].reshape(-1, 6)
    d = robot.residual_derivatives(state[0], state[1], state[2], u, wrenches, multipliers)
    A = evaluate_chains(robot.model, MASS_MATRIX, state[0], state[1])[1].A[:, free]
    J = (c[0] * d.dr_dq + c[1] * d.dr_dv + c[2] * d.M)[np.ix_(free, free)]
    K, B = np.block([[J, -A.T], [A, np.zeros((len(A), len(A)))]]), np.vstack([d.B[free], np.zeros((len(A), robot.nu))])
    z = np.zeros((n, robot.nu))
    z[free] = np.linalg.lstsq(K, B, rcond=None)[0][: len(free)]
    return np.vstack([c[0] * z, c[1] * z])


# ------------------------------------------------------------------------------------------------ sampled and held
def held_motion(
    method: Callable[[RodPlant, float, State, Report], Run],
    plant: RodPlant,
    policy: Policy,
    period: float,
    duration: float,
    start: State,
    report: Report,
) -> tuple[Run, np.ndarray]:
    """The motion by a method, in pieces of a period each, through which u is what the policy says where they begin; and
    u (T, nu), where pieces meet that of the later one."""
    runs, controls = [], []
    for k in range(int(np.ceil(duration / period * (1.0 - 1e-12)))):
        begin, u = k * period, policy(k * period, np.concatenate(start))
        try:
            run = method(_later(plant, begin, u), min(period, duration - begin), start, partial(_report, report, begin))
        except RuntimeError as error:
            raise RuntimeError(f"{error} (t from the sample at {begin:.6g} s on)") from None
        start = run[1][-1], run[2][-1]
        runs.append((begin + run[0], *run[1:]))
        controls.append(np.tile(u, (len(run[0]), 1)))
    return _joined(runs), _rows(controls)


def _report(report: Report, begin: float, t: float) -> None:
    report(begin + t)


def _later(plant: RodPlant, begin: float, u: np.ndarray) -> RodPlant:
    """The plant from a time on, with constant controls."""
    inputs, values, nu = plant.inputs, plant.prescribed.values, len(u)
    return plant._replace(
        inputs=lambda t: np.concatenate([u, inputs(begin + t)[nu:]]),
        prescribed=plant.prescribed._replace(values=lambda t: values(begin + t)),
    )


def _rows(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """One behind the other; the last row of each but the last gives way to the first of the next."""
    return np.concatenate([*(rows[:-1] for rows in pieces[:-1]), pieces[-1]])


def _joined(runs: list[Run]) -> Run:
    t, q, v, steps, evaluations, jacobians, multipliers, forces = zip(*runs, strict=True)
    joints = {name: _rows([own[name] for own in forces]) for name in forces[0]}
    counts = sum(steps), sum(evaluations), sum(jacobians)
    return _rows(t), _rows(q), _rows(v), *counts, _rows(multipliers), joints
