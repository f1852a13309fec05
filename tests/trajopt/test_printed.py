"""Tables as text and as HTML."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import problems
import trajopt
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
