"""First use on a machine: two processes compile at once.

While this process compiles what an iLQR iteration needs, a second one compiles what exact steps need on top, into the
same cache on disk.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from dynamics.simd import PROGRESS
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import cost_curvature
from trajopt.interfaces.system import semi_implicit_form
from trajopt.problem.problem import Problem
from trajopt.solvers.solver import ILQR


@contextmanager
def compiling_together(problem: Problem, cold: bool, command: Sequence[str]) -> Iterator[None]:
    """If the cache is cold, have everything that solving the problem needs compiled before the body runs.

    `command` are the interpreter's arguments for a process that calls `compile_exact` on the same problem; if it fails,
    its share is compiled here after all.
    """
    if cold:
        other = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            ILQR(max_iterations=1).solve(problem)
            other.wait()
        finally:
            other.kill()
            other.wait()
    yield
    PROGRESS.finish()


def compile_exact(problem: Problem) -> None:
    """Compile the backward sweep and the second-order expansions by using them once at the initial state."""
    system, N = problem.system, problem.horizon
    ndx, nu = system.ndx, system.nu
    zeros = np.zeros((N + 1, ndx)), np.zeros((N, nu))
    hessians = np.tile(np.eye(ndx), (N + 1, 1, 1)), np.zeros((N, nu, ndx)), np.tile(np.eye(nu), (N, 1, 1))
    dt, leading = semi_implicit_form(system)
    sweep((np.zeros((N, ndx, ndx)), np.zeros((N, ndx, nu)), *zeros, *hessians), 0.0, dt, leading=leading)
    xs = np.tile(problem.x0, (N + 1, 1))
    system.hessian_products(xs, problem.us_init, zeros[0][1:])
    cost_curvature(problem, xs, problem.us_init)
