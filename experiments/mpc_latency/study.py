"""The measurements, as plain dicts: times of cycles, what of them is Python's, and memory over many cycles."""

import cProfile
import gc
import os
import pstats
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

import trajopt
from experiments.mpc_latency.scene import DT, TARGET, follow, target

NOISE = 1e-4
"""Standard deviation of what is added to every number of the state in a cycle."""
WARM_UP, PROFILED = 50, 200
"""Cycles that are not counted; cycles under the profiler."""
SOLVERS = {"iLQR": trajopt.ILQR(max_iterations=1), "DDP": trajopt.DDP(max_iterations=1)}
PARTS = "update", "shift", "solve"


class Loop:
    """A controller in closed loop with its own model: the target moves, the plan is shifted, one iteration is taken."""

    def __init__(self, solver: trajopt.ILQR | trajopt.DDP, constrained: bool, seed: int) -> None:
        self.problem, self.rng = follow(constrained), np.random.default_rng(seed)
        self.prepared, self.time, self.x = solver.prepare(self.problem), 0.0, self.problem.x0
        with warnings.catch_warnings():
            self.plan = trajopt.DDP(max_iterations=100).solve(self.problem)

    def cycle(self) -> list[float]:
        """One cycle; seconds of its `PARTS`."""
        system, self.time = self.problem.system, self.time + DT
        self.x = system.step(self.x, self.plan.us[0]) + NOISE * self.rng.standard_normal(system.nx)
        p = target(self.time)
        times = [time.perf_counter()]
        self.prepared.update({TARGET: p, f"terminal {TARGET}": p})
        times.append(time.perf_counter())
        start = self.plan.shifted()
        times.append(time.perf_counter())
        self.plan = self.prepared.solve(self.x, warm_start=start)
        times.append(time.perf_counter())
        return list(np.diff(times))


def kernel_time(loop: Loop, cycles: int) -> tuple[float, float]:
    """Seconds a cycle in compiled functions, and calls of Python functions a cycle."""
    compiled = {id(thing.py_func.__code__) for thing in gc.get_objects() if issubclass(type(thing), Dispatcher)}
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(cycles):
        loop.cycle()
    profile.disable()
    inside = sum(entry.inlinetime for entry in profile.getstats() if id(entry.code) in compiled)
    return inside / cycles, pstats.Stats(profile).total_calls / cycles  # pyright: ignore[reportAttributeAccessIssue]


def latency(loops: dict[str, Loop], cycles: int, advance: Callable[[], Any]) -> dict[str, Any]:
    """Milliseconds of cycles of all loops, which take turns; then Python's share, from a profile."""
    times: dict[str, list[list[float]]] = {name: [] for name in loops}
    alphas: dict[str, list[float]] = {name: [] for name in loops}
    for i in range(WARM_UP + cycles):
        for name, loop in loops.items():
            parts = loop.cycle()
            if i >= WARM_UP:
                times[name].append(parts)
                alphas[name].append(loop.plan.log[0].alpha)
        advance()
    return {name: summary(loop, np.array(times[name]), alphas[name]) for name, loop in loops.items()}


def summary(loop: Loop, times: np.ndarray, alphas: list[float]) -> dict[str, Any]:
    """Of the times (cycles, 3) and the steps of one loop."""
    whole = 1e3 * times.sum(axis=1)
    median = float(np.median(whole))
    inside, calls = kernel_time(loop, PROFILED)
    return {
        "median_ms": median,
        "fast_ms": float(np.quantile(whole, 0.1)),
        "p99_ms": float(np.quantile(whole, 0.99)),
        "parts_ms": dict(zip(PARTS, (1e3 * np.median(times, axis=0)).tolist(), strict=True)),
        "kernels_ms": 1e3 * inside,
        "python_share": max(0.0, 1.0 - 1e3 * inside / median),
        "python_calls": calls,
        "full_steps": float(np.mean(np.array(alphas) == 1.0)),
    }


def resident() -> int:
    """Bytes of memory that the process holds; 0 where that cannot be told."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def growth(cycles: int, advance: Callable[[], Any]) -> dict[str, Any]:
    """Kilobytes that the process has grown by over so many constrained cycles, after some that fill its caches."""
    loop = Loop(SOLVERS["iLQR"], constrained=True, seed=0)
    for _ in range(4 * WARM_UP):
        loop.cycle()
    gc.collect()
    before = resident()
    for _ in range(cycles):
        loop.cycle()
        advance()
    gc.collect()
    return {"cycles": cycles, "growth_kb": (resident() - before) / 1024.0}


def measure(cycles: int, long: int, seed: int, advance: Callable[[], Any]) -> dict[str, Any]:
    """Latency of all solvers with constraints and without, and growth over `long` cycles."""
    loops = {
        f"{name}, {'constrained' if constrained else 'unconstrained'}": Loop(solver, constrained, seed)
        for constrained in (True, False)
        for name, solver in SOLVERS.items()
    }
    return {"latency": latency(loops, cycles, advance), "memory": growth(long, advance)}
