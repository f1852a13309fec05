"""Exported solves: in C programs the same bits as in Python, of solves, cycles of predictive control, parameters."""

import dataclasses
import platform
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import problems
import trajopt
from dynamics.simd.c_library import identifier
from tests.c_libraries import OLDER, Loaded, needs_cc, succeeds
from trajopt.solvers.alone import MEANINGS, PLAN
from trajopt.solvers.export import Solves, solves_of, write_solves

SOLVER = trajopt.DDP()
CYCLES = 4


# ------------------------------------------------------------------------------------------------ seven problems
def arm():
    """The arm, within the limits of its motors."""
    problem = problems.make("arm", horizon=20, dt=0.05)
    return dataclasses.replace(problem, constraints=[trajopt.ControlBounds.from_model(problem.system)])


def ball():
    """The arm past a ball."""
    return problems.make("arm_obstacle")


def quadrotor():
    """A short flight, from states that hover."""
    problem = problems.make("quadrotor", horizon=15)
    goal = problem.objective.terms[0].cost.reference
    x0 = problem.system.integrate(goal, np.r_[0.02, -0.01, 0.02, np.zeros(9)])
    return dataclasses.replace(problem, x0=x0, xs_init=np.tile(x0, (16, 1)))


def soft_ball():
    """The same, whose distance costs what it is missed by."""
    return problems.make("arm_obstacle")


def stand():
    """The quadruped on four feet, which move no farther than friction allows."""
    return problems.make("quadruped_stand")


def pendulum_on_a_cart(x, u):
    s, c, m, M, length, g = np.sin(x[1]), np.cos(x[1]), 0.1, 1.0, 0.5, 9.81
    a = (u[0] + m * s * (length * x[3] ** 2 + g * c)) / (M + m * s * s)
    w = (-u[0] * c - m * length * x[3] ** 2 * c * s - (M + m) * g * s) / (length * (M + m * s * s))
    return np.array([x[2], x[3], a, w])


def cartpole():
    """A function of the user, for which the first controls lead away."""
    system = trajopt.CallableSystem(xdot=pendulum_on_a_cart, nx=4, nu=1, dt=0.05)
    x0, goal = np.array([0.1, np.pi - 0.1, 0.0, 0.0]), np.array([0.0, np.pi, 0.0, 0.0])
    running = [trajopt.StateCost(system, goal, np.full(4, 0.1)), trajopt.ControlCost(np.array([1e-2]))]
    terminal = [trajopt.StateCost(system, goal, np.full(4, 100.0))]
    return trajopt.Problem(
        system, x0, 20, running, terminal, constraints=[trajopt.ControlBounds(-20.0, 20.0)], name="cartpole"
    )  # fmt: skip


def soft():
    """The soft manipulator, with tendons that may push."""
    problem = problems.make("soft_manipulator_reach", horizon=8)
    limits = [trajopt.ControlBounds(-50.0, 80.0)]
    return dataclasses.replace(problem, us_init=np.full((8, 5), 10.0), constraints=limits)


CASES = arm, ball, soft_ball, quadrotor, stand, cartpole, soft
SOFT = trajopt.DDP(soft_penalty=1e3)


class Exported(NamedTuple):
    """A library in a folder, the problem, the same solves in this process, and their solver."""

    folder: Path
    name: str
    problem: trajopt.Problem
    solves: Solves
    solver: trajopt.DDP = SOLVER


def exported(make, folder: Path, target: str = "native") -> Exported:
    problem, solver = make(), SOFT if make is soft_ball else SOLVER
    solves = solves_of(problem, solver, solver._curvature())
    write_solves(solves, folder, make.__name__, target)
    return Exported(folder, make.__name__, problem, solves, solver)


@pytest.fixture(scope="module")
def of_arm(tmp_path_factory):
    """Written as users do."""
    problem, solves = arm(), solves_of(arm(), SOLVER, SOLVER._curvature())
    folder = SOLVER.prepare(problem).export(tmp_path_factory.mktemp("arm") / "arm", "arm")
    return Exported(folder, "arm", problem, solves)


