"""Tables as text and as HTML."""

import re
from dataclasses import is_dataclass, replace
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console

import dynamics
import problems
import trajopt
from dynamics import rods
from dynamics.formats.robot_files import Remarks
from dynamics.printed import LONGEST, in_brief
from problems.quadruped_model import FEET, quadruped, standing
from trajopt.printed import PrintedAsTable, as_html, new_table

HOSTILE = '<b>&[/red]"[bold]'


@pytest.fixture(scope="module")
def solution():
    return trajopt.DDP(max_iterations=2).solve(problems.make("pendulum_limits"))


def cells(html, *tags):
    tree = ElementTree.fromstring(html.replace("<br>", "<br/>"))
    return ["".join(cell.itertext()) for tag in tags or ("td",) for cell in tree.iter(tag)]


def test_html_has_what_the_text_has(solution):
    for thing in (solution, solution.problem, trajopt.compare(solution.problem, {"ilqr": trajopt.ILQR()})):
        words = {word for cell in cells(thing._repr_html_()) for word in cell.split()}
        assert len(words) > 5 and words <= {*str(thing).split()}


def test_headings_are_whole():
    table = new_table("one")
    table.add_column("itera-\ntions")
    table.add_column("gradient\nnorm", justify="right")
    table.add_row("1", "[red]2\n3")
    html = as_html(table)
    assert cells(html, "th") == ["iterations", "gradient norm"] and "<strong>2<br>3</strong>" in html
    assert 'style="text-align:right"' in html and "color:inherit" in html


def test_names_are_no_marks(solution):
    """Neither of HTML nor of rich."""
    problem = replace(solution.problem, name=HOSTILE)
    for thing in (problem, replace(solution, problem=problem), trajopt.compare(problem, {HOSTILE: trajopt.ILQR()})):
        html = thing._repr_html_()
        assert "<b>" not in html and HOSTILE in "".join(cells(html, "caption", "td"))
        assert HOSTILE in str(thing)


def test_names_are_no_codes_of_terminals(solution):
    """Wherever text is made of names, those of a file among them."""
    code = "\x1b[2J\x9b31m\r\x07name"
    shown = r"\x1b[2J\x9b31m\r\x07name"
    bounds = trajopt.ResidualConstraint(trajopt.StateResidual(solution.problem.system), -9.0, 9.0, name=code)
    problem = replace(solution.problem, name=code, constraints=[bounds])
    reports = tuple(report._replace(name=code) for report in solution.constraints)
    odd = replace(solution, problem=None, constraints=reports, cause=code, message=code, not_taken_over=(code,))
    comparison = trajopt.compare(problem, {code: trajopt.ILQR(max_iterations=1)})
    texts = [str(problem), str(odd), odd.explain(), str(comparison), repr(comparison), repr(odd.constraints[0])]
    remarks = Remarks("file")
    remarks.add("not read", code)
    with pytest.warns(UserWarning) as warned:
        remarks.warn()
    for text in (*texts, str(warned[0].message)):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text) and shown.replace("[", "") in text.replace("[", "")
    console = Console(force_terminal=True, width=200)
    with console.capture() as drawn:
        console.print(problem)
    assert "\x1b[2J" not in drawn.get() and "\x9b" not in drawn.get() and r"\x1b[2J" in drawn.get()


def test_a_solution_says_what_is_wrong_with_it(solution):
    text = str(solution)
    assert re.search(r"status +max_iterations", text) and "control bounds active at" in text
    gaps = np.zeros_like(solution.gaps)
    gaps[3, 0] = 0.25
    assert re.search(r"largest gap +2\.5e-01", str(replace(solution, gaps=gaps)))
    assert str(replace(solution, problem=None)).startswith("solution\n")


def test_a_problem_says_what_counts_where():
    system = problems.make("pendulum").system
    here = [trajopt.StateCost(system, np.zeros(2), 1.0, at=at) for at in (slice(3, 6), [1, 8], "terminal")]
    slow = trajopt.StateBounds(system, -9.0, 9.0, at=[2, 4, 6, 8, 9], name="slow")
    limits, costs = [trajopt.ControlBounds(-1.0, 1.0), slow], [trajopt.ControlCost(1.0), *here]
    text = str(trajopt.Problem(system, np.zeros(2), 10, costs, constraints=limits, name="one"))
    rows = [re.split("  +", line.strip()) for line in re.sub("(cost|constraint) ", r"\1  ", text).splitlines()[4:]]
    assert rows == [
        ["running cost", "ControlCost", "0 to 9"],
        ["running cost", "StateCost", "1, 3 to 5, 8"],
        ["terminal cost", "StateCost", "10"],
        ["constraint", "control bounds", "0 to 9"],
        ["constraint", "slow", "2, 4, 6 and 1 more"],
    ]


