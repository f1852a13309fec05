"""Warnings of the project point at the line of the caller."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import rods
from dynamics.simd import caller
from tests.reference.rod_robots import SOFT, manipulator

BODY = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="{}"/></inertial>'
LINKS = "".join(f'<link name="{name}">{BODY.format(3 if name == "c" else 1)}</link>' for name in "abc")
JOINT = '<joint name="{}{}" type="{}"><parent link="{}"/><child link="{}"/>{}</joint>'
HINGE = JOINT.format("a", "b", "continuous", "a", "b", '<mimic joint="bc"/>')
FAULTY = f'<robot name="r">{LINKS}{HINGE}{JOINT.format("b", "c", "fixed", "b", "c", "")}</robot>'


BASIS = rods.LegendreBasis(bending_y=1)


def load(**options):
    return dynamics.load_urdf(FAULTY, **options)


def build():
    builder = dynamics.ModelBuilder(strict=False)
    body = {"mass": 1.0, "inertia": np.eye(3)}
    builder.add_body("a", "world", dynamics.Revolute("z"), **body)
    builder.add_body("b", "a", dynamics.Fixed(), **body | {"inertia": np.diag([1.0, 1.0, 3.0])})
    return builder.build()


def thick():
    return rods.RodModelBuilder().add_rod("rod", "world", 0.4, rods.Circular(20.0), SOFT, BASIS)


def slack():
    robot = manipulator()
    return rods.static_equilibrium(robot, [1.0, -2.0, 0.0, 1.0, 0.0])


def sucking():
    builder = rods.RodModelBuilder()
    builder.add_rod("rod", "world", 0.4, rods.Circular(0.02), SOFT, BASIS)
    chamber = rods.Chamber("rod", 0.01, 0.0, area=1e-4)
    return rods.static_equilibrium(rods.SoftRobot(builder.build(), chambers=[chamber]), [-5.0])


def slackening():
    robot = manipulator()
    return rods.simulate(robot, 0.01, lambda t: -t * np.ones(5))


class Doubling(trajopt.CallableSystem):
    def __init__(self):
        super().__init__(lambda x, u: 2.0 * x + u, nx=1, nu=1, dt=0.1, derivatives="finite_differences")


@pytest.mark.parametrize(
    ("call", "messages"),
    [
        (
            load,
            [
                "URDF 'r': read as independent joints: <joint name='ab'> <mimic>: attribute 'joint': got",
                "no body can have the inertia given for 'c'",
            ],
        ),
        (build, ["no body can have the inertia given for 'b'"]),
        (Doubling, ["step: "]),
        (thick, ["rod 'rod': section: 40 m across on 0.4 m of length"]),
        (slack, ["u: tendons only pull, and got negative tensions ('cable 2': -2 N)"]),
        (sucking, ["u: chambers only push, and got negative pressures ('chamber 0': -5 Pa)"]),
        (slackening, ["controls: tendons only pull, and got negative tensions"]),
    ],
)
def test_warnings_point_here(call, messages):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert [str(warning.message)[: len(wanted)] for warning, wanted in zip(caught, messages, strict=True)] == messages
    for warning in caught:
        assert warning.filename == __file__ and Path(__file__).read_text().splitlines()[warning.lineno - 1].strip() in (
            "return dynamics.load_urdf(FAULTY, **options)", "return builder.build()",
            'return rods.RodModelBuilder().add_rod("rod", "world", 0.4, rods.Circular(20.0), SOFT, BASIS)',
            "return rods.static_equilibrium(robot, [1.0, -2.0, 0.0, 1.0, 0.0])",
            "return rods.static_equilibrium(rods.SoftRobot(builder.build(), chambers=[chamber]), [-5.0])",
            "return rods.simulate(robot, 0.01, lambda t: -t * np.ones(5))",
            'super().__init__(lambda x, u: 2.0 * x + u, nx=1, nu=1, dt=0.1, derivatives="finite_differences")',
        )  # fmt: skip


def test_filters_by_module_and_once_for_a_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", module=__name__.replace(".", r"\."))
        for _ in range(3):
            caller.warn("only once")
    assert len(caught) == 1


@pytest.mark.parametrize("package", ["dynamics", "trajopt", "problems"])
def test_code_from_strings_is_the_projects_too(package):
    """A dataclass has its __init__ from a string; and a call that never leaves the project points at its start."""
    names = {"__file__": str(caller.ROOT / package / "some.py"), "__name__": f"{package}.some", "warn": caller.warn}
    exec("def check(): warn('deep')\ndef init(): check()", names)
    with pytest.warns(UserWarning, match="deep") as caught:
        names["init"]()
    assert caught[0].filename == __file__


def test_nothing_warns_in_another_way():
    for package in caller.PACKAGES:
        for path in Path(package).rglob("*.py"):
            if path != Path(caller.__file__):
                assert "warnings.warn(" not in path.read_text(encoding="utf-8"), path
