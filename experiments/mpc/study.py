"""The measurements, as plain dicts: tip errors of every controller at every level, and solve times."""

from collections.abc import Callable
from typing import Any

import numpy as np

import trajopt
from experiments.convergence.study import ending
from experiments.mpc.scene import CONTROLLERS, DT, DURATION, WINDOW, gusts, simulate, swing_up, tip_error

LEVELS = (0.0, 1.0, 2.0, 4.0)
"""Standard deviations of the gusts, newtons."""
SOLVER = trajopt.ILQR(max_iterations=1)
LAST_SECOND = round(1.0 / DT)
HELD = 0.5
"""A run whose error stays below this in the last second (half a pole) has held the pole up."""
QUANTILES = (0.25, 0.5, 0.75)


def digits(array: np.ndarray) -> list:
    """The array as lists of numbers of four digits."""
    return np.vectorize(lambda number: float(f"{number:.4g}"))(array).tolist()


def rms(errors: np.ndarray) -> np.ndarray:
    """Root mean square over the last second, per run (runs,) of errors (runs, DURATION + 1)."""
    return np.sqrt(np.mean(errors[:, -LAST_SECOND:] ** 2, axis=1))


def summary(errors: np.ndarray) -> dict[str, Any]:
    """Statistics of the errors (runs, DURATION + 1) of one controller at one level."""
    last = rms(errors)
    return {
        "runs": len(errors),
        "rms_last_second": digits(last),
        "median_rms": float(np.median(last)),
        "worst_rms": float(last.max()),
        "final": digits(errors[:, -1]),
        "held": int((errors[:, -LAST_SECOND:] < HELD).all(axis=1).sum()),
        "quantiles": digits(np.quantile(errors, QUANTILES, axis=0)),
    }


def measure(runs: int, seed: int, advance: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """`runs` simulations of every controller at every level; calls `advance` after each."""
    plan = trajopt.DDP().solve(swing_up(DURATION + WINDOW))
    window = SOLVER.prepare(swing_up(WINDOW))
    simulate("MPC", plan, window, gusts(max(LEVELS), 0, seed))  # compiles what is timed below
    levels, times = {}, []
    for level in LEVELS:
        record = {}
        for controller in CONTROLLERS:
            errors = []
            for number in range(runs if level else 1):
                run = simulate(controller, plan, window, gusts(level, number, seed))
                errors.append(tip_error(run.xs))
                times += run.solve_times
                advance()
            record[controller] = summary(np.array(errors))
        levels[f"{level:g}"] = record
    return {
        "seed": seed,
        "plan": ending(plan),
        "time_step": DT,
        "quantiles": QUANTILES,
        "levels": levels,
        "solve_time_percentiles": digits(np.percentile(times, np.arange(101))),
    }
