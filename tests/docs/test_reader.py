"""What a reader asks first is answered within two clicks from the front page."""

import pytest

from tests.docs.built import as_path, neighbours, page

pytestmark = pytest.mark.docs

QUESTIONS = {
    "which integrator": ("how_to/discretization.html", "RK4 at 10 to 30 ms for plans that are executed as they are"),
    "how to limit torque": ("how_to/limits.html", "To limit torques, give trajopt.ControlBounds"),
    "how to add an obstacle": ("how_to/obstacles.html", "trajopt.ResidualConstraint(avoid"),
    "why did it stop": ("how_to/why_did_it_stop.html", "solution.explain() says what happened, where, and what to try"),
    "how to warm start": ("how_to/warm_starts.html", "solve(problem, warm_start=solution)"),
    "how to use my function": ("how_to/own_dynamics.html", "Any function of a state and a control can be a system"),
    "what does hessian= choose": ("derivatives.html", "option hessian= of trajopt.DDP says when it is known"),
}


def within_two_clicks(site):
    """Pages -> clicks from the front page."""
    start = as_path(site, "index.html")
    clicks, edge = {start: 0}, [start]
    for count in (1, 2):
        found = {other for path in edge for other in neighbours(path) if other.suffix == ".html" and other.exists()}
        edge = sorted(found - set(clicks))
        clicks |= dict.fromkeys(edge, count)
    return clicks


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered(site, question):
    name, answer = QUESTIONS[question]
    path = as_path(site, name)
    assert within_two_clicks(site).get(path, 3) <= 2
    said = ["".join(text.split()) for text in (answer, page(path).text)]  # tokens of code stand apart
    assert said[0] in said[1]
