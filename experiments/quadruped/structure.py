"""What the structure of four standing legs saves: joints eliminated leg by leg, and rollouts that follow the base.

    python -m experiments.quadruped.structure [--knots N] [--repeats N] [--out DIR]

Contact dynamics solves M a + bias = tau + J'f, J a + x = 0 by the factors of M (18 x 18) and of J M^-1 J' (12 x 12).
Steps and rollouts of such a robot eliminate the legs instead (`dynamics.contacts.elimination`), which leaves a
symmetric system of six.  Where the accelerations of the base are the controls, rollouts need the kinematics of the legs
alone; torques come from inverse dynamics afterwards, knots in lanes (`following`).

Compared, one thread, on the problem of `parts`, one step into its solution, in turns, least of all repeats:

    accelerations               by contact dynamics and by elimination, knots in lanes, results left in the lanes
    rollout of 8 step lengths   by contact dynamics, by elimination, following the base (6 rows of gains, no costs)
    torques                     the least that agree with given accelerations: what following needs once besides
    iLQR                        a whole iteration as it is, for shares, and one whose rollouts do not eliminate

Measured, over runs on a busy machine: by elimination accelerations are 1.7 times as fast and rollouts 1.6 times, and an
iteration of iLQR takes 5 to 10 % less time.  Rollouts that follow the base are 2.4 to 3.4 times as fast, but beyond
elimination that is about 7 % of an iteration, torques counted and gains of the base not, and they are for three feet
and more only, near the optimum: not worth a path of their own.  First derivatives by elimination were 1.5 to 1.6 times
as fast when they were tried, 5 % of an iteration; they are not built.

Writes DIR/structure.json: least microseconds per knot of each.
"""

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import dynamics
import trajopt
from dynamics.contacts import dynamics as library
from dynamics.simd import LANES, aligned_zeros, launch
from dynamics.systems.discrete_system import ClosedLoops
from experiments.harness import in_turns, table, threads
from experiments.one_iteration import iterations
from experiments.quadruped.following import drive_accelerations, drive_following, drive_torques, following_numbers
from experiments.quadruped.parts import one_step_in, shift_problem
from experiments.quadruped.timing import timing
from trajopt.solvers.iterate import ALPHAS

ITERATION = "iLQR"
PLAIN = f"{ITERATION}, rollouts by contact dynamics"


class Iterate(NamedTuple):
    """A trajectory of the shift problem with the gains of its backward pass, for torques and for the base."""

    problem: trajopt.Problem
    xs: np.ndarray  # (N+1, nx)
    us: np.ndarray  # (N, 12)
    k: np.ndarray
    K: np.ndarray
    a: np.ndarray  # (N, nv)
    k_base: np.ndarray  # (N, 6), of the base's accelerations a[:, :6]
    K_base: np.ndarray

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, v, tau at the knots."""
        system: Any = self.problem.system
        return *split(system.model, self.xs[:-1]), full_torques(self.us)


def split(model, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q and v of states xs (K, nx)."""
    return np.ascontiguousarray(xs[:, : model.nq]), np.ascontiguousarray(xs[:, model.nq :])


def full_torques(us: np.ndarray) -> np.ndarray:
    """tau (K, nv) of the legs' torques us (K, 12)."""
    return np.hstack([np.zeros((len(us), 6)), us])


def iterate_at(horizon: int) -> Iterate:
    """One iteration into the solution of the shift problem."""
    problem = shift_problem(horizon)
    system: Any = problem.system
    us, xs, *_, found = one_step_in(problem)
    q, v = split(system.model, xs[:-1])
    a = dynamics.contact_dynamics(system.model, q, v, full_torques(us), system.contacts).a
    fx, fu = (F[:, system.nv : system.nv + 6] / system.dt for F in system.linearize(xs, us))
    k_base, K_base = np.einsum("tij,tj->ti", fu, found.k), fx + fu @ found.K
    K_base[:, :, system.nv : system.nv + 6] -= np.eye(6) / system.dt
    return Iterate(problem, xs, us, np.array(found.k), np.array(found.K), a, k_base, K_base)


# ------------------------------------------------------------------------------------------------ calls
def pointwise_calls(iterate: Iterate) -> dict[str, Callable[[], None]]:
    """Calls over all knots in lanes by "quantity, way", which leave their results in the lanes."""
    system: Any = iterate.problem.system
    model, feet, legs = system.model, system.contacts, system.legs
    q, v, tau = iterate.points()
    N, none = len(q), np.empty((0, 1))
    own = following_numbers(model, feet, legs)
    drivers = {
        "accelerations, elimination": (drive_accelerations, own, legs, tau),
        "torques, inverse dynamics": (drive_torques, own, legs, iterate.a, none),
    }
    return {
        "accelerations, contact dynamics": lambda: library._drive(model, feet.arrays, q, v, tau, none, none, none)
    } | {
        name: lambda drive=drive, numbers=numbers, held=held, rest=rest: launch(
            drive, N, numbers, model.block, held, q, v, *rest
        )
        for name, (drive, numbers, held, *rest) in drivers.items()
    }


