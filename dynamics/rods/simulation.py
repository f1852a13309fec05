"""Simulation of soft robots: stiff solvers of scipy with the exact Jacobian, Newmark's method, the midpoint rule."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.integrate import BDF, Radau

from dynamics.rods.arrays import FIRST, MASS_MATRIX
from dynamics.rods.implicit_steps import finite, implicit_midpoint, newmark
from dynamics.rods.soft_robot import SoftRobot
from dynamics.validation import as_array

Signal = Callable[[float], ArrayLike] | ArrayLike
STIFF = {"bdf": BDF, "radau": Radau}
FIXED = {"newmark": newmark, "implicit_midpoint": implicit_midpoint}


class Simulation(NamedTuple):
    """Times t (T,), coordinates q and velocities v (T, n), and what it took.

    Attributes
    ----------
    steps : accepted steps
    evaluations : of the equation of motion, those of a numerical Jacobian not counted
    jacobians : evaluations of its Jacobian, for Newmark and the midpoint rule one per step of Newton's method
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    steps: int
    evaluations: int
    jacobians: int


def simulate(
    robot: SoftRobot,
    duration: float,
    controls: Signal,
    q0: ArrayLike | None = None,
    v0: ArrayLike | None = None,
    wrenches: Signal | None = None,
    method: str = "bdf",
    dt: float | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-6,
    jacobian: bool = True,
    progress: bool = False,
) -> Simulation:
    """Motion from t = 0 to `duration` under given controls.

    Parameters
    ----------
    robot : SoftRobot
    duration : s
    controls : function of t that returns u (nu,), or constant u (nu,)
    q0, v0 : (n,) at the start; by default zero
    wrenches : function of t that returns (W, 6), or constant (W, 6): [moment; force] of the external loads that take
        one; by default zero
    method : "bdf" or "radau", variable steps and orders (scipy); "newmark", average acceleration (beta = 1/4,
        gamma = 1/2); "implicit_midpoint".  The last two keep energy and are of second order      [GVS, section 4.4]
    dt : for "newmark" and "implicit_midpoint" the step, s; None: "newmark" chooses steps by an error estimate, and
        "implicit_midpoint" refuses.  For "bdf" and "radau" the spacing of the output; None: at their own steps
    rtol, atol : of the local error |e_i| <= atol + rtol |x_i|, for q and v (of "newmark", for q); not used for fixed
        steps, whose Newton's method ends when q and v change by less than 1e-9 (1 + |x_i|)
    jacobian : for "bdf" and "radau": use the exact Jacobian; False: differences
    progress : show a progress bar

    Returns
    -------
    Simulation(t, q, v, steps, evaluations, jacobians)

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite or out of range, an unknown method.
    RuntimeError : the method cannot go on; names the time.
    """
    duration, dt = _positive("duration", duration), None if dt is None else _positive("dt", dt)
    rtol, atol = _positive("rtol", rtol), _positive("atol", atol)
    if method not in STIFF and method not in FIXED:
        raise ValueError(f"method: got {method!r}, expected one of {', '.join((*STIFF, *FIXED))}")
    if method == "implicit_midpoint" and dt is None:
        raise ValueError("dt: got None, expected the step of implicit_midpoint in seconds")
    zero = np.zeros(robot.nq)
    start = [as_array(name, zero if x is None else x, zero.shape) for name, x in (("q0", q0), ("v0", v0))]
    inputs = _inputs(robot, controls, wrenches)
    with _progress_bar(progress, duration) as report:
        if method in STIFF:
            return _stiff(robot, duration, inputs, start, STIFF[method], dt, (rtol, atol), jacobian, report)
        return Simulation(*FIXED[method](robot, duration, inputs, start, dt, (rtol, atol), report))


# ------------------------------------------------------------------------------------------------ arguments
def _positive(name: str, value: float) -> float:
    number = float(as_array(name, value, ()))
    if number <= 0.0:
        raise ValueError(f"{name}: got {number}, expected a positive number")
    return number


