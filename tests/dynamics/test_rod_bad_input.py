"""Soft robots: every argument of every public name refuses what it cannot be, and says which one it is."""

from functools import cache

import numpy as np
import pytest

from dynamics import FreeFlyer, Geometry, Revolute, Sphere, Spherical, rods
from tests.reference.bad_values import (
    AT_LEAST_ZERO,
    CHOICES,
    FLAGS,
    KINDS,
    NAMES,
    NEW_NAMES,
    NUMBERS,
    PLACEMENTS,
    POSITIVE,
    SEQUENCES,
    THING,
    WHOLE,
    arrays,
    assert_refused,
    rows,
)
from tests.reference.rod_robots import SOFT

BASIS = rods.LegendreBasis(0, 1, 1)
INERTIA = 0.1 * np.eye(3)
FREE = Revolute("z")
BALL = Geometry("ball", "world", -1, Sphere(0.1))
SHARES = (*NUMBERS, -0.1, 1.1)


def builder() -> rods.RodModelBuilder:
    made = rods.RodModelBuilder()
    made.add_rod("rod", "world", 0.5, rods.Circular(0.02), SOFT, BASIS)
    made.add_body("body", "rod", FREE, mass=1.0, inertia=INERTIA)
    return made


@cache
def robot(closed: bool = False) -> rods.SoftRobot:
    made = builder()
    made.add_wrench("rod")
    if closed:
        made.add_closure("loop", "body", "world", Spherical())
    return rods.SoftRobot(made.build(), [rods.Tendon("rod", 0.0, 0.01)], ["body"])


@cache
def system() -> rods.SoftRobotSystem:
    return rods.SoftRobotSystem(robot(), 0.01)


def adding(method):
    return lambda **arguments: getattr(builder(), method)(**arguments)


def with_tendon(**routes):
    rods.SoftRobot(robot().model, [rods.Tendon("rod", **{"y": 0.0, "z": 0.0, **routes})])


def with_chamber(**given):
    rods.SoftRobot(robot().model, chambers=[rods.Chamber("rod", 0.0, 0.0, **given)])


N = 6
Z = np.zeros(N)
Q = arrays(N)
OF_LINKS = (3, THING, "nonsense", ["nonsense"], [["body"]], ["rod"])  # in place of names of links with a joint
ROUTES = tuple(lambda X, y=y: y for y in (None, "text", [1.0, 2.0], 1j, np.nan, THING))
LINES = (None, "", 3, THING, b"x", [], {}, [None], [3], ["rod", "rod"])
BY_ROD = (*NUMBERS[:5], *NUMBERS[6:], (0.0,), (0.0, None), (0.0, "text"), ([0.0], 0.0), (np.nan, 0.0), np.zeros(3))
DENSITIES = tuple(lambda s, x=x: x for x in (None, "text", 1.0, np.zeros(3), np.full(6, np.nan), THING))
SIGNALS = tuple(lambda t, u=u: u for u in (None, "text", 1j, np.nan, THING, [1.0]))
POLICIES = tuple(lambda t, x, u=u: u for u in (None, "text", 1j, np.nan, THING, [1.0]))
CURVES = tuple(lambda s, x=x: x for x in (None, "text", np.zeros(6), np.full((len(Z), 6), np.nan), THING))
MOTIONS = tuple({"body": lambda t, x=x: x} for x in (None, "text", [1.0], np.nan, [np.nan] * 3, [1j] * 3, THING))
BY_LINK = ("text", THING, 3.0, [1.0], {"rod": 0.0}, {3: 0.0}, {"body": None})

