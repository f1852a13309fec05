"""The public names that are used most have examples, which run and print what they say.

Examples take for granted `import numpy as np, dynamics, problems, trajopt` and `from dynamics import rods`.
"""

import doctest
import inspect
from operator import attrgetter

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics import rods

NAMES = {"np": np, "dynamics": dynamics, "problems": problems, "rods": rods, "trajopt": trajopt}
USED_MOST = (
    "trajopt.Problem", "trajopt.DDP", "trajopt.ILQR", "trajopt.Solution", "trajopt.StateCost", "trajopt.ControlCost",
    "trajopt.ResidualCost", "trajopt.ResidualConstraint", "trajopt.ControlBounds", "trajopt.StateBounds",
    "trajopt.CallableSystem", "trajopt.compare", "trajopt.animate", "trajopt.simulate", "trajopt.check_derivatives",
    "trajopt.waypoints", "dynamics.RigidBodySystem", "dynamics.load_urdf", "dynamics.load_robot",
    "dynamics.frame_placement", "dynamics.FrameTranslation", "dynamics.inverse_dynamics", "dynamics.ModelBuilder",
    "dynamics.Revolute", "dynamics.Gait", "dynamics.inverse_kinematics", "dynamics.RigidBodyModel.with_body",
    "rods.RodModelBuilder", "rods.SoftRobot", "rods.static_equilibrium", "rods.reactions",
    "rods.equilibrium_derivatives",
    "rods.LegendreBasis", "rods.Circular", "problems.make", "problems.model_path",
)  # fmt: skip
"""By uses in README.md, examples/ and tests/; and what a solve returns, which is hardly ever called by name."""
METHODS = {"dynamics": ("RigidBodyModel.with_body",)}
PACKAGES = {"trajopt": trajopt, "dynamics": dynamics, "rods": rods, "problems": problems}


def examples():
    """Name -> what the Examples of every public object say."""
    found = {}
    for package, module in PACKAGES.items():
        names = getattr(module, "__all__", ("make", "model_path", "names", "describe"))
        for name in (*names, *METHODS.get(package, ())):
            text = inspect.getdoc(attrgetter(name)(module)) or ""
            if "\nExamples\n--------\n" in text:
                found[f"{package}.{name}"] = text.split("\nExamples\n--------\n")[1]
    return found


EXAMPLES = examples()


def test_those_used_most_have_short_examples():
    assert not set(USED_MOST) - set(EXAMPLES)
    assert all(3 <= len(text.splitlines()) <= 8 for text in EXAMPLES.values())


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], dict(NAMES), name, name, 0)
    told = []
    assert test.examples and not doctest.DocTestRunner().run(test, out=told.append).failed, "".join(told)


def test_an_example_that_is_wrong_fails():
    """The runner tells."""
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", "wrong", 0)
    assert doctest.DocTestRunner().run(test, out=lambda text: None).failed == 1