@pytest.fixture(scope="module", params=CASES, ids=lambda make: make.__name__)
def native(request, tmp_path_factory):
    if request.param is arm:
        return request.getfixturevalue("of_arm")
    return exported(request.param, tmp_path_factory.mktemp("native") / request.param.__name__)


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    return exported(cartpole, tmp_path_factory.mktemp("older") / "cartpole", OLDER)


# ------------------------------------------------------------------------------------------------ the same in C
KEPT = "status", "iterations", "asked", "cost", "violation", "us", "xs", "K"

PROGRAM = r"""
#include <stdio.h>
#include "NAME.h"

static void keep(NAME_t *self, FILE *found) {
    KEEP
}

int main(int count, char **names) {
    NAME_t *self = NAME_create(), *other = NAME_create();
    FILE *given = count == 3 ? fopen(names[1], "rb") : NULL, *found = count == 3 ? fopen(names[2], "wb") : NULL;
    if (!self || !other || !given || !found || NAME_solve(self))
        return 2;
    keep(self, found);
    while (fread(NAME_x0(self), 8, UPPER_x0_SIZE, given) == UPPER_x0_SIZE) {
        if (NAME_cycle(self))
            return 3;
        keep(self, found);
    }
    if (NAME_begin(other))
        return 4;
    while (*NAME_status(other) == UPPER_RUNNING)
        if (NAME_step(other))
            return 5;
    keep(other, found);
    fclose(given);
    fclose(found);
    NAME_free(self);
    NAME_free(other);
    return 0;
}
"""


def states(made: Exported) -> np.ndarray:
    """Measured states, close to those of the plan."""
    system, rng = made.problem.system, np.random.default_rng(3)
    plan = made.solver.solve(made.problem)
    return system.integrate(plan.xs[1 : 1 + CYCLES], 1e-3 * rng.standard_normal((CYCLES, system.ndx)))


def here(made: Exported, xs: np.ndarray) -> list[dict[str, np.ndarray]]:
    """What is kept of a solve and of cycles from these states, and of the solve again, in this process."""
    entries, arrays, found = made.solves.entries, made.solves.arrays, []
    made.solves.reset()
    entries["solve"]()
    for x in (None, *xs):
        if x is not None:
            arrays["x0"][...] = x
            entries["cycle"]()
        found.append({name: arrays[name].copy() for name in KEPT})
    made.solves.reset()
    return [*found, found[0]]


def in_c(made: Exported, xs: np.ndarray, folder: Path, *options: str, compiler="cc", under=()) -> list[dict[str, Any]]:
    """The same of a program in C."""
    source, given, found = folder / "main.c", folder / "given", folder / "found"
    keep = "\n".join(f"    fwrite(NAME_{name}(self), 8, UPPER_{name}_SIZE, found);" for name in KEPT)
    text = PROGRAM.replace("KEEP", keep).replace("NAME", made.name).replace("UPPER", made.name.upper())
    source.write_text(text, encoding="utf-8")
    given.write_bytes(xs.tobytes())
    strict = "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(made.folder)
    succeeds(compiler, *strict, str(source), "-o", str(folder / "main"), *options)
    succeeds(*under, str(folder / "main"), str(given), str(found))
    content, start, kept = found.read_bytes(), 0, []
    for _ in range(len(xs) + 2):
        kept.append({})
        for name in KEPT:
            array = made.solves.arrays[name]
            flat = np.frombuffer(content, array.dtype, array.size, start)
            kept[-1][name], start = flat.reshape(array.shape), start + array.nbytes
    assert start == len(content)
    return kept


def static(made: Exported) -> tuple[str, str]:
    return str(made.folder / f"lib{made.name}.a"), "-lm"


def assert_same(found, expected):
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        for name in KEPT:
            assert one[name].tobytes() == other[name].tobytes(), (i, name)


