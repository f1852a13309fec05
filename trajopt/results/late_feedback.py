"""Closed loops of feedback whose controls act late.

A control is made every T seconds and acts d periods after the state that it is made of was measured.  To first order,
deviations x from the plan and the controls u_1 ... u_d that have not acted yet follow

    x+ = A x + B u_d,      u_1+ = K x,      u_2+ = u_1,      ...      u_d+ = u_(d-1)                        (1)

with A, B the derivatives of a step of T seconds; of a step that takes no time, as an impact, x+ = A x alone.  At rest
the spectral radius r of (1) says how fast deviations decay, exp(s t) with s = log(r)/T; along the plan that of the
product of all steps of its last second does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import as_not_negative
from trajopt.capabilities import Knots, Steps, capability
from trajopt.interfaces.system import System, knot_durations, window
from trajopt.problem.extended_system import remembered_numbers
from trajopt.results.dense_output import fine_rows, finer_for_stiff
from trajopt.results.records import Hold, SolutionData

LAST = 1.0
"""Seconds of a plan, at its end, along which deviations are followed."""
SLOWER = 0.5
"""Least ratio of the rate at which deviations decay at rest to that without what was added to a law."""
STEPS, MOST = 8, 64
"""Number of steps that a delay is divided into at most, longer ones than periods being taken then, and the largest
number of a plan's own steps."""
TINY = 1e-60
"""Parts of products that count as zero: numbers near the smallest of all are slow."""
NEUTRAL = 1e-3
"""Rate of growth, 1/s, below which deviations count as kept: directions that nothing moves keep theirs."""


class Growth(NamedTuple):
    """Rates s of growth, 1/s, of deviations exp(s t): at rest (-inf where the plan does not stand in the end), and
    along the last second of the plan."""

    rest: float
    last: float

    @property
    def stable(self) -> bool:
        """True if deviations do not grow."""
        return self.rest <= NEUTRAL and self.last <= NEUTRAL

    def keeps(self, before: Growth) -> bool:
        """True if what was added to a law of growth `before` leaves it stable: standing decays not much slower than
        before, and the last second does not become unstable."""
        rest = SLOWER * before.rest if before.rest < 0.0 else before.rest
        return self.rest <= rest + NEUTRAL and self.last <= max(before.last, 0.0) + NEUTRAL

    def in_words(self) -> str:
        """For example: deviations grow 4.2-fold in a second at rest"""
        worst = max(self.rest, self.last)
        where = "at rest" if worst == self.rest else "in the last second of the plan"
        return f"deviations grow {np.exp(min(worst, 700.0)):.2g}-fold in a second {where}"


def as_delay(delay: Any, system: System) -> float:
    """A delay in seconds of a plan of this system; TypeError or ValueError for one that is negative or too long."""
    seconds = as_not_negative("delay", delay)
    if round(seconds / system.dt) > MOST:
        most = f"at most {MOST * system.dt:.3g} s, {MOST} steps of the plan"
        raise ValueError(f"delay: got {seconds:.3g} s, expected {most}")
    return seconds


class LateLoop:
    """The last second of a plan, and standing after it, to be closed with gains.

    Parameters
    ----------
    solution : the plan
    standing : where it stands afterwards, if it does
    delay : seconds after a measurement at which the control made of it begins to act, as of `as_delay`
    period : seconds between controls; systems without finer steps are controlled at their own
    """

    def __init__(self, solution: SolutionData, standing: Hold | None, delay: float, period: float) -> None:
        system, xs, us, times = solution.problem.system, solution.xs, solution.us, solution.times
        N = len(us)
        fine, k = _in_periods(system, max(period, delay / STEPS))
        rows, self.step = fine_rows(system, N, k), system.dt / k
        self.late = round(delay / self.step)
        self.first = int(np.searchsorted(times[:-1], times[-1] - LAST - 1e-9))
        self.counts = np.diff(rows)[self.first :]
        self.moving = knot_durations(system, N, xs)[self.first :] > 0.0
        self.seconds = float(times[-1] - times[self.first])
        with np.errstate(all="ignore"):
            if capability(fine, Knots).horizon is None:
                fx, fu = fine.linearize(xs[self.first : N], us[self.first :])
            else:
                moved = window(fine, int(rows[self.first]), int(rows[N]))
                given = (np.repeat(rows_of, self.counts, axis=0) for rows_of in (xs[self.first : N], us[self.first :]))
                fx, fu = moved.linearize(*given)
                begin = rows[self.first : N] - rows[self.first]
                fx, fu = fx[begin], fu[begin]
            self.fx, self.fu, self.standing, self.at_rest = fx, fu, standing, None
            if standing is not None:
                last = window(fine, int(rows[N]) - 1, int(rows[N]))
                A, B = last.linearize(standing.x[None], standing.u[None])
                self.at_rest = A[0], B[0]

    def growth(self, K: np.ndarray, standing: np.ndarray | None) -> Growth:
        """Growth of deviations under the gains K (N, nu, ndx) of the plan and that of standing (nu, ndx); infinite
        where a derivative is not finite."""
        with np.errstate(all="ignore"):
            rest = -np.inf
            if self.at_rest is not None and standing is not None:
                rest = np.log(_radius(self._closed(*self.at_rest, standing))) / self.step
            return Growth(float(rest), self._last(K[self.first :]))

    def _last(self, K: np.ndarray) -> float:
        (n, m), d = self.fu.shape[1:], self.late
        whole, scale = np.eye(n + d * m), 0.0
        X, waiting = whole[:n], [*whole[n:].reshape(d, m, n + d * m)]
        for t, count in enumerate(self.counts.tolist()):
            A, B = self.fx[t], self.fu[t]
            for _ in range(count):
                if self.moving[t]:
                    waiting.insert(0, K[t] @ X)
                    X = A @ X + B @ waiting.pop()
                else:
                    X = A @ X
            largest = max(float(np.abs(part).max()) for part in (X, *waiting))
            if not 0.0 < largest < np.inf:
                return -np.inf if largest == 0.0 else np.inf
            scale += np.log(largest)
            X, *waiting = (np.where(np.abs(part) < TINY * largest, 0.0, part / largest) for part in (X, *waiting))
        return float((np.log(_radius(np.concatenate([X, *waiting]))) + scale) / self.seconds)

    def _closed(self, A: np.ndarray, B: np.ndarray, K: np.ndarray) -> np.ndarray:
        """The matrix of (1)."""
        (n, m), d = B.shape, self.late
        if d == 0:
            return A + B @ K
        Z = np.zeros((n + d * m, n + d * m))
        Z[:n, :n], Z[:n, -m:], Z[n : n + m, :n] = A, B, K
        Z[n + m :, n:-m] = np.eye((d - 1) * m)
        return Z


def _radius(matrix: np.ndarray) -> float:
    """Spectral radius; infinite for a matrix that is not finite."""
    return float(np.abs(np.linalg.eigvals(matrix)).max()) if np.isfinite(matrix).all() else np.inf


def _in_periods(system: System, period: float) -> tuple[System, int]:
    """The system in steps of a period at most, and their number in one of its own.  Systems that remember controls of
    their own steps, and those without finer ones, keep these."""
    if capability(system, Steps).refined is None or remembered_numbers(system):
        return system, 1
    return finer_for_stiff(system, max(1, int(np.ceil(system.dt / period - 1e-9))))
