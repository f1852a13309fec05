"""What the structure of four standing legs would save: joints eliminated leg by leg, and rollouts that follow the base.

    python -m experiments.quadruped.structure [--knots N] [--repeats N] [--out DIR]

Contact dynamics solves M a + bias = tau + J'f, J a + x = 0 by the factors of M (18 x 18) and of J M^-1 J' (12 x 12).
Each leg has three joints and holds a point, so that its block of J is square, and without either factor

    a_l = -A_l a_b - r_l        A_l = J_l^-1 L_l        r_l = J_l^-1 x_l        S'(ID(q, v, a) - tau) = 0,  S = [1; -A]

leaves a symmetric system of six (`elimination`), and so for every column of the first derivatives
(`eliminated_derivatives`).  Where the accelerations of the base are the controls, rollouts need the kinematics of the
legs alone; torques come from inverse dynamics afterwards, knots in lanes (`following`).

Compared, one thread, on the problem of `parts`, one step into its solution, in turns, least of all repeats:

    accelerations, derivatives      by contact dynamics and by elimination, knots in lanes, results left in the lanes
    rollout of 8 step lengths       by contact dynamics, by elimination, following the base (6 rows of gains, no costs)
    torques                         the least that agree with given accelerations: what following needs once besides
    iLQR                            a whole iteration as it is, for shares, and one whose rollouts eliminate

Measured, over runs on a busy machine: by elimination accelerations are 1.7 to 2.0 times as fast, first derivatives 1.5
to 1.6 times, rollouts 1.7 to 2.0 times.  An iteration of iLQR with these rollouts takes an eighth less time, and the
derivatives would save another 5 %: eliminating legs is worth building.  Rollouts that follow the base are 3.5 to 4.5
times as fast, but beyond elimination that is about 6 % of an iteration, torques counted and gains of the base
not, and they are for three feet and more only, near the optimum: not worth a path of their own.

Writes DIR/structure.json: least microseconds per knot of each.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import dynamics
import trajopt
from dynamics.contacts import dynamics as library
from dynamics.contacts.derivatives import carve_first_order, contact_first_order, first_order_numbers
from dynamics.contacts.dynamics import carve_workspace, workspace_numbers
from dynamics.kernel_model import kernel_model
from dynamics.simd import LANES, aligned_zeros, driver, gather_state, launch
from dynamics.systems.robot_system import ClosedLoops
from experiments.one_iteration import iterations
from experiments.quadruped.eliminated_derivatives import derivative_numbers, drive_eliminated_derivatives
from experiments.quadruped.elimination import drive_eliminated, elimination_numbers
from experiments.quadruped.following import drive_rollouts, drive_torques, rollout_numbers
from experiments.quadruped.parts import KNOTS, shift_problem, threads
from trajopt.rollout import ALPHAS
from trajopt.solvers.forward import Curvature
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.solve import pose
from trajopt.timing import Stopwatch

REPEATS = 300
ITERATION = "iLQR"


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
    us = trajopt.ILQR(max_iterations=1).solve(problem).us
    xs = system.rollout(problem.x0, us)
    posed = pose(problem, None, LoopOptions(), Curvature(), problem.objective)
    model = posed.expand(posed.start(us, None, Stopwatch()), Stopwatch())
    found = posed.sweep(model, 0.0, Stopwatch())
    q, v = split(system.model, xs[:-1])
    a = dynamics.contact_dynamics(system.model, q, v, full_torques(us), system.contacts).a
    fx, fu = (F[:, system.nv : system.nv + 6] / system.dt for F in system.linearize(xs, us))
    k_base, K_base = np.einsum("tij,tj->ti", fu, found.k), fx + fu @ found.K
    K_base[:, :, system.nv : system.nv + 6] -= np.eye(6) / system.dt
    return Iterate(problem, xs, us, np.array(found.k), np.array(found.K), a, k_base, K_base)


# ------------------------------------------------------------------------------------------------ calls
@driver
def _drive_derivatives(first, last, work, block, contacts, q, v, tau):
    """First derivatives as `linearize` takes them, left in the lanes."""
    m = kernel_model(block)
    w, rest = carve_workspace(m, contacts.body.size, work)
    d, rest = carve_first_order(m, contacts.body.size, rest)
    for c in range(first, last):
        q_, v_, tau_, _ = gather_state(q, v, tau, c * LANES, rest)
        contact_first_order(m, contacts, q_, v_, tau_, w, d, False)


def pointwise_calls(iterate: Iterate) -> dict[str, Callable[[], None]]:
    """Calls over all knots in lanes by "quantity, way", which leave their results in the lanes."""
    system: Any = iterate.problem.system
    model, feet = system.model, system.contacts
    q, v, tau = iterate.points()
    N, state, none = len(q), model.nq + 2 * model.nv, np.empty((0, 1))
    size = workspace_numbers(model, feet) + state
    own = elimination_numbers(model, feet) + state
    drivers = {
        "accelerations, contact dynamics": (library._drive, size, tau, none, none, none),
        "accelerations, elimination": (drive_eliminated, own, tau, none, none),
        "derivatives, contact dynamics": (_drive_derivatives, size + first_order_numbers(model, feet), tau),
        "derivatives, elimination": (
            drive_eliminated_derivatives, own + derivative_numbers(model, feet), tau, none, none, none,
        ),
        "torques, inverse dynamics": (drive_torques, own, iterate.a, none),
    }  # fmt: skip
    return {
        name: lambda drive=drive, numbers=numbers, rest=rest: launch(
            drive, N, numbers, model.block, feet.arrays, q, v, *rest
        )
        for name, (drive, numbers, *rest) in drivers.items()
    }


class Eliminating(dynamics.RigidBodySystem):
    """The system of the shift problem with rollouts by elimination, from the start and without gaps and limits."""

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """All knots; see `RobotSystem.roll`."""
        roll(self, False, loops, X, U)


def roll(system: dynamics.RigidBodySystem, follow: bool, loops: ClosedLoops, X: np.ndarray, U: np.ndarray) -> None:
    """Closed loops of torques by elimination, or of the base's accelerations."""
    model, feet = system.model, system.contacts
    launch(
        drive_rollouts, loops.alphas.size, rollout_numbers(model, feet), model.block, feet.arrays, follow, system.dt,
        *loops[:6], X, U,
    )  # fmt: skip