@needs_cc
def test_the_same_bits_as_in_python(native, tmp_path):
    """A solve is that of the solver, with the gains that it deploys, and cycles are its real-time iterations."""
    xs = states(native)
    expected, plan = here(native, xs), native.solver.solve(native.problem)
    assert_same(in_c(native, xs, tmp_path, *static(native)), expected)
    first, prepared = expected[0], dataclasses.replace(native.solver, max_iterations=1).prepare(native.problem)
    assert MEANINGS[int(first["status"][0])] == plan.status == "converged"
    assert (int(first["iterations"][0]), float(first["cost"][0])) == (plan.iterations, plan.cost)
    assert first["us"].tobytes() == plan.us.tobytes() and first["xs"].tobytes() == plan.xs.tobytes()
    assert first["K"].tobytes() == plan.K.tobytes()
    for x, cycle in zip(xs, expected[1:], strict=False):
        plan = prepared.solve(x, warm_start=plan.shifted())
        assert cycle["us"].tobytes() == plan.us.tobytes()
        stepped = plan.log[0].alpha > 0.0 or plan.converged
        assert MEANINGS[int(cycle["status"][0])] == (plan.status if stepped else "line_search_failed")
        np.testing.assert_allclose(cycle["violation"], plan.violation, rtol=1e-12, atol=1e-15)


@needs_cc
def test_programs_with_the_shared_library(of_arm, tmp_path):
    xs = states(of_arm)
    shared = "-L", str(of_arm.folder), f"-l{of_arm.name}", f"-Wl,-rpath,{of_arm.folder}"
    assert_same(in_c(of_arm, xs, tmp_path, *shared), here(of_arm, xs))


@needs_cc
@pytest.mark.parametrize("checker", ["sanitizer", "valgrind"])
def test_checked_programs(older, checker, tmp_path):
    """For an older processor, with checks of undefined behaviour, and of all accesses to memory."""
    options, under = ("-g", "-fsanitize=undefined", "-fno-sanitize-recover=all"), ()
    if checker == "valgrind":
        if shutil.which("valgrind") is None:
            pytest.skip("no valgrind on the PATH")
        options, under = ("-g",), ("valgrind", "-q", "--error-exitcode=9", "--leak-check=full")
    xs = states(older)
    found, expected = in_c(older, xs, tmp_path, *options, *static(older), under=under), here(older, xs)
    assert_close(found, expected)


