"""Kernels without compilation: the values of compiled ones, in a process of their own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics import plain
from dynamics.algorithms.frames import frame_jacobian
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import relative_error

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-10


def robots():
    """A fixed and a floating one: the last three bodies of an arm, and a box with a leg of two joints."""
    arm = load_reference("ur5")[0].locked(keep=load_reference("ur5")[0].joint_names[-3:])
    builder = dynamics.ModelBuilder()
    builder.add_body("box", "world", dynamics.FreeFlyer(), mass=2.0, inertia=0.1 * np.eye(3))
    builder.add_body("thigh", "box", dynamics.Revolute("x"), mass=0.5, com=(0.0, 0.1, -0.2), inertia=0.02 * np.eye(3))
    builder.add_body("shin", "thigh", dynamics.Revolute("y"), mass=0.3, com=(0.1, 0.0, -0.2), inertia=0.01 * np.eye(3))
    return {"arm": arm, "box": builder.build()}


def values():
    """Algorithms and derivatives of both robots, and parts of a solve, by name."""
    found = {}
    for name, model in robots().items():
        rng = np.random.default_rng(3)
        q, v, tau = random_states(model, 5, rng)
        a, mu = rng.normal(size=(2, *v.shape))
        made = {
            "inverse dynamics": [dynamics.inverse_dynamics(model, q, v, a)],
            "mass matrix": [dynamics.mass_matrix(model, q)],
            "inverse": [dynamics.inverse_mass_matrix(model, q)],
            "forward dynamics": [dynamics.forward_dynamics(model, q, v, tau)],
            "frames": [frame_jacobian(model, q, model.body_names[-1])],
            "first": dynamics.inverse_dynamics_derivatives(model, q, v, a),
            "first, forward": dynamics.forward_dynamics_derivatives(model, q, v, tau),
            "second": dynamics.inverse_dynamics_second_derivatives(model, q, v, a),
            "second, forward": dynamics.forward_dynamics_second_derivatives(model, q, v, tau),
            "Hessian": dynamics.forward_dynamics_hessian(model, q, v, tau, mu),
        }
        found |= {f"{name}: {what} {i}": np.asarray(x) for what, xs in made.items() for i, x in enumerate(xs)}
    solution = trajopt.DDP(max_iterations=3).solve(problems.make("pendulum", horizon=8))
    return found | {"solve: xs": solution.xs, "solve: K": solution.K, "solve: Vxx": solution.Vxx}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Those of a process that compiles nothing."""
    file = tmp_path_factory.mktemp("plain") / "values.npz"
    code = (
        "import sys, numpy\n"
        "from tests.dynamics.test_plain_kernels import values\n"
        "from dynamics.simd import load\n"
        "assert load.__module__ == 'dynamics.plain'\n"
        "numpy.savez(sys.argv[1], **values())"
    )
    environment = {**os.environ, "TRAJOPT_PLAIN_KERNELS": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(file)], env=environment, cwd=ROOT, check=True)
    with np.load(file) as values:
        return dict(values)


def test_values_are_those_of_compiled_kernels(found):
    expected = values()
    assert found.keys() == expected.keys() and len(expected) > 30
    apart = {name: relative_error(x, expected[name]) for name, x in found.items()}
    assert {name: error for name, error in apart.items() if not error < TOLERANCE} == {}


def asked_of(module):
    """Names that files of `dynamics` import from a module of `dynamics.simd`, but for those that compile themselves."""
    of_compiler = {*plain.REPLACED, "dispatchers", "kernel_cache", "kernel_model"}
    for path in (ROOT / "dynamics").rglob("*.py"):
        if path.stem not in of_compiler and path.parent.name != "compilation":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module == f"dynamics.simd.{module}":
                    yield from (alias.name for alias in node.names)


def test_what_other_modules_import_is_there():
    asked = {name for module in plain.REPLACED for name in asked_of(module)}
    assert len(asked) > 40 and [name for name in sorted(asked) if not hasattr(plain, name)] == []