def by_contact_dynamics(system: dynamics.RigidBodySystem) -> dynamics.RigidBodySystem:
    """The same system with steps and rollouts that do not eliminate."""
    other = copy.copy(system)
    other.motion_plant = system.plant
    return other


class Rollouts:
    """Closed loops of 8 step lengths from the iterate, in each way, with the arrays that they fill."""

    def __init__(self, iterate: Iterate):
        system: Any = iterate.problem.system
        self.iterate, self.system, self.plain = iterate, system, by_contact_dynamics(system)
        N, chunks = len(iterate.us), -(-len(ALPHAS) // LANES)
        self.alphas = aligned_zeros(chunks, LANES)
        self.alphas.reshape(-1)[: len(ALPHAS)] = ALPHAS
        self.X = aligned_zeros(chunks, N + 1, system.nx, LANES)
        self.U = {nu: aligned_zeros(chunks, N, nu, LANES) for nu in (6, 12)}

    def contact_dynamics(self) -> None:
        """Torques as controls, without elimination."""
        self._roll(self.plain)

    def elimination(self) -> None:
        """The library's."""
        self._roll(self.system)

    def following(self) -> None:
        """The base's accelerations as controls."""
        a_base = np.ascontiguousarray(self.iterate.a[:, :6])
        self._follow(self._loops(a_base, self.iterate.k_base, self.iterate.K_base))

    def follow(self, a_base: np.ndarray) -> np.ndarray:
        """The trajectory (N+1, nx) that follows accelerations (N, 6) of the base, without feedback."""
        loops = self._loops(a_base, a_base, np.empty((len(a_base), 0, self.system.ndx)))
        self._follow(loops)
        return self.trajectory(0)

    def trajectory(self, i: int) -> np.ndarray:
        """States (N+1, nx) of the i-th step length."""
        return np.ascontiguousarray(self.X[i // LANES, :, :, i % LANES])

    def _roll(self, system: dynamics.RigidBodySystem) -> None:
        loops = self._loops(self.iterate.us, self.iterate.k, self.iterate.K)
        system.roll(loops, 0, len(loops.us), self.X, self.U[12])

    def _follow(self, loops: ClosedLoops) -> None:
        model, legs = self.system.model, self.system.legs
        size, numbers = loops.alphas.size, following_numbers(model, self.system.contacts, legs)
        launch(drive_following, size, numbers, model.block, legs, self.system.dt, loops, self.X, self.U[6])

    def _loops(self, us: np.ndarray, k: np.ndarray, K: np.ndarray) -> ClosedLoops:
        return ClosedLoops(self.iterate.problem.x0, self.iterate.xs, us, k, K, self.alphas, None, None)


def calls(iterate: Iterate) -> dict[str, Callable[[], object]]:
    """Everything that is timed, by name."""
    rollouts = Rollouts(iterate)
    plain = replace(iterate.problem, system=rollouts.plain)
    return {
        **pointwise_calls(iterate),
        "rollout, contact dynamics": rollouts.contact_dynamics,
        "rollout, elimination": rollouts.elimination,
        "rollout, following the base": rollouts.following,
        ITERATION: iterations(iterate.problem, iterate.us)[ITERATION],
        PLAIN: iterations(plain, iterate.us)[ITERATION],
    }


# ------------------------------------------------------------------------------------------------ measuring
def measure(horizon: int, repeats: int) -> dict[str, float]:
    """Least microseconds per knot of each call on one thread, all taken in turns."""
    timed = calls(iterate_at(horizon))
    with threads(1):
        return {name: 1e6 * min(seconds) / horizon for name, seconds in in_turns(timed, repeats).items()}


def times_table(times: dict[str, float]) -> Table:
    """A row a call: time, how many times as fast as contact dynamics, and share of an iteration."""

    def row(name: str, microseconds: float) -> tuple:
        library_time = times.get(f"{name.split(',')[0]}, contact dynamics")
        ratio = f"{library_time / microseconds:.2f}" if library_time else ""
        return name, f"{microseconds:.3f}", ratio, f"{100 * microseconds / times[ITERATION]:.1f} %"

    headings = "us per knot", "times as fast", "share of an iteration"
    title = "standing quadruped, one thread, least of all repeats"
    return table(title, ("",), headings, [[row(*item) for item in times.items()]])


main = timing("structure", __doc__, measure, times_table, repeats=300)

if __name__ == "__main__":
    sys.exit(main())
