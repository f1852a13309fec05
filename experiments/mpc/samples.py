"""What is left to do when the state and the target are sampled: nothing but a product, an iteration, a solve.

Schemes in closed loop, and how far their controls are off the best ones for the same state and target.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import problems
import trajopt
from experiments.mpc.arm import DT, NOISE, PATHS, SAMPLES, aimed_at, cost_of, follow
from trajopt.results.feedback import Feedback

CONVERGED = "converged"
AFTER = {
    "one iteration after the sample, iLQR": trajopt.ILQR(max_iterations=1),
    "one iteration after the sample, DDP": trajopt.DDP(max_iterations=1),
}
X_ONLY = "prepared, x only"
PREPARED = {
    X_ONLY: {},
    "prepared, x and target, Gauss-Newton": {"exact": False},
    "prepared, x and target, exact": {"exact": True},
}
SCHEMES = (CONVERGED, *AFTER, *PREPARED)
CALLS, TURNS = 20_000, 100


class Best:
    """The best control for any state and target, by DDP to convergence."""

    def __init__(self) -> None:
        self.prepared, self.plan, self.missed = trajopt.DDP().prepare(follow()), None, 0

    def __call__(self, x: np.ndarray, target: np.ndarray) -> np.ndarray:
        self.prepared.update(aimed_at(target))
        self.plan = self.prepared.solve(x, warm_start=None if self.plan is None else self.plan.shifted())
        self.missed += not self.plan.converged
        return self.plan.us[0]


class Iterated:
    """An iteration when the sample has arrived."""

    def __init__(self, scheme: str, x: np.ndarray, target: np.ndarray) -> None:
        self.prepared = AFTER[scheme].prepare(follow())
        self.prepared.update(aimed_at(target))
        plan = trajopt.DDP().solve(self.prepared.at(x))
        self.start, self.seconds, self.steps = plan.warm_start()._replace(xs=plan.xs), [], Counter()

    def control(self, x: np.ndarray, target: np.ndarray) -> np.ndarray:
        """For a sample."""
        begin = time.perf_counter()
        self.prepared.update(aimed_at(target))
        plan = self.prepared.solve(x, warm_start=self.start)
        self.seconds.append(time.perf_counter() - begin)
        self.steps[plan.log[0].step] += 1
        self.start = plan.shifted()
        return plan.us[0]


class Prepared:
    """All but a product before the sample arrives."""

    def __init__(self, scheme: str, x: np.ndarray, target: np.ndarray) -> None:
        self.blind, self.options = scheme == X_ONLY, PREPARED[scheme]
        solver = trajopt.DDP(max_iterations=1) if self.options.get("exact", True) else trajopt.ILQR(max_iterations=1)
        self.prepared, self.kinds, self.steps = solver.prepare(follow(), aimed_at), Counter(), Counter()
        self.seconds, self.preparing = [], []
        self.prepared.update(aimed_at(target))
        self.feedback = self._prepare(x, target, trajopt.DDP().solve(self.prepared.at(x)))

    def control(self, x: np.ndarray, target: np.ndarray) -> np.ndarray:
        """For a sample; then the next one is prepared."""
        begin = time.perf_counter()
        u = self.feedback(x) if self.blind else self.feedback(x, target)
        self.seconds.append(time.perf_counter() - begin)
        plan = self.feedback.plan(x, steps=1) if self.blind else self.feedback.plan(x, target, steps=1)
        self.feedback = self._prepare(self.prepared.problem.system.step(x, u), target, plan)
        return u

    def _prepare(self, x: np.ndarray, target: np.ndarray, plan: Any) -> Feedback:
        begin = time.perf_counter()
        found = self.prepared.prepare_step(x, target, plan, **self.options)
        self.preparing.append(time.perf_counter() - begin)
        self.kinds[found.kind] += 1
        self.steps[found.solution.log[0].step] += 1
        return found


class Loop(NamedTuple):
    """Of one run: errors (SAMPLES,) [N m], the largest of the six torques; cost; kinds of derivatives, and of steps of
    iterations; seconds from samples to controls, and of preparations; solves of the reference that did not converge."""

    errors: np.ndarray
    cost: float
    kinds: Counter
    steps: Counter
    seconds: list[float]
    preparing: list[float]
    missed: int


def closed_loop(scheme: str, targets: np.ndarray, seed: int) -> Loop:
    """One scheme along targets, of which each is known when its sample arrives."""
    problem, rng, best, errors, cost = follow(), np.random.default_rng([seed, 0]), Best(), [], 0.0
    x, system = problem.x0, problem.system
    best(x, targets[0])
    controller = None
    if scheme != CONVERGED:
        controller = (Iterated if scheme in AFTER else Prepared)(scheme, x, targets[0])
    for target in targets[1:]:
        wanted = best(x, target)
        u = wanted if controller is None else controller.control(x, target)
        errors.append(float(np.abs(u - wanted).max()))
        cost += cost_of(x, u, target)
        x = system.step(x, u) + np.r_[np.zeros(6), NOISE * rng.standard_normal(6)]
    counted = (getattr(controller, name, Counter()) for name in ("kinds", "steps"))
    times = (getattr(controller, name, []) for name in ("seconds", "preparing"))
    return Loop(np.array(errors), cost, *counted, *times, best.missed)


def summary(loops: list[Loop]) -> dict[str, Any]:
    """Of the runs of a scheme along a path."""
    errors = np.concatenate([loop.errors for loop in loops])
    seconds = [each for loop in loops for each in loop.seconds]
    preparing = [each for loop in loops for each in loop.preparing]
    return {
        "median": float(np.median(errors)),
        "most": float(np.quantile(errors, 0.9)),
        "cost": float(np.mean([loop.cost for loop in loops])),
        "errors": errors,
        "kinds": dict(sum((loop.kinds for loop in loops), Counter())),
        "steps": dict(sum((loop.steps for loop in loops), Counter())),
        "sample_us": 1e6 * float(np.median(seconds)) if seconds else None,
        "sample_most_us": 1e6 * float(np.quantile(seconds, 0.9)) if seconds else None,
        "preparation_ms": 1e3 * float(np.median(preparing)) if preparing else None,
        "reference_missed": sum(loop.missed for loop in loops),
    }


def latency(calls: int, turns: int) -> dict[str, dict[str, float]]:
    """Microseconds of the call with a state and parameters, many in a row, of the plan for these, and of the
    preparation; of the arm, and of a robot whose states live on a manifold."""
    found = {}
    for name, problem, function, p in (
        ("six-axis arm", follow(), aimed_at, PATHS["circle"](0)[0]),
        ("quadrotor, states on SE(3)", problems.make("quadrotor"), None, {"ControlCost": 1.0}),
    ):
        prepared, system = trajopt.DDP(max_iterations=1).prepare(problem, function), problem.system
        start = trajopt.DDP().solve(problem)
        feedback = prepared.prepare_step(problem.x0, p, start)
        x, warm = system.integrate(problem.x0, np.full(system.ndx, 1e-3)), start.shifted()
        found[name] = {
            key: 1e6 * float(np.median([_seconds(call) for _ in range(count)]))
            for key, call, count in (
                ("feedback_us", lambda f=feedback, x=x, p=p: f(x, p), calls),
                ("plan_us", lambda f=feedback, x=x, p=p: f.plan(x, p, steps=1), turns),
                ("iteration_us", lambda s=prepared, x=x, w=warm: s.solve(x, warm_start=w), turns),
                ("preparation_us", lambda s=prepared, x=x, p=p, w=warm: s.prepare_step(x, p, w), turns),
            )
        }
    return found


def _seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measure_samples(runs: int, seed: int, advance: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """`runs` runs of every scheme along every path; calls `advance` after each."""
    paths: dict[str, Any] = {}
    for scheme in (*AFTER, *PREPARED):
        closed_loop(scheme, PATHS["circle"](seed)[:4], seed)  # compiles what is timed below
    for path, targets in PATHS.items():
        paths[path] = {}
        for scheme in SCHEMES:
            loops = []
            for number in range(runs):
                loops.append(closed_loop(scheme, targets(seed + number), seed + number))
                advance()
            paths[path][scheme] = summary(loops)
    return {"samples": runs * SAMPLES, "time_step": DT, "paths": paths, "latency": latency(CALLS, TURNS)}