def _signal(name: str, value: Signal, shape: tuple[int, ...]) -> Callable[[float], np.ndarray]:
    if callable(value):
        return lambda t: as_array(f"{name}({t:.6g})", value(t), shape).ravel()
    constant = as_array(name, value, shape).ravel()
    return lambda t: constant


def _inputs(robot: SoftRobot, controls: Signal, wrenches: Signal | None) -> Callable[[float], np.ndarray]:
    """u (nu) and external wrenches (6 W) at a time."""
    count = robot.model.wrench_count
    u = _signal("controls", controls, (robot.nu,))
    w = _signal("wrenches", np.zeros((count, 6)) if wrenches is None else wrenches, (count, 6))
    return lambda t: np.concatenate([u(t), w(t)])


@contextmanager
def _progress_bar(show: bool, duration: float):
    """A function to tell the time reached."""
    if not show:
        yield lambda t: None
        return
    columns = TextColumn("simulating"), BarColumn(), TextColumn("{task.fields[t]}"), TimeRemainingColumn()
    with Progress(*columns) as bar:
        task = bar.add_task("", total=duration, t="")
        yield lambda t: bar.update(task, completed=t, t=f"{t:.3g} of {duration:.3g} s")


# ------------------------------------------------------------------------------------------------ stiff solvers
class _StateSpace:
    """x' = [v; a(q, v, u(t))] for x = [q; v], and its Jacobian."""

    def __init__(self, robot: SoftRobot, inputs: Callable[[float], np.ndarray]):
        self.robot, self.inputs = robot, inputs

    def _evaluate(self, level: int, t: float, x: np.ndarray) -> list[np.ndarray]:
        """What the level gives for the states x (2 n, K); unlike the robot's methods it takes any number."""
        n = self.robot.nq
        inputs = self.inputs(t)
        states = np.zeros((x.shape[1], 4 * n + len(inputs)))
        states[:, : 2 * n], states[:, 4 * n :] = x.T, inputs
        return self.robot._accelerations(level, states)

    def rates(self, t: float, x: np.ndarray) -> np.ndarray:
        """x' (2 n, K)."""
        return np.vstack([x[self.robot.nq :], self._evaluate(MASS_MATRIX, t, x)[0].T])

    def jacobian(self, t: float, x: np.ndarray) -> np.ndarray:
        """dx'/dx (2 n, 2 n)."""
        n = self.robot.nq
        _, aq, av, *_ = self._evaluate(FIRST, t, x[:, None])
        return finite(t, np.block([[np.zeros((n, n)), np.eye(n)], [aq[0], av[0]]]))


def _stiff(robot, duration, inputs, start, method, dt, tolerances, jacobian, report) -> Simulation:
    space = _StateSpace(robot, inputs)
    options = {"rtol": tolerances[0], "atol": tolerances[1], "vectorized": True}
    x = np.concatenate(start)
    finite(0.0, space.rates(0.0, x[:, None]))
    solver = method(
        space.rates, 0.0, x, duration, jac=space.jacobian if jacobian else None, **options
    )
    ts, xs, steps = [0.0], [solver.y], 0
    while solver.status == "running":
        message = solver.step()
        if solver.status == "failed":
            raise RuntimeError(f"simulate: failed at t = {solver.t:.6g} s: {message}")
        finite(solver.t, solver.y)
        steps += 1
        if dt is None:
            ts.append(solver.t)
            xs.append(solver.y)
        else:
            output = solver.dense_output()
            while (t := len(ts) * dt) <= solver.t * (1.0 + 1e-12):
                ts.append(t)
                xs.append(output(min(t, solver.t)))
        report(solver.t)
    x, n = np.array(xs), robot.nq
    return Simulation(np.array(ts), x[:, :n], x[:, n:], steps, solver.nfev, solver.njev)