def assert_close(found, expected):
    """Solves of other processors, whose last bits may differ."""
    for one, other in zip(found, expected, strict=True):
        assert one["status"] == other["status"]
        np.testing.assert_allclose(one["us"], other["us"], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(one["K"], other["K"], rtol=1e-5, atol=1e-5)


def test_a_library_for_arm_processors(tmp_path):
    if platform.machine() != "x86_64":
        pytest.skip("this is no x86-64 that compiles for other processors")
    for needed in ("aarch64-linux-gnu-gcc", "qemu-aarch64-static"):
        if shutil.which(needed) is None:
            pytest.skip(f"no {needed} on the PATH")
    made = exported(cartpole, tmp_path / "cartpole", "aarch64")
    xs, options = states(made), ("-static", *static(made))
    found = in_c(made, xs, tmp_path, *options, compiler="aarch64-linux-gnu-gcc", under=("qemu-aarch64-static",))
    assert_close(found, here(made, xs))


MANY = r"""
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "cartpole.h"

static long memory(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

int main(void) {
    cartpole_t *self = cartpole_create();
    double us[CARTPOLE_us_SIZE], x0[CARTPOLE_x0_SIZE];
    long before = 0;
    if (!self || cartpole_solve(self))
        return 2;
    for (int cycle = 0; cycle < 100000; cycle++) {
        memcpy(x0, cartpole_xs(self) + CARTPOLE_xs_DIM1, sizeof x0);
        x0[1] += cycle % 100 == 0 && cycle < 99000 ? 0.01 : 0.0;
        memcpy(cartpole_x0(self), x0, sizeof x0);
        if (cartpole_cycle(self) || !(fabs(*cartpole_cost(self)) < 1.0))
            return 3;
        if (cycle == 1000)
            before = memory();
    }
    memcpy(us, cartpole_us(self), sizeof us);
    for (int i = 0; i < CARTPOLE_us_SIZE; i++)
        if (!(fabs(us[i]) < 1e-6))
            return 4;
    cartpole_free(self);
    return memory() != before;
}
"""


@needs_cc
def test_many_cycles(older, tmp_path):
    """100,000 cycles take no more memory than 1,000; pushed again and again, the pole still comes to rest."""
    tmp_path.joinpath("main.c").write_text(MANY, encoding="utf-8")
    program = str(tmp_path / "main")
    succeeds("cc", "-std=gnu11", "-I", str(older.folder), str(tmp_path / "main.c"), *static(older), "-o", program)
    succeeds(program)


# ------------------------------------------------------------------------------------------------ from Python
@needs_cc
def test_parameters_in_the_units_of_the_problem(of_arm):
    """Solves from the first start with other targets, weights and limits, one after another."""
    library, prepared = Loaded(of_arm.folder, of_arm.name), SOLVER.prepare(of_arm.problem)
    R, p = problems.make("arm").objective.terms[2].cost.residual.target
    pose = "terminal placement of tool"
    changes = [
        {pose: {"target": (R, p + [0.01, -0.01, 0.01])}},
        {pose: {"weights": np.repeat([2e3, 3e2], 3)}},
        {"StateCost": {"weights": np.full(12, 0.2)}, "ControlCost": {"weights": np.full(6, 7e-4)}},
        {"control bounds": {"upper": np.full(6, 200.0)}},
    ]
    for change in changes:
        prepared.update(change)
        for term, values in change.items():
            for attribute, value in values.items():
                name = f"{term.replace(' ', '_')}_{attribute}"
                if isinstance(value, tuple):
                    library[f"{name}_rotation"][...], library[f"{name}_translation"][...] = value
                else:
                    library[name][...] = value
        library["us"][...] = of_arm.problem.us_init
        library("solve")
        expected = prepared.solve()
        assert library["asked"][0] == 0, change
        assert library["us"].tobytes() == expected.us.tobytes(), change
        assert library["K"].tobytes() == expected.K.tobytes(), change
    library.close()


@needs_cc
def test_solves_from_elsewhere(of_arm):
    """Objects share nothing; a solve from its own plan is over at once; one from another state begins with the gains of
    the plan."""
    library, other = Loaded(of_arm.folder, of_arm.name), Loaded(of_arm.folder, of_arm.name)
    library("solve")
    plan = library["us"].copy()
    library["start"][0] = 2
    library("solve")
    assert library["iterations"][0] <= 1 and not other["K"].any()
    K, us, xs = (library[name].copy() for name in ("K", "us", "xs"))
    x0 = of_arm.problem.x0 + 0.01
    library["x0"][...] = x0
    library("begin")
    np.testing.assert_allclose(library["xs"][0], x0)
    u = us[0] + K[0] @ (x0 - xs[0])
    np.testing.assert_allclose(library["us"][0], np.clip(u, *of_arm.problem.control_limits)[0], rtol=1e-6)
    library["max_iterations"][0] = 1
    library("solve")
    assert MEANINGS[int(library["status"][0])] == "max_iterations"
    library["start"][0], library["us"][...] = 0, 1e200
    library("solve")
    assert MEANINGS[int(library["status"][0])] == "diverged"
    library["x0"][...], library["us"][...] = of_arm.problem.x0, of_arm.problem.us_init
    library["max_iterations"][0] = 500
    library("solve")
    assert library["us"].tobytes() == plan.tobytes(), "what was not finite is forgotten"
    library.close()
    other.close()


def test_cycles_tell_by_how_much_controls_exceed_limits_that_are_rows(rng):
    """By the violation, which is the largest one of constraints; the limits of other cycles are kept."""
    problem, largest = problems.make("pendulum_limits", horizon=60), 0.0
    for kind in "augmented_lagrangian", "box":
        solver = dataclasses.replace(SOLVER, control_limits=kind)
        made = solves_of(problem, solver, solver._curvature())
        made.entries["solve"]()
        for _ in range(6):
            arrays = made.arrays
            arrays["x0"][...] = arrays["xs"][1] + 0.3 * rng.standard_normal(2)
            made.entries["cycle"]()
            excess = np.abs(arrays["us"] - arrays["us"].clip(*problem.control_limits)).max()
            assert arrays["violation"] == pytest.approx(excess, rel=1e-12, abs=1e-15)
            largest = max(largest, excess)
        assert (largest > 0.0) == (kind == "augmented_lagrangian")
        largest = 0.0


def test_soft_constraints_with_other_limits():
    """The penalty stays what it is; a solve from its own plan is over at once."""
    made = solves_of(soft_ball(), SOFT, SOFT._curvature())
    entries, arrays, prepared = made.entries, made.arrays, SOFT.prepare(soft_ball())
    for lower in (0.1, 0.05):
        arrays["tool_and_ball_lower"][...], arrays["start"][...] = lower, 0
        arrays["us"][...] = soft_ball().us_init
        entries["solve"]()
        prepared.update({"tool and ball": {"lower": lower}})
        plan = prepared.solve()
        assert arrays["cost"] == pytest.approx(plan.cost, rel=1e-6)
        assert arrays["violation"] == pytest.approx(plan.violation, rel=1e-2)
        arrays["start"][...] = PLAN
        entries["solve"]()
        assert arrays["iterations"] <= 1 and arrays["cost"] == pytest.approx(plan.cost, rel=1e-6)


@needs_cc
def test_states_and_targets_that_are_not_finite(of_arm):
    """A plan goes on without them, and without a trace of them."""
    library, other = Loaded(of_arm.folder, of_arm.name), Loaded(of_arm.folder, of_arm.name)
    target = "terminal_placement_of_tool_target_translation"
    for each in (library, other):
        each("solve")
        each["start"][0] = 2
    plan, K, wrong = library["us"].copy(), library["K"].copy(), np.where(np.arange(12) == 7, np.nan, library["xs"][1])
    for entry in ("begin", "step", "solve"):
        library["x0"][...] = wrong
        library(entry)
        assert MEANINGS[int(library["status"][0])] == "not_a_state"
        assert library["us"].tobytes() == plan.tobytes() and library["K"].tobytes() == K.tobytes()
    for each, x in ((library, wrong), (other, other["xs"][1].copy())):
        each["x0"][...] = x
        each("cycle")
    statuses = [MEANINGS[int(each["status"][0])] for each in (library, other)]
    assert statuses == ["not_a_state", "max_iterations"], "what was planned is in its place"
    for name in ("us", "xs", "K", "cost"):
        assert library[name].tobytes() == other[name].tobytes(), name
    right = library[target].copy()
    for entry in ("solve", "cycle"):
        library[target][1], plan = np.nan, library["us"].copy()
        library(entry)
        moved = plan if entry == "solve" else np.r_[plan[1:], library["us"][-1:]]
        assert MEANINGS[int(library["status"][0])] == ("diverged" if entry == "solve" else "invalid_derivatives")
        assert library["us"].tobytes() == moved.tobytes()
        library[target][...], library["start"][0] = right, 2
        library("solve")
        assert MEANINGS[int(library["status"][0])] == "converged"
    for each in (library, other):
        each.close()


@needs_cc
def test_examples(of_arm, tmp_path):
    """Those beside the library compile without warnings, and run."""
    strict = "-Wall", "-Wextra", "-Werror", "-I", str(of_arm.folder)
    for name, compiler, arguments in (
        ("example.c", "cc", ()),
        ("control_loop.c", "cc", ("60",)),
        ("example.cpp", "c++", ()),
    ):
        if shutil.which(compiler) is None:
            pytest.skip(f"no compiler {compiler} on the PATH")
        program = str(tmp_path / name.replace(".", "_"))
        standard = "-std=c++11" if compiler == "c++" else "-std=c11"
        succeeds(compiler, standard, *strict, str(of_arm.folder / name), *static(of_arm), "-o", program)
        said = succeeds(program, *arguments)
        assert "60 cycles" in said if name == "control_loop.c" else "status 1" in said or "converged" in said


@needs_cc
def test_the_readme_lists_all(of_arm):
    readme = (of_arm.folder / "README.md").read_text(encoding="utf-8")
    for name in of_arm.solves.arrays:
        assert f"`{name}`" in readme
    assert "terminal placement of tool.reference" in readme, "what stays as it is"
    assert not {"NAME", "UPPER", "PARAMETERS", "MEANINGS"} & set(readme.replace("`", " ").split())


# ------------------------------------------------------------------------------------------------ what is refused
class InPython(trajopt.StateCost):
    """A cost that nobody can trace."""

    def value(self, xs, us):
        return super().value(xs, us)


def prepared(solver=SOLVER, **changes):
    return solver.prepare(dataclasses.replace(problems.make("pendulum"), **changes))


@needs_cc
def test_terms_in_python_are_named(tmp_path):
    problem = problems.make("pendulum")
    costs = [*problem.running_costs, InPython(problem.system, np.zeros(2), np.ones(2))]
    with pytest.raises(ValueError, match=r"export: InPython is computed in Python, expected problems"):
        prepared(running_costs=costs).export(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@needs_cc
def test_solvers_that_need_python(tmp_path):
    with pytest.raises(ValueError, match="export: got hessian='tensor', expected 'parallel'"):
        prepared(trajopt.DDP(hessian="tensor")).export(tmp_path / "new")


@needs_cc
def test_free_initial_states_are_refused(tmp_path):
    with pytest.raises(ValueError, match="free initial state"):
        prepared(free_initial_state=True).export(tmp_path / "new")


@needs_cc
def test_arguments(tmp_path):
    with pytest.raises(ValueError, match=r"target: got 'mips', expected 'native'"):
        prepared().export(tmp_path / "new", target="mips")
    with pytest.raises(ValueError, match=r"name: got 'a-b', expected a name of ASCII letters"):
        prepared().export(tmp_path / "new", name="a-b")
    with pytest.raises(TypeError, match=r"name: got 3, expected text"):
        prepared().export(tmp_path / "new", name=3)
    with pytest.raises(ValueError, match=r"name: got 'int', a word of C or C\+\+, expected another name"):
        prepared().export(tmp_path / "new", name="int")
    with pytest.raises(TypeError, match=r"folder: got 3, expected a path"):
        prepared().export(3)
    tmp_path.joinpath("file").touch()
    with pytest.raises(NotADirectoryError, match=r"folder: got a place in a file, expected"):
        prepared().export(tmp_path / "file" / "new")
    tmp_path.joinpath("file").touch()
    with pytest.raises(FileExistsError, match=r"folder: got .*, expected a new or empty folder"):
        prepared().export(tmp_path)


def test_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"target: got 'native', which needs the program cc"):
        prepared().export(tmp_path / "new")


def test_names_in_c():
    """Of problems and terms, whatever these are called."""
    assert identifier("terminal placement of tool", "term") == "terminal_placement_of_tool"
    assert identifier("2 links", "term") == "term_2_links" and identifier("π", "problem") == "problem"


def test_terms_whose_names_are_one_in_c():
    problem = problems.make("pendulum")
    states = trajopt.StateResidual(problem.system)
    limits = [trajopt.ResidualConstraint(states, -9.0, 9.0, name=name) for name in ("a b", "a-b")]
    found = solves_of(dataclasses.replace(problem, constraints=limits), SOLVER, SOLVER._curvature()).found
    arrays = {name: each.terms for each in found.parameters for name in each.arrays}
    both = "StateCost", "terminal StateCost"
    assert arrays["StateCost_and_terminal_reference"] == both, "which have one"
    assert arrays["a_b_lower"] == ("a b",) and arrays["a_b_lower_2"] == ("a-b",)