def test_every_table_is_of_one_kind():
    kinds = (trajopt.Problem, trajopt.Solution, trajopt.Comparison, trajopt.ManySolutions, trajopt.DerivativeReport)
    assert all(issubclass(kind, PrintedAsTable) for kind in kinds)


# ------------------------------------------------------------------------------------------------ results in brief
NO_RESULTS = {
    "DDP", "ILQR", "LoopOptions", "PreparedSolver", "ParametricProblem", "Problem", "Sphere", "Cylinder", "Lines",
    "Target",
}  # fmt: skip
"""What users make, or what has a form of its own."""


@pytest.fixture(scope="module")
def results():
    """An instance of every result, by its class, with the number that says most of it as it is printed."""
    problem = problems.make("pendulum_limits")
    bound = trajopt.StateBounds(problem.system, -9.0, 9.0, name="speed")
    problem = replace(problem, constraints=[*problem.constraints, bound])
    solution = trajopt.DDP().solve(problem)
    assert solution.converged
    error, between = solution.discretization_error(), solution.violation_between_knots()
    n, N, m = problem.system.ndx, *solution.us.shape
    arrays = np.full((N, n), 0.1), np.full((N, m), 0.2), np.full((N + 1, n), 0.3)
    directional = trajopt.Directional(*arrays, (np.zeros((N, 1)),))

    def make_problem(p):
        return replace(problem, x0=problem.x0 + p)

    found = trajopt.sensitivity(make_problem, np.zeros(2), solution)
    feedback = trajopt.DDP().prepare(problem).prepare_step(problem.x0, warm_start=solution)
    singular = trajopt.SingularPoint(0.25, np.zeros(100), 1e-3)
    family = trajopt.Continuation(
        "fold", "The branch turns back.", np.linspace(0.0, 0.25, 50), tuple(np.zeros((50, 100))), np.zeros((50, 100)),
        tuple(f"p[{i}]" for i in range(100)), (solution,) * 50, (directional,) * 50, np.ones(50), np.ones(50, int),
        np.ones(50, int), np.ones(50, int), np.ones(50, int), np.zeros(50, bool), singular, None, None,
    )  # fmt: skip
    outcome = trajopt.Outcome(np.zeros(100), solution, None, None, 0.125)
    many = trajopt.ManySolutions((outcome,) * 100, make_problem, None)
    batch = trajopt.DDP().prepare(problem).solve_batch(np.array([problem.x0, problem.x0 + 0.1]), progress=False)
    report = trajopt.check_derivatives(problem.system)
    worst = max(block.error for block in report.blocks)
    noise = solution.covariance(np.eye(n))
    expansion = trajopt.expand(problem, solution.xs, solution.us)
    equilibrium = rods.StaticEquilibrium(np.zeros(99), True, "converged", 7, 1e-9, np.zeros(0), {}, True, 0)
    held = rods.Reactions(np.zeros(99), np.zeros(9), {"slide": np.zeros(1)})
    changed = rods.EquilibriumChange(np.zeros((99, 9)), np.zeros((3, 9)), {})
    branch = rods.EquilibriumBranch(
        np.linspace(0.0, 3.0, 99), *np.zeros((4, 99, 99)), np.array([1.5]), *np.zeros((2, 1, 99)), ("limit",),
        "converged",
    )  # fmt: skip
    motion = rods.Simulation(
        np.linspace(0.0, 2.5, 999), *np.zeros((2, 999, 99)), 998, 3, 4, *np.zeros((3, 999, 9)), None
    )
    touching = trajopt.ContactReport(("left", "right"), *np.zeros((5, 2)))
    pairs = [
        (solution, f"cost={solution.cost:.6g}"), (trajopt.compare(problem, {"ddp": trajopt.DDP()}), "ddp='converged'"),
        (error, f"{error.in_words(False).split()[3]}"), (between, f"{between.violation:.2g}"),
        (between.constraints[0], "violation="), (solution.policy(), f"horizon={solution.times[-1]:.6g}"),
        (solution.constraints[1], f"violation={solution.constraints[1].violation:.6g}"), (solution.log[0], "cost="),
        (trajopt.Progress(solution.log[1], solution.xs, solution.us), "iteration=1"),
        (solution.warm_start(), "constraints: 2"), (solution.resample(0.01), f"duration={solution.times[-1]:.6g}"),
        (trajopt.simulate(solution), "largest_deviation="), (touching, "pulls=[0. 0.]"),
        (found, "labels=('p[0]', 'p[1]')"),
        (directional, f"xs: ({N}, {n})"), (feedback, "kind='exact'"), (solution.certificate(), "smallest_eigenvalue="),
        (noise, f"cost_increase={noise.cost_increase:.6g}"), (solution.laplace(), "log_determinant="),
        (expansion, f"fx: ({N}, {n}, {n})"), (singular, "position=0.25"), (family, "points=50"),
        (outcome, "seconds=0.125"), (many, "success_rate=1"), (batch, "solves=2"),
        (report, f"largest_error={worst:.6g}"),
        (report.blocks[0], "error="), (trajopt.WeakLimit("speed", 3, 0, 1), "knot=3"),
        (held, "forces: 1 of them"), (changed, "q: (99, 9)"),
        (equilibrium, "residual=1e-09"), (branch, "points=99"), (motion, "duration=2.5"),
        (rods.VibrationModes(np.linspace(1.0, 50.0, 99), *np.zeros((2, 99))), "lowest=[1.  1.5 2. ]"),
    ]  # fmt: skip
    plan = [(5, ()), (9, ("lf_foot",)), (5, ())]
    gait = dynamics.Gait(quadruped(), standing(), FEET, plan, (0.05, 0.0, 0.0), 0.03, 0.01)
    far, still = {FEET[0]: [0.0, 0.0, -9.0]}, ["floating_base"]
    posture = dynamics.inverse_kinematics(quadruped(), far, standing(), fixed=still, tries=1)
    pairs += [(posture, f"missed='{FEET[0]} by {posture.missed[FEET[0]].distance:.3g} m'")]
    pairs += [(gait, "20 knots"), (gait.swings[0], "start=5"), (gait.friction_cones(0.6)[0], "name='friction of")]
    return {type(result): (result, number) for result, number in pairs}