BUILDING = [
    *rows("Circular", rods.Circular, {"radius": 0.1}, radius=POSITIVE, radius_at_tip=AT_LEAST_ZERO[1:]),
    *rows(
        "taper", rods.Circular, {"radius": lambda s: 0.1 + 0.0 * s}, radius_at_tip=(0.1,),
        radius=tuple(lambda s, x=x: x for x in (None, "text", 0.1, np.full(2, np.nan), np.full(2, -0.1), THING)),
    ),
    *rows(
        "Rectangular", rods.Rectangular, {"height": 0.1, "width": 0.1}, height=POSITIVE,
        width=(*POSITIVE, lambda s: 0.1),
        height_at_tip=AT_LEAST_ZERO[1:], width_at_tip=AT_LEAST_ZERO[1:],
    ),
    *rows(
        "Elastic", rods.Elastic, {"young": 1e6, "poisson": 0.5, "density": 1e3}, young=POSITIVE,
        poisson=(*NUMBERS, -1.0, 0.6), density=POSITIVE, viscosity=AT_LEAST_ZERO, shear_correction=POSITIVE,
    ),
    *rows(
        "Anisotropic", rods.Anisotropic, {"stiffness_matrix": np.eye(6), "density": 1.0}, density=POSITIVE,
        stiffness_matrix=(*arrays(6, 6), -np.eye(6), np.zeros((6, 6)), np.eye(6) + np.eye(6, k=1)),
        damping_matrix=(*arrays(6, 6)[1:], -np.eye(6)),
    ),
    *rows("Helical", rods.Helical, {"axis": "z", "pitch": 0.1}, axis=(*arrays(3), "w", np.zeros(3)), pitch=NUMBERS),
    *rows("LegendreBasis", rods.LegendreBasis, {"torsion": 0}, bending_y=WHOLE[1:], shear_z=WHOLE[1:]),
    *rows(
        "StrainBasis", rods.StrainBasis,
        functions=(
            *KINDS, {}, {3: [np.sin]}, {"twist": [np.sin]},
            *({"torsion": x} for x in (3, np.sin, None, [None], [3.0], [])),
        ),
    ),
    *rows(
        "CylinderContact", rods.CylinderContact, {"radius": 0.1, "stiffness": 1e3}, radius=POSITIVE,
        stiffness=POSITIVE, exponent=(*NUMBERS, 0.5, 1.3), smoothing=AT_LEAST_ZERO, point=arrays(3),
        axis=(*arrays(3), "w", np.zeros(3)), inside=FLAGS, damping=AT_LEAST_ZERO, friction=AT_LEAST_ZERO, slip=POSITIVE,
    ),
    *rows(
        "PlaneContact", rods.PlaneContact, {"stiffness": 1e3}, stiffness=POSITIVE, point=arrays(3),
        normal=(*arrays(3), "w", np.zeros(3)),
    ),
    *rows("SphereContact", rods.SphereContact, {"radius": 0.1, "stiffness": 1e3}, point=arrays(3), inside=FLAGS),
    *rows(
        "RodContact", rods.RodContact, {"rod": "rod", "stiffness": 1e3}, rod=NEW_NAMES, stiffness=POSITIVE,
        apart=POSITIVE[1:], radius=POSITIVE[1:],
    ),
    *rows(
        "CapsuleContact", rods.CapsuleContact,
        {"radius": 0.1, "stiffness": 1e3, "start": np.zeros(3), "end": np.ones(3)}, start=arrays(3),
        end=(*arrays(3), np.zeros(3)),
    ),
    *rows(
        "Fluid", rods.Fluid, {"density": 1e3}, density=POSITIVE, drag=(*arrays(3), [-1.0, 0.0, 0.0]), lift=NUMBERS,
        added_mass=(*arrays(2), [-1.0, 0.0]), smoothing=AT_LEAST_ZERO, buoyancy=FLAGS,
    ),
    *rows(
        "Tendon", rods.Tendon, {"rod": "rod", "y": 0.0, "z": 0.0}, rod=LINES, y=NUMBERS, z=NUMBERS, dy=NUMBERS[1:],
        dz=NUMBERS[1:], name=NEW_NAMES[1:], normalized=FLAGS,
    ),
    *rows("several", rods.Tendon, {"rod": ("rod", "other"), "y": 0.0, "z": 0.0}, y=BY_ROD, z=BY_ROD, dz=BY_ROD[1:]),
    *rows(
        "Chamber", rods.Chamber, {"rod": "rod", "y": 0.0, "z": 0.0, "area": 1e-4}, rod=LINES, y=NUMBERS,
        area=POSITIVE, name=NEW_NAMES[1:],
    ),
    *rows(
        "several", rods.Chamber, {"rod": ("rod", "other"), "y": 0.0, "z": 0.0, "area": 1e-4},
        area=(*BY_ROD, (1e-4, 0.0)),
    ),
    *rows(
        "helix", rods.Tendon.helix, {"rod": "rod", "radius": 0.01, "turns": 1.0}, radius=NUMBERS, turns=NUMBERS,
        phase=NUMBERS,
    ),
    *rows("routing", with_tendon, y=ROUTES, dz=ROUTES),
    *rows("areas", with_chamber, area=(*ROUTES, lambda X: 0.0)),
    *rows("RodModelBuilder", rods.RodModelBuilder, gravity=arrays(3), name=NEW_NAMES, base=PLACEMENTS),
    *rows(
        "add_body", adding("add_body"), {"name": "x", "parent": "rod", "joint": FREE, "mass": 1.0, "inertia": INERTIA},
        name=(*NEW_NAMES, "rod", "world"), parent=NAMES, joint=(*KINDS, (), ("x",)), placement=PLACEMENTS,
        mass=AT_LEAST_ZERO, at=SHARES,
        com=arrays(3), inertia=(*arrays(3, 3)[1:], -np.eye(3)),
        stiffness=(*AT_LEAST_ZERO, [[1.0]]), damping=(*AT_LEAST_ZERO, [[1.0]]),
    ),
    *rows(
        "add_rod", adding("add_rod"),
        {"name": "x", "parent": "rod", "length": 0.5, "section": rods.Circular(0.1), "material": SOFT, "basis": BASIS},
        name=(*NEW_NAMES, "rod", "world"), parent=NAMES, length=POSITIVE, section=KINDS, material=KINDS, basis=KINDS,
        joint=(*KINDS[1:], ()), at=SHARES, placement=PLACEMENTS, points=(*WHOLE, 0),
        reference=(*arrays(6), np.zeros((6, 6)), *CURVES),
    ),
    *rows(
        "add_closure", adding("add_closure"), {"name": "x", "link_a": "body", "link_b": "world", "joint": Spherical()},
        name=NEW_NAMES, link_a=NAMES, link_b=(*NAMES, "body"), joint=(*KINDS, FreeFlyer(), (), ("x",)),
        placement_a=PLACEMENTS, placement_b=PLACEMENTS, at_a=(*SHARES, 0.5), at_b=(*SHARES, 0.5),
        stiffness=AT_LEAST_ZERO, damping=AT_LEAST_ZERO,
    ),
    *rows(
        "on a rod", adding("add_closure"), {"name": "x", "link_a": "rod", "link_b": "rod", "joint": Spherical()},
        at_a=SHARES, at_b=SHARES, link_b=("rod",),
    ),
    *rows(
        "add_wrench", adding("add_wrench"), {"link": "rod"}, link=NAMES, name=NEW_NAMES[1:], follower=FLAGS,
        point=arrays(3), at=(*SHARES, 0.0),
    ),
    *rows("along", adding("add_wrench"), {"link": "body"}, at=(*SHARES, 0.5)),
    *rows(
        "add_distributed_load", adding("add_distributed_load"), {"rod": "rod", "density": np.zeros(6)},
        rod=(*NAMES, "body"), density=(*arrays(6), *DENSITIES), follower=FLAGS,
    ),
    *rows(
        "named", adding("add_distributed_load"), {"rod": "rod", "density": 1.0, "name": "x"}, name=NEW_NAMES[1:],
        density=(*NUMBERS, np.zeros(6), *DENSITIES[:2], *DENSITIES[3:]),
    ),
    *rows(
        "add_contact", adding("add_contact"), {"link": "rod", "contact": rods.PlaneContact(1e3)}, link=NAMES,
        contact=(*KINDS, rods.Fluid(1.0)), radius=AT_LEAST_ZERO[1:], point=(*arrays(3), [1.0, 0.0, 0.0]),
        spacing=(*POSITIVE[1:], 1e-9),
    ),
    *rows(
        "of a body", adding("add_contact"), {"link": "body", "contact": rods.PlaneContact(1e3)}, spacing=(0.1,),
        contact=(
            rods.RodContact("x", 1e3), rods.RodContact("rod", 1e3, apart=0.1),
            *(rods.SphereContact(0.1, 1e3, link=name) for name in (3, "x", "body")),
        ),
    ),
    *rows(
        "of itself", adding("add_contact"), {"link": "rod", "contact": rods.RodContact("rod", 1e3, apart=0.1)},
        contact=(rods.RodContact("rod", 1e3),),
    ),
    *rows(
        "add_load", adding("add_load"), {"link": "rod", "law": lambda R, p, w, v, u: np.zeros(6)}, link=NAMES,
        law=(*KINDS, lambda R, p, w, v, u: 3.0, lambda R, p, w, v, u: [np.nan] * 6, lambda: np.zeros(6)),
        controls=("text", THING, 3.0, [None], [3], ["one", "one"]), at=(*SHARES[1:], 0.0), per_length=FLAGS,
    ),
    *rows(
        "of a body", adding("add_load"), {"link": "body", "law": lambda *y: np.zeros(6)}, at=(0.5,), per_length=(True,),
    ),
    *rows(
        "add_fluid", adding("add_fluid"), {"rod": "rod", "fluid": rods.Fluid(1.0)}, rod=(*NAMES, "body"),
        fluid=(*KINDS, rods.CylinderContact(0.1, 1e3)),
    ),
    *rows(
        "add_drag", adding("add_drag"), {"link": "rod", "matrix": np.eye(6)}, link=NAMES, matrix=arrays(6, 6),
        smoothing=AT_LEAST_ZERO,
    ),
    *rows(
        "add_added_mass", adding("add_added_mass"), {"link": "rod", "matrix": np.eye(6)}, link=NAMES,
        matrix=(*arrays(6, 6), -np.eye(6)),
    ),
    *rows(
        "SoftRobot", lambda model=None, **given: rods.SoftRobot(model or robot().model, **given), model=KINDS[1:-1],
        tendons=(*SEQUENCES[:-2], "text", rods.Tendon("rod", 0.0, 0.0)), torques=(None, *OF_LINKS),
        chambers=(*SEQUENCES[:-2], "text", [rods.Tendon("rod", 0.0, 0.0)]),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "good", "name", "values"), BUILDING)
