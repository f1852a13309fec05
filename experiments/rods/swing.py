"""A clamped rod is pushed aside and swings, here and in PyElastica: how far off its tip is, and what that takes.

    python -m experiments.rods.swing [--duration S] [--repeats N] [--out DIR]

A thick rod of silicone and a slender one of rubber, undamped and without weight, carry a force at the tip that grows
to its value and stays.  Truth is Newmark's method in steps of 0.2 ms with more polynomials than any contestant has;
both libraries approach it, so that they agree on the mechanics: PyElastica, which holds its first element still, with
1 / elements.  It (of the extra `peers`; left out where it is absent) takes explicit steps of half of what a wave needs
to cross an element or a radius.  Times are medians of runs that take turns.  Writes DIR/swing.json.
"""

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.simulation import simulate
from experiments.harness import Experiment, Run, count, in_turns, option, positive, table

LENGTH, RAMP = 0.5, 0.3
"""Length, m, and the time in which the force grows, s."""
RODS = {"silicone": (0.02, 1e6, 1000.0, 0.5), "rubber": (0.005, 1e7, 1100.0, 0.04)}
"""Radius, m, Young's modulus, Pa, density, kg/m^3, and force, N."""
SHEAR_CORRECTION = 27.0 / 28.0  # PyElastica's
TRUTH, ORDER = {"method": "newmark", "dt": 2e-4}, 7
OURS: dict[str, tuple[int, dict[str, Any]]] = {
    "Newmark, 4 ms, polynomials to order 3": (3, {"method": "newmark", "dt": 4e-3}),
    "Newmark, 1 ms, polynomials to order 4": (4, {"method": "newmark", "dt": 1e-3}),
    "BDF, rtol 1e-4, polynomials to order 3": (3, {"method": "bdf", "rtol": 1e-4, "atol": 1e-6}),
}
ELEMENTS = (10, 40)
COURANT = 0.5


def our_rod(which: str, order: int) -> SoftRobot:
    """The rod, its strains in the plane polynomials of this order."""
    builder, (radius, young, density, _) = RodModelBuilder(gravity=np.zeros(3)), RODS[which]
    material = Elastic(young, 0.5, density, viscosity=0.0, shear_correction=SHEAR_CORRECTION)
    basis = LegendreBasis(bending_y=order, stretch=order - 1, shear_z=order - 1)
    builder.add_rod("rod", "world", LENGTH, Circular(radius), material, basis, points=order + 3)
    builder.add_wrench("rod")
    return SoftRobot(builder.build())


def our_tip(which: str, order: int, duration: float, options: dict[str, Any]) -> tuple[np.ndarray, int]:
    """Where the tip of the rod is in the end, (3,), and steps."""
    robot, force = our_rod(which, order), RODS[which][3]
    push = lambda t: np.array([[0.0, 0.0, 0.0, 0.0, 0.0, -force * min(t / RAMP, 1.0)]])  # noqa: E731
    motion = simulate(robot, duration, np.zeros(0), wrenches=push, **options)
    return link_placement(robot.model, "rod", motion.q[-1])[1], motion.steps


def their_tip(which: str, elements: int, duration: float) -> tuple[np.ndarray, int]:
    """Where the tip of PyElastica's rod is in the end, (3,), and steps."""
    import elastica as ea

    class Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing):
        pass

    radius, young, density, force = RODS[which]
    simulator, direction, none = Simulator(), np.array([1.0, 0.0, 0.0]), np.zeros(3)
    rod = ea.CosseratRod.straight_rod(
        elements, none, direction, np.array([0.0, 0.0, 1.0]), LENGTH, radius, density,
        youngs_modulus=young, shear_modulus=young / 3.0,
    )  # fmt: skip
    simulator.append(rod)
    clamp = {"constrained_position_idx": (0,), "constrained_director_idx": (0,)}
    simulator.constrain(rod).using(ea.OneEndFixedBC, **clamp)
    simulator.add_forcing_to(rod).using(ea.EndpointForces, none, np.array([0.0, 0.0, -force]), ramp_up_time=RAMP)
    simulator.finalize()
    stepper, t = ea.PositionVerlet(), np.float64(0.0)
    steps = int(np.ceil(duration / (COURANT * min(LENGTH / elements, radius) / np.sqrt(young / density))))
    for _ in range(steps):
        t = stepper.step(simulator, t, np.float64(duration / steps))
    return rod.position_collection[:, -1].copy(), steps


def contestants(which: str, duration: float) -> dict[str, Callable[[], tuple[np.ndarray, int]]]:
    """What is run, by name."""
    calls = {name: partial(our_tip, which, order, duration, options) for name, (order, options) in OURS.items()}
    if importlib.util.find_spec("elastica") is not None:
        calls |= {f"PyElastica, {count} elements": partial(their_tip, which, count, duration) for count in ELEMENTS}
    return calls


def record(which: str, duration: float, repeats: int) -> dict[str, Any]:
    """Errors, m, and times, s, of all contestants."""
    truth, calls = our_tip(which, ORDER, duration, TRUTH)[0], contestants(which, duration)
    times, runs = in_turns(calls, repeats), {}
    for name, call in calls.items():
        tip, steps = call()
        error = float(np.linalg.norm(tip - truth))
        runs[name] = {"error": error, "steps": steps, "seconds": float(np.median(times[name]))}
    return {"tip": truth.tolist(), "runs": runs}


def study(run: Run) -> dict[str, Any]:
    """Both rods."""
    options = run.options
    rods = {which: record(which, options.duration, options.repeats) for which in run.track(RODS, "rods")}
    return {"duration": options.duration, "rods": rods}


def tables(results: dict[str, Any]) -> tuple[Table]:
    """A row for every rod and contestant."""
    groups = [
        [
            (which, name, f"{1e3 * row['error']:.3g}", row["steps"], f"{1e3 * row['seconds']:.3g}")
            for name, row in rod["runs"].items()
        ] for which, rod in results["rods"].items()
    ]  # fmt: skip
    title = f"undamped rods pushed aside, after {results['duration']:g} s"
    return (table(title, ("rod", "by"), ("tip off by [mm]", "steps", "ms"), groups),)


main = Experiment(
    "rods.swing",
    __doc__,
    study,
    options=[
        option("--duration", type=positive, default=1.0, metavar="S", help="seconds (default: %(default)s)"),
        count("--repeats", 3, "of runs"),
    ],
    tables=tables,
    width=100,
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
