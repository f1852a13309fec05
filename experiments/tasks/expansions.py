"""In which order the errors of models of one step vanish, on every problem: two for linear, three for quadratic ones.

Along random tangent directions dz = (dx, du), each with a random multiplier lam, and against them, too,

    lam'(f(x (+) s dx, u + s du) (-) f(x, u)) - s lam'[fx fu] dz - s^2/2 dz'H dz = O(s^3)

with fx, fu and H, the Hessian of lam'f, as the system says.  The order is the slope of the root mean square over the
directions on a log-log plot, over four halvings of s.  These begin at `LARGEST`, or at the first half, quarter, ... of
it at which the remainder is below `SHARE` of the quadratic term: terms of higher order hardly count there, which in
opposite directions cancel but for their squares, and rounding is far away.  The slope has no part in that choice; it
would be bent by an error of H of a hundredth.  Where the remainder is rounding from the first step on the model is
exact, and has no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import problems
import trajopt
from trajopt.interfaces.system import System, window

LARGEST, SMALLEST, SHARE = 2.0**-7, 2.0**-14, 0.02
"""Steps in rad, m and their rates; they begin below `LARGEST` where systems are strongly curved."""
HALVINGS = 0.5 ** np.arange(5)
DIRECTIONS = 12
NOISE = 0.3
"""Of the states around which steps are expanded, in all tangent directions, and of the controls, by `reach`."""
ROUNDING = 1e-11
"""Of a remainder, relative to the change of the state that was seen."""
DIVERGED = 100.0
"""Numbers of states from which on a first trajectory is not looked at."""
WANTED = {"linear": 2.0, "quadratic": 3.0}


def orders_of(name: str, rng: np.random.Generator, count: int | None = None) -> dict[str, Any]:
    """Of a problem, those farthest from what is wanted at `count` of the knots; None for models that are exact."""
    problem = problems.make(name)
    system, (xs, us) = problem.system, first_trajectory(problem)
    chosen = knots_of(problem, xs)[:count]
    found = [orders_at(window(system, t, t + 1), xs[t], us[t], rng) for t in chosen]
    worst = {}
    for kind, wanted in WANTED.items():
        orders = [each[kind] for each in found if each[kind] is not None]
        worst[kind] = orders[int(np.argmax(np.abs(np.array(orders) - wanted)))] if orders else None
    return {"states": system.ndx, "controls": system.nu, "knots": chosen, **worst, "all": found}


def first_trajectory(problem: trajopt.Problem) -> tuple[np.ndarray, np.ndarray]:
    """States (N+1, nx) and controls (N, nu) that a solver starts from."""
    xs = problem.system.rollout(problem.x0, problem.us_init) if problem.xs_init is None else problem.xs_init
    return xs, problem.us_init


def knots_of(problem: trajopt.Problem, xs: np.ndarray) -> list[int]:
    """A quarter, a half and three quarters on their way, or of where it diverges, moved on past those that only set
    durations: a step is linear there."""
    diverged = ~(np.abs(xs).max(axis=1) < DIVERGED)
    last = int(np.argmax(diverged)) if diverged.any() else problem.horizon
    counts = ~getattr(problem.system, "setting", np.zeros(problem.horizon, dtype=bool))
    return sorted({t + int(np.argmax(counts[t:])) for t in (last // 4, last // 2, 3 * last // 4)})


def reach(fu: np.ndarray) -> float:
    """How far controls go where states go by one: no farther than moves the next state by about one."""
    return 1.0 / max(1.0, float(np.abs(fu).max(initial=0.0)))


def orders_at(system: System, x: np.ndarray, u: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Orders near a point, of a system whose steps take batches, and the largest step."""
    n = system.ndx
    x = system.integrate(x, NOISE * rng.standard_normal(n))
    u = u + NOISE * reach(system.linearize(x[None], u[None])[1]) * rng.standard_normal(system.nu)
    fx, fu = (block[0] for block in system.linearize(x[None], u[None]))
    lam, dz = np.tile(rng.standard_normal((DIRECTIONS, n)), (2, 1)), rng.standard_normal((DIRECTIONS, n + system.nu))
    dz = np.vstack([dz, -dz])
    dz[:, n:] *= reach(fu)
    first = np.einsum("di,ij,dj->d", lam, np.hstack([fx, fu]), dz)
    second = 0.5 * np.array([d @ whole_hessian(system, x, u, row) @ d for row, d in zip(lam, dz, strict=True)])
    start, here = np.tile(x, (len(dz), 1)), np.tile(system.step(x, u), (len(dz), 1))

    def seen(s: float) -> np.ndarray:
        """Root mean squares of the change, of both models' errors and of the quadratic term."""
        moved = system.step(system.integrate(start, s * dz[:, :n]), u + s * dz[:, n:])
        change = np.sum(lam * system.difference(here, moved), axis=1)
        rows = change, change - s * first, change - s * first - s * s * second, s * s * second
        return np.sqrt(np.mean(np.square(rows), axis=1))

    size, *largest, _ = seen(LARGEST)
    exact, s = [error <= ROUNDING * size for error in largest], LARGEST
    while s > SMALLEST and not exact[1]:
        _, _, remainder, quadratic = seen(s)
        if remainder <= SHARE * quadratic:
            break
        s *= 0.5
    steps = s * HALVINGS
    errors = np.array([seen(each) for each in steps])[:, 1:3].T
    orders = [None if none else slope(steps, each) for none, each in zip(exact, errors, strict=True)]
    return {**dict(zip(WANTED, orders, strict=True)), "step": s}


def whole_hessian(system: System, x: np.ndarray, u: np.ndarray, lam: np.ndarray) -> np.ndarray:
    """Of lam'f at a point, in (dx, du)."""
    Hxx, Hux, Huu = (block[0] for block in system.hessian_products(x[None], u[None], lam[None]))
    return np.block([[Hxx, Hux.T], [Hux, Huu]])


def slope(steps: np.ndarray, errors: np.ndarray) -> float:
    """On a log-log plot."""
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])