def test_what_builds_a_robot(call, good, name, values):
    assert_refused(call, good, name, values)


@cache
def rest() -> rods.StaticEquilibrium:
    return rods.static_equilibrium(robot(), [0.0, 0.0], prescribed={"body": 0.0})


def of_robot(method):
    return lambda **given: getattr(robot(), method)(**given)


def of_model(function):
    """With the model by default."""
    return lambda **given: getattr(rods, function)(**{"model": robot().model, **given})


def of_chains(function):
    return lambda **given: getattr(rods, function)(**{"model": robot(True).model, **given})


def of_system(method):
    return lambda **given: getattr(system(), method)(**given)


POINT = {"q": Z, "v": Z, "a": Z, "u": [0.0, 0.0]}
FORWARD = {"q": Z, "v": Z, "u": [0.0, 0.0]}
WRENCHES = arrays(1, 6)[1:]
X, U = np.zeros(2 * N), np.zeros(2)
TURNED = (np.r_[300.0, np.zeros(N - 1)], np.r_[1e200, np.zeros(N - 1)])
"""More rotation of the rod from one of its points to the next than kernels can tell."""
XS, US = np.zeros((4, 2 * N)), np.zeros((3, 2))

USING = [
    *rows("residual", of_robot("residual"), POINT, q=Q, v=Q, a=Q, u=arrays(2), wrenches=WRENCHES),
    *rows("multipliers", lambda **given: robot(True).residual(**POINT, **given), multipliers=arrays(3)[1:]),
    *rows("hessian", lambda **given: robot(True).residual_hessian(**POINT, w=Z, **given), multipliers=arrays(3)[1:]),
    *rows("hessian", of_robot("residual_hessian"), POINT, w=Q),
    *rows("forward", of_robot("forward_dynamics"), FORWARD, q=Q, v=Q, u=arrays(2), wrenches=WRENCHES),
    *(
        row
        for name in ("reactions", "reaction_derivatives")
        for row in (
            *rows(name, lambda name=name, **given: getattr(rods, name)(**given), FORWARD, robot=KINDS),
            *rows(
                name, lambda name=name, **given: getattr(rods, name)(robot(), **given), FORWARD, q=Q, v=Q, u=arrays(2),
                prescribed=(*BY_LINK, *({"body": x} for x in ("text", [1.0, 2.0], np.nan, THING))), wrenches=WRENCHES,
            ),
        )
    ),
    *rows(
        "of rest", lambda robot=None, **given: rods.equilibrium_derivatives(robot, rest(), **given), {"u": [0.0, 0.0]},
        robot=KINDS,
    ),
    *rows(
        "of rest", lambda **given: rods.equilibrium_derivatives(robot(), **{"rest": rest(), **given}),
        {"u": [0.0, 0.0]}, rest=(*KINDS, lambda: 3.0), u=arrays(2), wrenches=WRENCHES,
    ),
    *rows(
        "inverse", of_model("inverse_dynamics"), {"q": Z, "v": Z, "a": Z}, model=KINDS, q=Q, v=Q, a=Q, wrenches=WRENCHES
    ),
    *rows("mass_matrix", of_model("mass_matrix"), {"q": Z}, model=KINDS, q=Q),
    *rows("center_of_mass", of_model("center_of_mass"), {"q": Z}, model=KINDS, q=Q),
    *rows("contact_forces", of_model("contact_forces"), {"q": Z}, model=KINDS, q=Q),
    *rows("energies", of_model("energies"), {"q": Z, "v": Z}, model=KINDS, q=Q, v=Q),
    *rows("momentum", of_model("momentum"), {"q": Z, "v": Z}, model=KINDS, q=Q, v=Q, about=CHOICES),
    *rows("modes", lambda **given: rods.vibration_modes(**given), {"q": Z}, robot=KINDS),
    *rows(
        "modes", lambda **given: rods.vibration_modes(robot(), **given), {"q": Z}, q=Q, u=arrays(2)[1:],
        count=(*WHOLE[1:], 0), wrenches=WRENCHES, prescribed=(None, "body", *OF_LINKS),
    ),
    *rows("link_placements", of_model("link_placements"), {"q": Z}, model=KINDS, q=Q),
    *rows("link_placement", of_model("link_placement"), {"link": "rod", "q": Z}, model=KINDS, link=NAMES, q=Q),
    *rows("center_lines", of_model("center_lines"), {"q": Z}, model=KINDS, q=Q, points=(*WHOLE, 1)),
    *rows("skeleton", of_model("skeleton"), {"q": Z}, model=KINDS, q=Q, points=(*WHOLE, 1)),
    *rows("closure_error", of_chains("closure_error"), {"q": Z}, model=KINDS, q=Q),
    *rows("closure_jacobian", of_chains("closure_jacobian"), {"q": Z}, model=KINDS, q=Q),
    *rows(
        "assemble", of_chains("assemble"), model=KINDS, q0=Q[1:], fixed=(None, "body", *OF_LINKS), tolerance=POSITIVE,
        max_iterations=WHOLE,
    ),
    *rows("LinkTranslation", of_model("LinkTranslation"), {"link": "rod", "target": np.zeros(3)}, model=KINDS,
          link=NAMES, target=arrays(3), s=SHARES, placement=PLACEMENTS),
    *rows("LinkRotation", of_model("LinkRotation"), {"link": "rod", "target": np.eye(3)}, model=KINDS, link=NAMES,
          target=(*arrays(3, 3), 2.0 * np.eye(3)), s=SHARES, placement=PLACEMENTS),
    *rows("LinkVelocity", of_model("LinkVelocity"), {"link": "rod"}, model=KINDS, link=NAMES, target=arrays(6)[1:],
          s=SHARES, placement=PLACEMENTS, reference=CHOICES),
    *rows("RodStrain", of_model("RodStrain"), {"rod": "rod", "s": 0.5}, model=KINDS, rod=NAMES, s=SHARES,
          target=arrays(6)[1:]),
    *rows("RodForces", of_model("RodForces"), {"rod": "rod", "s": 0.5}, model=KINDS, rod=NAMES, s=SHARES,
          target=arrays(6)[1:]),
    *rows("RodDistance", of_model("RodDistance"), {"obstacles": [BALL]}, model=KINDS,
          obstacles=(*KINDS, [], [THING], [BALL, None]), rods=("rod", [], ["bar"], [THING], 3.0), margin=AT_LEAST_ZERO),
    *rows(
        "static", lambda robot=None, **given: rods.static_equilibrium(**{"robot": robot, **given}),
        {"u": [0.0, 0.0]}, robot=KINDS,
    ),
    *rows(
        "static", lambda **given: rods.static_equilibrium(robot(), **given), {"u": [0.0, 0.0]}, u=arrays(2), q0=Q[1:],
        wrenches=WRENCHES, tolerance=POSITIVE, max_iterations=(*WHOLE, 0),
        prescribed=(*BY_LINK, *({"body": x} for x in ("text", [1.0, 2.0], np.nan, THING, 1j, True))), method=CHOICES,
    ),
    *rows("branch", lambda **given: rods.equilibrium_branch(**given), {"u": [0.0, 0.0]}, robot=KINDS),
    *rows(
        "branch", lambda **given: rods.equilibrium_branch(robot(), **given), {"u": [0.0, 0.0]}, u=arrays(2), q0=Q[1:],
        wrenches=WRENCHES, prescribed=(*BY_LINK, {"body": [1.0, 2.0]}), u_start=arrays(2)[1:],
        wrenches_start=WRENCHES, factors=(*arrays(2), [1.0, 1.0]), step=POSITIVE, max_points=(*WHOLE, 1),
        tolerance=POSITIVE, direction=(*Q[1:], np.zeros(N)),
    ),
    *rows("simulate", lambda **given: rods.simulate(**given), {"duration": 1.0, "controls": U}, robot=KINDS),
    *rows(
        "simulate", lambda **given: rods.simulate(robot(), **given), {"duration": 1.0, "controls": U},
        duration=POSITIVE, controls=(*arrays(2), *SIGNALS), q0=Q[1:], v0=Q[1:], wrenches=(*WRENCHES, *SIGNALS),
        method=CHOICES, dt=POSITIVE[1:], rtol=POSITIVE, atol=POSITIVE, jacobian=FLAGS, progress=FLAGS,
        prescribed=(*BY_LINK, {"body": 3.0}, *MOTIONS), baumgarte=POSITIVE, max_step=POSITIVE[1:],
    ),
    *rows(
        "simulate", lambda **given: rods.simulate(robot(), **given), {"duration": 1.0, "policy": lambda t, x: U},
        policy=(*arrays(2), *POLICIES), period=POSITIVE[1:],
    ),
    *rows("resimulated", lambda **given: system().resimulated(**given), rtol=POSITIVE, atol=POSITIVE),
    *rows("system", lambda **given: rods.SoftRobotSystem(**given), {"dt": 0.1}, robot=KINDS),
    *rows("system", lambda **given: rods.SoftRobotSystem(robot(), **{"dt": 0.1, **given}), dt=POSITIVE,
          integrator=CHOICES[1:]),
    *rows("state", of_system("state"), {"q": Z}, q=Q, v=Q[1:]),
    *rows("step", of_system("step"), {"x": X, "u": U}, x=arrays(2 * N), u=arrays(2)),
    *rows("rollout", of_system("rollout"), {"x0": X, "us": US}, x0=arrays(2 * N), us=arrays(3, 2)),
    *rows("integrate", of_system("integrate"), {"x": X, "dx": X}, x=arrays(2 * N, finite=False),
          dx=arrays(2 * N, finite=False)),
    *rows("difference", of_system("difference"), {"x0": X, "x1": X}, x0=arrays(2 * N, finite=False),
          x1=arrays(2 * N, finite=False)),
    *rows("linearize", of_system("linearize"), {"xs": XS, "us": US}, xs=arrays(4, 2 * N, finite=False),
          us=arrays(3, 2, finite=False)),
    *rows("lines", of_system("skeleton"), xs=arrays(4, 2 * N)),
    *rows("turned", of_robot("residual"), POINT, q=TURNED),
    *rows("turned", of_robot("residual_derivatives"), POINT, q=TURNED),
    *rows("turned", of_robot("residual_hessian"), {**POINT, "w": Z}, q=TURNED),
    *rows("turned", of_robot("forward_dynamics"), FORWARD, q=TURNED),
    *rows("turned", of_model("inverse_dynamics"), {"q": Z, "v": Z, "a": Z}, q=TURNED),
    *rows("turned", of_model("energies"), {"q": Z, "v": Z}, q=TURNED),
    *rows("turned", of_model("link_placements"), q=TURNED),
    *rows("turned", of_model("center_lines"), q=TURNED),
    *rows("turned", of_chains("closure_error"), q=TURNED),
    *rows("turned", of_chains("assemble"), q0=TURNED),
    *rows("turned", lambda **given: rods.static_equilibrium(robot(), [0.0, 0.0], **given), q0=TURNED),
    *rows("turned", lambda **given: rods.static_equilibrium(robot(), [0.0, 0.0], method="loading", **given), q0=TURNED),
    *rows("turned", lambda **given: rods.equilibrium_branch(robot(), [0.0, 0.0], **given), q0=TURNED),
    *rows("turned", lambda **given: rods.simulate(robot(), 1.0, U, **given), q0=TURNED),
    *rows("turned", lambda **given: rods.simulate(robot(), 1.0, U, method="newmark", **given), q0=TURNED),
    *rows("turned", of_system("check_start"), x0=(np.append(TURNED[0], Z),)),
    *rows("bodies", of_system("body_placements"), xs=arrays(4, 2 * N)),
    *rows("curves", of_system("quantities"), xs=arrays(4, 2 * N)),
]  # fmt: skip


@pytest.mark.parametrize(("call", "good", "name", "values"), USING)
def test_what_uses_a_robot(call, good, name, values):
    assert_refused(call, good, name, values)