class Rollouts:
    """Closed loops of 8 step lengths from the iterate, in each way, with the arrays that they fill."""

    def __init__(self, iterate: Iterate):
        system: Any = iterate.problem.system
        self.iterate, self.system = iterate, system
        N, chunks = len(iterate.us), -(-len(ALPHAS) // LANES)
        self.alphas = aligned_zeros(chunks, LANES)
        self.alphas.reshape(-1)[: len(ALPHAS)] = ALPHAS
        self.X = aligned_zeros(chunks, N + 1, system.nx, LANES)
        self.U = {nu: aligned_zeros(chunks, N, nu, LANES) for nu in (6, 12)}

    def contact_dynamics(self) -> None:
        """The library's."""
        loops = self._loops(self.iterate.us, self.iterate.k, self.iterate.K)
        self.system.roll(loops, 0, len(loops.us), self.X, self.U[12])

    def elimination(self) -> None:
        """The same torques' rollouts by elimination."""
        roll(self.system, False, self._loops(self.iterate.us, self.iterate.k, self.iterate.K), self.X, self.U[12])

    def following(self) -> None:
        """The base's accelerations as controls."""
        a_base = np.ascontiguousarray(self.iterate.a[:, :6])
        roll(self.system, True, self._loops(a_base, self.iterate.k_base, self.iterate.K_base), self.X, self.U[6])

    def follow(self, a_base: np.ndarray) -> np.ndarray:
        """The trajectory (N+1, nx) that follows accelerations (N, 6) of the base, without feedback."""
        loops = self._loops(a_base, a_base, np.empty((len(a_base), 0, self.system.ndx)))
        roll(self.system, True, loops, self.X, self.U[6])
        return self.trajectory(0)

    def trajectory(self, i: int) -> np.ndarray:
        """States (N+1, nx) of the i-th step length."""
        return np.ascontiguousarray(self.X[i // LANES, :, :, i % LANES])

    def _loops(self, us: np.ndarray, k: np.ndarray, K: np.ndarray) -> ClosedLoops:
        return ClosedLoops(self.iterate.problem.x0, self.iterate.xs, us, k, K, self.alphas, None, None)


def calls(iterate: Iterate) -> dict[str, Callable[[], object]]:
    """Everything that is timed, by name."""
    rollouts = Rollouts(iterate)
    system = rollouts.system
    eliminating = replace(
        iterate.problem,
        system=Eliminating(system.model, system.dt, actuation="floating_base", contacts=system.contacts),
    )
    return {
        **pointwise_calls(iterate),
        "rollout, contact dynamics": rollouts.contact_dynamics,
        "rollout, elimination": rollouts.elimination,
        "rollout, following the base": rollouts.following,
        ITERATION: iterations(iterate.problem, iterate.us)[ITERATION],
        f"{ITERATION}, rollouts by elimination": iterations(eliminating, iterate.us)[ITERATION],
    }


# ------------------------------------------------------------------------------------------------ measuring
def measure(horizon: int, repeats: int) -> dict[str, float]:
    """Least microseconds per knot of each call on one thread, all taken in turns."""
    timed = calls(iterate_at(horizon))
    least = dict.fromkeys(timed, np.inf)
    with threads(1):
        for _ in range(repeats + 1):
            for name, call in timed.items():
                start = time.perf_counter()
                call()
                least[name] = min(least[name], (time.perf_counter() - start) * 1e6 / horizon)
    return least


def table(times: dict[str, float]) -> Table:
    """A row a call: time, how many times as fast as contact dynamics, and share of an iteration."""
    result = Table(title="standing quadruped, one thread, least of all repeats", box=SIMPLE_HEAD, show_edge=False)
    result.add_column("", no_wrap=True)
    for heading in ("us per knot", "times as fast", "share of an iteration"):
        result.add_column(heading, justify="right")
    for name, microseconds in times.items():
        quantity = name.split(",")[0]
        library_time = times.get(f"{quantity}, contact dynamics")
        ratio = f"{library_time / microseconds:.2f}" if library_time else ""
        result.add_row(name, f"{microseconds:.3f}", ratio, f"{100 * microseconds / times[ITERATION]:.1f} %")
    return result


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.quadruped.structure", description=description)
    result.add_argument("--knots", type=int, default=KNOTS, metavar="N", help="knots (default: %(default)s)")
    result.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="repeats (default: %(default)s)")
    result.add_argument("--out", type=Path, default=Path("results/quadruped"), help="folder (default: %(default)s)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    options = parser().parse_args(argv)
    for name in ("knots", "repeats"):
        if getattr(options, name) < 1:
            parser().error(f"--{name}: got {getattr(options, name)}, wanted at least 1")
    times = measure(options.knots, options.repeats)
    Console(width=100).print(table(times))
    options.out.mkdir(parents=True, exist_ok=True)
    data = {"knots": options.knots, "repeats": options.repeats, "microseconds_per_knot": times}
    (options.out / "structure.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
