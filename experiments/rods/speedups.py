"""What exact Jacobians save at rest and in motion, beside methods that do without, and beside the paper's speed-ups.

    python -m experiments.rods.speedups [--systems NAME ...] [--equilibria N] [--duration S] [--limit S] [--quick]
                                        [--out DIR] [--seed N]

At rest, equilibria of the paper's examples under random inputs in its ranges, from the shape without strains:

newton            `static_equilibrium`, Newton's method with the exact Jacobian
hybr, exact       MINPACK's hybrid method (scipy.optimize.root) with the same Jacobian
hybr              the same method, its first Jacobian by differences
least squares     scipy.optimize.least_squares, Jacobians by differences
DOP853            time steps of an explicit method of eighth order until all links are within 0.1 mm of the equilibrium
                  and slower than 1 mm/s, for the first few inputs; stopped after --limit seconds each

The methods of scipy work on the same equations, r_f and e(q), in units of moderate changes.  In motion:

bdf, exact        BDF with the exact Jacobian
bdf, differences  the same, the Jacobian by differences
DOP853            the explicit method, which knows no Jacobian; where it is stopped after --limit seconds its time is
                  that share of the motion carried on to the end, a guess that the table marks with a ~

The paper's speed-ups are those of its table 3 and its text: ode113 against ode15s with derivatives of the parallel
robot (1829) and the vehicle (424), ode15s with and without them of others.  Times of one thread.
Writes OUT/speedups.json.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from scipy.integrate import DOP853
from scipy.optimize import least_squares, root

from dynamics.rods.algorithms.closed_chains import evaluate_chains
from dynamics.rods.algorithms.inverse_dynamics import energies
from dynamics.rods.kinematics.center_lines import link_placements
from dynamics.rods.model.arrays import FORCES
from dynamics.rods.model.rod_model import turning_joints
from dynamics.rods.robot.reactions import prescribed_motion, prescribed_values
from dynamics.rods.statics.equilibrium import StaticEquilibrium, load_path, static_equilibrium
from dynamics.rods.stepping.plant import RodPlant
from dynamics.rods.stepping.simulation import simulate
from dynamics.rods.stepping.stiff_solvers import _StateSpace
from experiments.harness import NONE, Experiment, Run, count, option, positive, quick, seed, table
from experiments.rods.measure import options_of, within
from experiments.rods.paper import TABLE
from experiments.rods.systems import NAMES, make, static_inputs
from problems.rods.example import RodExample

NEAR, SLOW = 1e-4, 1e-3
"""Distance, m, and speed, m/s, by which a motion counts as at rest."""
SOLVED = 1e-6
"""Forces that are left over, relative to the stiffest coordinate's for a moderate change, of what counts as solved."""
RESTS = 3
"""Equilibria that are waited for."""
BAUMGARTE = 100.0
"""1/s, as by default of `simulate`."""
TOLERANCES = {"rtol": 1e-3, "atol": 1e-6}


class StatePath(NamedTuple):
    """How far an explicit method came."""

    x: np.ndarray
    reached: float
    seconds: float
    steps: int
    evaluations: int
    done: bool


