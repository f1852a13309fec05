"""One time step of a robot, for one knot per lane.

    explicit Euler        q+ = q (+) h v               v+ = v + h a
    semi-implicit Euler   q+ = q (+) h v+              v+ = v + h a
    RK4                   Munthe-Kaas form, two brackets keep order 4 on SE(3), SO(3), SE(2):

        O2 = h/2 v                                  v2 = v + h/2 a1
        O3 = h/2 v + h^2/4 a1 + h^3/16 [v, a1]      v3 = v + h/2 a2
        O4 = h v + h^2/2 a2                         v4 = v + h a3            a_i = a(q (+) O_i, v_i, u)
        O  = h v + h^2/6 (a1 + a2 + a3) + h^3/12 [v, a3]
        q+ = q (+) O                                v+ = v + h/6 (a1 + 2 a2 + 2 a3 + a4)

What a robot needs of this is compiled and no more: the types of the integrator and of the contacts of a `Plant` select
it, and `manifold`, whether some joint is not Euclidean, by being None or not.  So an ordinary arm under Euler compiles
neither groups nor stages nor constraints.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.articulated_body import forward_dynamics_kernel
from dynamics.contacts.contact_set import ContactArrays, LoopArrays
from dynamics.contacts.dynamics import contact_dynamics_kernel
from dynamics.model.actuation import joint_torques
from dynamics.model.model import RigidBodyModel
from dynamics.simd import fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_scaled, combine, scale_into
from dynamics.spatial.tangent import add_bracket_rows, integrate_configuration
from dynamics.systems.frame_forces import FrameActuators, add_frame_forces

INTEGRATORS = ("semi_implicit_euler", "explicit_euler", "rk4")


class Euler(NamedTuple):
    """Either Euler step of joints that are all Euclidean."""

    h: float
    semi: bool  # semi-implicit


class LieEuler(NamedTuple):
    """Either Euler step of joints of any kind."""

    h: float
    semi: bool


class RungeKutta(NamedTuple):
    """RK4."""

    h: float


class TimedEuler(NamedTuple):
    """Either Euler step of joints of any kind, for as long as a number behind the controls says."""

    semi: bool


class TimedRungeKutta(NamedTuple):
    """RK4, likewise."""

    order: int  # 4


class Plant(NamedTuple):
    """What kernels know of a system besides the robot."""

    contacts: ContactArrays | LoopArrays | None  # None: touches nothing
    B: np.ndarray  # (nv, nu), skip: `Actuation`
    skip: int
    manifold: bool | None  # None: all joints are Euclidean
    integrator: Euler | LieEuler | RungeKutta | TimedEuler | TimedRungeKutta
    actuators: FrameActuators | None  # those on frames, whose forces depend on the configuration


def integrator_of(name: str, manifold: bool, h: float) -> Euler | LieEuler | RungeKutta:
    """Of `INTEGRATORS`."""
    if name == "rk4":
        return RungeKutta(h)
    return (LieEuler if manifold else Euler)(h, name == "semi_implicit_euler")


def timed_integrator_of(name: str) -> TimedEuler | TimedRungeKutta:
    """Of `INTEGRATORS`, for steps of any duration."""
    return TimedRungeKutta(4) if name == "rk4" else TimedEuler(name == "semi_implicit_euler")


@helper
def _fixed(integrator, nu, u):
    return integrator.h


@helper
def _asked(integrator, nu, u):
    return load(u, nu)


duration = by_type(
    "integrator",
    {Euler: _fixed, LieEuler: _fixed, RungeKutta: _fixed, TimedEuler: _asked, TimedRungeKutta: _asked},
)
"""h of a step, (integrator, nu, u): u are nu controls, and behind them what they take where that is free."""


@helper
def _none(integrator):
    return 0


@helper
def _one(integrator):
    return 1


durations_behind = by_type(
    "integrator", {Euler: _none, LieEuler: _none, RungeKutta: _none, TimedEuler: _one, TimedRungeKutta: _one}
)
"""How many numbers behind the controls are durations."""


@helper
def _solve_free(m, contacts, q, v, d, a):
    w = d.space
    forward_dynamics_kernel(m, q, v, d.tau, w.zeros, None, w.body, w.dof, w.art, w.elim, a)


@helper
def _solve_held(m, contacts, q, v, d, a):
    d.space.Y[:] = 0.0
    contact_dynamics_kernel(m, contacts, q, v, d.tau, d.space)
    scale_into(m.dof_body.size, a, 1.0, d.a)


_solve = by_type("contacts", {None: _solve_free, ContactArrays: _solve_held, LoopArrays: _solve_held})


@shared_kernel
def acceleration(m, p, q, v, u, d, a):
    """a(q, v, u) with scratch d (`carve_dynamics`), whose d.a it may be."""
    joint_torques(m, p.B, p.skip, q, v, u, d.tau)
    add_frame_forces(m, p.actuators, q, u, d)
    _solve(m, p.contacts, q, v, d, a)


@kernel
def stage_increment(m, stage, h, v, acc, O):
    """O_2, O_3, O_4 for stage 1, 2, 3 and the whole increment O for stage 4; acc (4 nv) holds a1 ... a4."""
    n = m.dof_body.size
    a1, a2, a3 = acc[:n], acc[n : 2 * n], acc[2 * n : 3 * n]
    scale_into(n, O, 0.5 * h if stage <= 2 else h, v)
    if stage == 2:
        add_scaled(n, O, h * h / 4, a1)
        add_bracket_rows(m, v, h * h * h / 16, a1, 0, 1, O, 0, 1, 1)
    elif stage == 3:
        add_scaled(n, O, h * h / 2, a2)
    elif stage == 4:
        add_scaled(n, O, h * h / 6, a1)
        add_scaled(n, O, h * h / 6, a2)
        add_scaled(n, O, h * h / 6, a3)
        add_bracket_rows(m, v, h * h * h / 12, a3, 0, 1, O, 0, 1, 1)


@helper
def stage_factor(stage, h):
    """v_i = v + factor a_(i-1) for stage i - 1 = 1, 2, 3."""
    return h if stage == 3 else 0.5 * h


@helper
def move(m, manifold, q, dq, q_out):
    """q_out = q (+) dq"""
    if manifold is None:
        combine(q.shape[0], q_out, q, 1.0, dq)
    else:
        integrate_configuration(m, q, dq, q_out)


@kernel
def _euler_step(m, p, integrator, q, v, u, d, work, q_next, v_next):
    n, h = m.dof_body.size, duration(integrator, p.B.shape[1], u)
    acceleration(m, p, q, v, u, d, d.a)
    combine(n, v_next, v, h, d.a)
    scale_into(n, work, h, v_next if integrator.semi else v)
    move(m, p.manifold, q, work, q_next)


@kernel
def _runge_kutta_step(m, p, integrator, q, v, u, d, work, q_next, v_next):
    n, h = m.dof_body.size, duration(integrator, p.B.shape[1], u)
    O, acc, v_i, q_i = work[:n], work[n : 5 * n], work[5 * n : 6 * n], work[6 * n :]
    acceleration(m, p, q, v, u, d, acc[:n])
    for stage in range(1, 4):
        stage_increment(m, stage, h, v, acc, O)
        integrate_configuration(m, q, O, q_i)
        combine(n, v_i, v, stage_factor(stage, h), acc[(stage - 1) * n : stage * n])
        acceleration(m, p, q_i, v_i, u, d, acc[stage * n : (stage + 1) * n])
    stage_increment(m, 4, h, v, acc, O)
    for i in range(n):
        s = load(acc, i) + load(acc, 3 * n + i) + 2.0 * (load(acc, n + i) + load(acc, 2 * n + i))
        store(v_next, i, fma(splat(v, h / 6), s, load(v, i)))
    integrate_configuration(m, q, O, q_next)


_step = by_type(
    "integrator",
    {
        Euler: _euler_step, LieEuler: _euler_step, RungeKutta: _runge_kutta_step, TimedEuler: _euler_step,
        TimedRungeKutta: _runge_kutta_step,
    },
)  # fmt: skip


@shared_kernel
def step_kernel(m, p, q, v, u, d, work, q_next, v_next):
    """(q+, v+) from (q, v, u) of the `Plant` p.

    d: `carve_dynamics`; work (nq + 6 nv); q_next, v_next apart from q, v."""
    _step(m, p, p.integrator, q, v, u, d, work, q_next, v_next)


def step_numbers(model: RigidBodyModel) -> int:
    """Size of `work` in `step_kernel`."""
    return model.nq + 6 * model.nv