def test_every_result_is_printed_in_brief(results):
    """A few lines at most, with the number that matters, however many numbers there are."""
    for kind, (result, number) in results.items():
        shown = repr(result)
        assert len(shown) <= LONGEST and shown.count("\n") < 12 and shown.startswith(f"{kind.__name__}("), shown
        assert number in shown, shown
    solution = results[trajopt.Solution][0]
    assert len(repr(solution.constraints)) < 200 * len(solution.constraints)
    assert str(results[trajopt.DiscretizationError][0]).count("rad") >= 1


def test_no_result_is_left_out(results):
    """Every public class that is a record of fields is a result, and printed above, or known to be none."""
    public = {name: getattr(trajopt, name) for name in trajopt.__all__}
    records = {name for name, kind in public.items()
               if isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields"))}  # fmt: skip
    assert records - NO_RESULTS == {kind.__name__ for kind in results if kind.__module__.startswith("trajopt")}


def test_what_is_printed_of_fields():
    class Record(NamedTuple):
        number: float
        few: np.ndarray
        many: np.ndarray
        words: str
        pairs: tuple[int, ...]
        arrays: tuple[np.ndarray, ...]
        none: None
        thing: object

    record = Record(1.0 / 3.0, np.arange(3.0), np.zeros((4, 5)), 200 * "a", (1, 2), (np.zeros(9),) * 2, None, re)
    words = 157 * "a"
    assert in_brief(record, also=np.float64(0.5)) == (
        f"Record(also=0.5, number=0.333333, few=[0. 1. 2.], many: (4, 5), words='{words}...', pairs=(1, 2), "
        "arrays: 2 arrays, none=None, thing: module)"
    )
    assert in_brief(record, "few", number=2) == "Record(number=2, few=[0. 1. 2.])"
    long = in_brief(record, **{f"word_{i}": 100 * "b" for i in range(20)})
    assert len(long) <= LONGEST and long.endswith(", ...)")