# ------------------------------------------------------------------------------------------------ at rest
class Equations:
    """r_f and e of statics under inputs, for methods of scipy: y = (q_f / scales, multipliers)."""

    def __init__(self, example: RodExample, inputs: dict[str, Any]):
        robot = example.robot
        prescribed = inputs.get("prescribed")
        self.path, self.start = load_path(robot, inputs["u"], inputs.get("wrenches"), None, prescribed)
        self.robot, self.held, self.G = robot, self.path.held, robot.model.constraint_count
        self.q = self.path.placed(self.start, 1.0)
        self.scales, self.inputs = self.path.scales[self.held.free], self.path.inputs(1.0)

    def placed(self, y: np.ndarray) -> np.ndarray:
        """q (n,)."""
        q = self.q.copy()
        q[self.held.free] = y[: len(self.scales)] * self.scales
        return q

    def residual(self, y: np.ndarray) -> np.ndarray:
        """(F + G,)"""
        q, F = self.placed(y), len(self.scales)
        r = self.robot._residual(FORCES, self.path._states(q[None], self.inputs, y[F:]))[0][0, self.held.free]
        rows = evaluate_chains(self.robot.model, FORCES, q)[1].e if self.G else np.zeros(0)
        return np.nan_to_num(np.concatenate([r * self.scales, rows]), nan=1e10)

    def with_jacobian(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """That and its Jacobian."""
        F, f = len(self.scales), self.held.free
        r, J, e, A = self.path.newton.linearize(self.placed(y), self.inputs, y[F:])
        K = np.zeros((F + self.G, F + self.G))
        K[:F, :F] = J[np.ix_(f, f)] * np.outer(self.scales, self.scales)
        K[F:, :F], K[:F, F:] = A[:, f] * self.scales, -(A[:, f] * self.scales).T
        return np.nan_to_num(np.concatenate([r[f] * self.scales, e]), nan=1e10), np.nan_to_num(K)

    def solved(self, y: np.ndarray) -> bool:
        """Whether nothing is left of the forces."""
        return bool(np.abs(self.residual(y)).max() <= SOLVED * max(self.path.largest, 1e-300))


def _newton(example: RodExample, inputs: dict[str, Any], _: Equations) -> bool:
    return static_equilibrium(example.robot, **inputs, method="newton").converged


def _hybrid(exact: bool) -> Callable[[RodExample, dict[str, Any], Equations], bool]:
    def solve(_: RodExample, __: dict[str, Any], equations: Equations) -> bool:
        y = np.zeros(len(equations.scales) + equations.G)
        function = equations.with_jacobian if exact else equations.residual
        found = root(function, y, method="hybr", jac=exact, options={"xtol": 1e-8})
        return equations.solved(found.x)

    return solve


def _least_squares(_: RodExample, __: dict[str, Any], equations: Equations) -> bool:
    y = np.zeros(len(equations.scales) + equations.G)
    return equations.solved(least_squares(equations.residual, y, xtol=1e-10, ftol=1e-14, gtol=1e-14).x)


AT_REST = {"newton": _newton, "hybr, exact": _hybrid(True), "hybr": _hybrid(False), "least squares": _least_squares}


def rest_record(example: RodExample, equilibria: int, limit: float, rng: np.random.Generator) -> dict[str, Any] | None:
    """Mean ms and share solved of each method, all for the same inputs in turn; None of a system without statics."""
    inputs = [static_inputs(example, rng) for _ in range(equilibria + 1)]
    if inputs[0] is None:
        return None
    record: dict[str, Any] = {}
    for name, solve in AT_REST.items():
        times, solved = [], []
        for k, own in enumerate(inputs):
            equations = Equations(example, own)  # type: ignore[arg-type]
            start = time.perf_counter()
            done = solve(example, own, equations)  # type: ignore[arg-type]
            if k > 0:  # the first may compile
                times.append(time.perf_counter() - start)
                solved.append(done)
        record[name] = {"ms": 1e3 * float(np.mean(times)), "solved": float(np.mean(solved))}
    waits = [wait_for_rest(example, own, limit) for own in inputs[1 : RESTS + 1]]  # type: ignore[arg-type]
    record["DOP853"] = {
        "ms": 1e3 * float(np.mean([wait.seconds for wait in waits])),
        "solved": float(np.mean([wait.done for wait in waits])),
        "simulated": float(np.mean([wait.reached for wait in waits])),
    }
    return record


def wait_for_rest(example: RodExample, inputs: dict[str, Any], limit: float) -> StatePath:
    """Motion from the shape without strains until it rests, by the explicit method."""
    robot, held = example.robot, prescribed_values(example.robot.model, inputs.get("prescribed"))
    given = np.concatenate([np.asarray(inputs["u"], float), np.ravel(inputs.get("wrenches", ()))])
    plant = RodPlant(robot, lambda t: given, held, BAUMGARTE, turning_joints(robot.model, held.coordinates))
    rest: StaticEquilibrium = static_equilibrium(robot, **inputs)
    places = link_placements(robot.model, rest.q)[1]

    def rests(q: np.ndarray, v: np.ndarray) -> bool:
        speed = np.sqrt(2.0 * max(float(energies(robot.model, q, v).kinetic), 0.0) / robot.model.total_mass)
        off = np.linalg.norm(link_placements(robot.model, q)[1] - places, axis=-1).max()
        return bool(off < NEAR and speed < SLOW)

    return explicit(plant, 1e3, limit, rests)


# ------------------------------------------------------------------------------------------------ in motion
def explicit(
    plant: RodPlant, duration: float, limit: float, ended: Callable[[np.ndarray, np.ndarray], bool] | None = None
) -> StatePath:
    """Steps of DOP853 from rest at q = 0 for so long, or until the motion has ended, at most `limit` seconds."""
    space, n = _StateSpace(plant), plant.robot.nq
    f, start = space.free, time.perf_counter()
    q, v = plant.start(np.zeros(n), np.zeros(n))

    def rates(t: float, x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(space.rates(t, x[:, None])[:, 0], nan=1e10)

    solver, steps, evaluations = DOP853(rates, 0.0, np.concatenate([q[f], v[f]]), duration, **TOLERANCES), 0, 0
    while solver.status == "running" and time.perf_counter() - start < limit:
        solver.step()
        steps += 1
        moved = space.in_chart(solver.t, solver.y) if len(plant.turns) else None
        if moved is not None and solver.status == "running":
            evaluations += solver.nfev
            solver = DOP853(rates, solver.t, moved, duration, **TOLERANCES)
        if ended is not None and steps % 50 == 0:
            qs, vs = space.coordinates(solver.t, solver.y[:, None])
            if ended(qs[0], vs[0]):
                break
    else:
        ended = None
    done = ended is not None or solver.status == "finished"
    seconds = time.perf_counter() - start
    return StatePath(solver.y, float(solver.t), seconds, steps, evaluations + solver.nfev, done)


def motion_record(example: RodExample, duration: float, limit: float) -> dict[str, dict[str, Any]]:
    """Seconds of each method, and how far it came."""
    record: dict[str, dict[str, Any]] = {}
    for name, method in (("bdf, exact", "exact"), ("bdf, differences", "differences")):
        simulate(example.robot, 1e-4, example.controls, **options_of(example, method))  # compiles
        start = time.perf_counter()
        try:
            simulate(example.robot, duration, within(limit, example.controls), **options_of(example, method))
            record[name] = {"seconds": time.perf_counter() - start, "share": 1.0}
        except RuntimeError as error:
            record[name] = {"failed": str(error)}
    robot, moved = example.robot, prescribed_motion(example.robot.model, example.prescribed)
    wrenches = example.wrenches

    def inputs(t: float) -> np.ndarray:
        given = () if wrenches is None else wrenches(t)
        return np.concatenate([np.asarray(example.controls(t), float), np.ravel(given)])

    plant = RodPlant(robot, inputs, moved, BAUMGARTE, turning_joints(robot.model, moved.coordinates))
    path = explicit(plant, duration, limit)
    record["DOP853"] = {"seconds": path.seconds, "share": path.reached / duration, "evaluations": path.evaluations}
    return record


# ------------------------------------------------------------------------------------------------ all of it
def study(run: Run) -> dict[str, Any]:
    """All systems."""
    o, systems = run.options, {}
    equilibria, duration, limit = (3, 0.02, 0.5) if o.quick else (o.equilibria, o.duration, o.limit)
    for name in run.track(o.systems, "soft robots"):
        example = make(name)
        systems[name] = {
            "coordinates": example.robot.nq,
            "rest": rest_record(example, equilibria, limit, np.random.default_rng(o.seed)),
            "motion": motion_record(example, duration, limit),
        }
    return {"equilibria": equilibria, "duration": duration, "limit": limit, "systems": systems}


def _ratio(slow: float | None, fast: float | None, guess: bool = False) -> str:
    return NONE if slow is None or fast is None else f"{'~' if guess else ''}{slow / fast:.3g}"


def _seconds(row: dict[str, Any]) -> float | None:
    """Of the whole motion, carried on where it was stopped."""
    return None if "failed" in row or not row["share"] else row["seconds"] / row["share"]


def _at_least(row: dict[str, Any], least: float) -> tuple[str, str]:
    """Milliseconds, and how many times the least; with a sign where all were stopped before the end."""
    sign = ">" if "simulated" in row and row["solved"] == 0.0 else ""
    return f"{sign}{row['ms']:.3g}", f"{sign}{row['ms'] / least:.3g}"


def tables(results: dict[str, Any]) -> tuple[Table, ...]:
    """Equilibria, motions, and speed-ups beside the paper's."""
    systems = results["systems"]
    rests = {name: entry["rest"] for name, entry in systems.items() if entry["rest"] is not None}

    def rest_rows(name: str, rest: dict[str, Any]) -> list[tuple]:
        paper = dict.fromkeys(rest, NONE) | dict(zip(("newton", "hybr"), TABLE[name].statics[::-1], strict=True))  # type: ignore[index]
        least = rest["newton"]["ms"]
        return [
            (name, method, *_at_least(row, least), f"{row['solved']:.0%}", paper[method])
            for method, row in rest.items()
        ]

    def motion_row(name: str, motion: dict[str, Any]) -> tuple:
        exact, other, steps = (_seconds(motion[key]) for key in ("bdf, exact", "bdf, differences", "DOP853"))
        guess, paper = motion["DOP853"]["share"] < 1.0, TABLE[name]
        shown = [NONE if x is None else f"{x:.3g}" for x in (exact, other)]
        last = NONE if steps is None else f"{'~' if guess else ''}{steps:.3g}"
        theirs = _ratio(paper.differences, paper.exact)
        return name, *shown, last, _ratio(other, exact), _ratio(steps, exact, guess), theirs

    return (
        table(
            f"{results['equilibria']} equilibria; DOP853: {RESTS}, stopped after {results['limit']:g} s",
            ("system", "method"), ("ms", "over newton", "solved", "paper, ms"),
            [rest_rows(name, rest) for name, rest in rests.items()],
        ),
        table(
            f"{results['duration']:g} s of motion; ~: carried on from where it was stopped",
            ("system",),
            ("bdf, exact,\ns", "bdf, diff.,\ns", "DOP853,\ns", "diff. over\nexact", "DOP853 over\nexact", "paper"),
            [[motion_row(name, entry["motion"]) for name, entry in systems.items()]],
        ),
    )  # fmt: skip


main = Experiment(
    "rods.speedups",
    __doc__,
    study,
    options=[
        option("--systems", nargs="+", choices=NAMES, default=NAMES, help="which (default: all)"),
        count("--equilibria", 1000, "of each system"),
        option("--duration", type=positive, default=10.0, metavar="S", help="of motion (default: %(default)s)"),
        option("--limit", type=positive, default=60.0, metavar="S", help="of each method (default: %(default)s)"),
        quick("3 equilibria, 20 ms of motion, at most half a second each"),
        seed("inputs"),
    ],
    tables=tables,
    width=120,
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
