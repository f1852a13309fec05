"""Rigid robots: what public functions, contacts, systems and residuals are given by mistake is refused by name.

Beside `test_builder_errors` and the errors that other files test: another thing in place of a model, truth values,
complex numbers and text in place of arrays, and what is merely true in place of True.
"""

from functools import cache

import numpy as np
import pytest

import dynamics
from dynamics import FreeFlyer, ModelBuilder, PointContact, Revolute, RigidBodySystem, RigidContact
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

BODY = {"mass": 1.0, "com": (0.0, 0.0, -0.2), "inertia": 0.1 * np.eye(3)}
URDF = '<robot name="r"><link name="a"/></robot>'
OPTIONAL = tuple(value for value in KINDS if value is not None)


@cache
def arm():
    builder = ModelBuilder()
    builder.add_body("upper", "world", Revolute("y"), **BODY)
    builder.add_body("lower", "upper", Revolute("y"), placement=(np.eye(3), (0.0, 0.0, -0.4)), **BODY)
    return builder.build()


@cache
def hopper():
    builder = ModelBuilder()
    builder.add_body("base", "world", FreeFlyer(), mass=2.0, inertia=np.eye(3))
    builder.add_body("leg", "base", Revolute("y"), **BODY)
    builder.add_frame("toe", "leg", (np.eye(3), (0.0, 0.0, -0.4)))
    return builder.build()


def system():
    return RigidBodySystem(arm(), 0.01)


def hopping():
    return RigidBodySystem(hopper(), 0.01, actuation="floating_base", contacts=[PointContact(hopper(), "toe")])


def standing():
    contact = RigidContact(hopper(), "toe", reference=(np.eye(3), np.zeros(3)))
    return RigidBodySystem(hopper(), 0.01, actuation="floating_base", contacts=[contact], contact_damping=0.1)


def of_arm(name):
    """A function of `dynamics`, by default of the arm."""
    return lambda **given: getattr(dynamics, name)(**{"model": arm(), **given})


def of_system(method):
    return lambda **given: getattr(system(), method)(**given)


def of_phases(method):
    return lambda **given: getattr(dynamics.HybridSystem(hopper(), 0.01, [("step", ["toe"], 3)]), method)(**given)


Z = np.zeros(2)
Q = arrays(2)
INNER = arrays(4, finite=False)
X, XS, US = np.zeros(4), np.zeros((4, 4)), np.zeros((3, 2))
SOLE, SOLES = (0.1, 0.05), (*arrays(2), (0.1, 0.0), (-0.1, 0.1))
STANDING, LIFTS = np.tile(np.r_[np.zeros(6), 1.0, np.zeros(8)], (3, 1)), np.zeros((3, 1))
QV = {"q": Z, "v": Z}
BALLS = [dynamics.Geometry(f"ball {i}", "base", i, dynamics.Sphere(0.1)) for i in range(2)]
OTHERS = dynamics.Distance(hopper(), [tuple(BALLS)])
FUNCTIONS = {
    "neutral": {}, "inertial_parameters": {}, "random_configuration": {"rng": np.random.default_rng(0)},
    "integrate": {"q": Z, "dq": Z}, "difference": {"q0": Z, "q1": Z}, "mass_matrix": {"q": Z},
    "inverse_mass_matrix": {"q": Z}, "bias_forces": QV, "gravity_forces": {"q": Z}, "kinetic_energy": QV,
    "potential_energy": {"q": Z}, "center_of_mass": {"q": Z}, "center_of_mass_jacobian": {"q": Z},
    "inverse_dynamics": {**QV, "a": Z}, "forward_dynamics": {**QV, "tau": Z},
    "inverse_dynamics_derivatives": {**QV, "a": Z}, "forward_dynamics_derivatives": {**QV, "tau": Z},
    "inverse_dynamics_second_derivatives": {**QV, "a": Z}, "forward_dynamics_second_derivatives": {**QV, "tau": Z},
    "inverse_dynamics_hessian": {**QV, "a": Z, "w": Z}, "forward_dynamics_hessian": {**QV, "tau": Z, "w": Z},
    "inverse_dynamics_regressor": {**QV, "a": Z}, "frame_placement": {"q": Z, "frame": "lower"},
    "frame_jacobian": {"q": Z, "frame": "lower"}, "frame_velocity": {**QV, "frame": "lower"},
    "frame_acceleration": {**QV, "a": Z, "frame": "lower"},
}  # fmt: skip
"""Of a model and of vectors of its two degrees of freedom."""
WRENCHES = (
    "text", THING, 3.0, np.ones((1, 6)), np.full((2, 6), np.nan), {"hand": np.zeros(6)}, {3: np.zeros(6)},
    {"lower": None}, {"lower": "x"}, {"lower": [1.0]}, {"lower": [1j] * 6}, [], True,
)  # fmt: skip
NO_FORCE = {"w_f": np.zeros((0, 3))}
OF_CONTACTS = {
    "contact_dynamics": {**QV, "tau": Z}, "contact_dynamics_derivatives": {**QV, "tau": Z},
    "contact_dynamics_hessian": {**QV, "tau": Z, "w_a": Z, **NO_FORCE}, "contact_impulse": QV,
    "contact_impulse_derivatives": QV, "contact_impulse_hessian": {**QV, "w_v": Z, **NO_FORCE},
}  # fmt: skip
HERE = np.eye(3), np.zeros(3)
COUPLED = {"upper_joint": 1.0, "lower_joint": -2.0}
AXIAL = (Revolute, dynamics.Continuous, dynamics.Prismatic, dynamics.Planar)
CLOSED_LOOP = {
    "x0": X, "xs": XS, "us": US, "k": US, "K": np.zeros((3, 2, 4)), "alphas": np.ones(1),
}

TABLE = [
    row
    for name, good in FUNCTIONS.items()
    for row in rows(
        name, of_arm(name), good, model=KINDS, **{vector: Q for vector, value in good.items() if value is Z}
    )
]
for function, good in OF_CONTACTS.items():
    others = {"restitution": (*NUMBERS, -0.5, 1.5)} if "impulse" in function else {"tau": Q}
    TABLE += rows(function, of_arm(function), {**good, "contacts": []}, model=KINDS, contacts=SEQUENCES,
                  damping=AT_LEAST_ZERO, **others)  # fmt: skip
for function in ("frame_placement", "frame_jacobian", "frame_velocity", "frame_acceleration"):
    axes = {} if function == "frame_placement" else {"reference": CHOICES}
    TABLE += rows(function, of_arm(function), FUNCTIONS[function], frame=NAMES, **axes)
TABLE += [
    *rows("with_inertial_parameters", of_arm("with_inertial_parameters"),
          {"parameters": dynamics.inertial_parameters(arm())}, model=KINDS, parameters=arrays(2, 10), physical=FLAGS),
    *rows("parameter_gradient", of_system("parameter_gradient"), {"xs": XS, "us": US, "lam": np.zeros((3, 4))},
          xs=INNER, us=arrays(3, 2, finite=False), lam=arrays(3, 4, finite=False)),
    *rows("random_configuration", of_arm("random_configuration"), rng=(*KINDS, np.random)),
    *rows("hybrid_dynamics", of_arm("hybrid_dynamics"), {**QV, "a": Z, "tau": Z, "prescribed": [True, False]},
          model=KINDS, prescribed=(*arrays(2)[1:10], np.ma.masked_array([True, False], [False, True]))),
    *rows("parameters", of_arm("parameter_derivatives"), {**QV, "a": Z}, model=KINDS, inertial=arrays(2, 10)[1:]),
    *rows(
        "wrenches", of_arm("inverse_dynamics"), {**QV, "a": Z}, external_wrenches=WRENCHES, wrench_reference=CHOICES
    ),
    *rows("packed", of_arm("inverse_dynamics_second_derivatives"), {**QV, "a": Z}, packed=FLAGS),
    *rows("load_urdf", dynamics.load_urdf, {"path_or_text": URDF}, path_or_text=(None, 3, THING, b"x", ["a"], {}),
          floating_base=FLAGS, gravity=arrays(3)),
    *rows("load_robot", dynamics.load_robot, {"source": URDF}, floating_base=FLAGS, gravity=arrays(3)[1:],
          inertias=CHOICES),
    *rows("ModelBuilder", ModelBuilder, gravity=arrays(3), strict=FLAGS, name=NEW_NAMES),
    *(rows(kind.__name__, kind, axis=(*arrays(3), "w", np.zeros(3)))[0] for kind in AXIAL),
    *rows(
        "PointContact", PointContact, {"model": hopper(), "frame": "toe"}, model=KINDS, frame=NAMES,
        gains=(*arrays(2)[1:], (-1.0, 0.0)), reference=arrays(3)[1:], axes=CHOICES,
    ),
    *rows("JointCoupling", dynamics.JointCoupling, {"model": arm(), "joints": COUPLED}, model=KINDS,
          joints=(*KINDS, {}, {"upper_joint": 1.0}, {**COUPLED, "nose": 1.0}, {**COUPLED, "upper_joint": np.nan}),
          offset=NUMBERS, gains=(*arrays(2), (-1.0, 0.0))),
    *rows("close_loops", of_arm("close_loops"), {"q": Z}, model=KINDS, q=Q, loops=SEQUENCES[1:], fixed=SEQUENCES),
    *rows(
        "RigidContact", RigidContact, {"model": hopper(), "frame": "toe", "reference": HERE}, model=KINDS,
        frame=NAMES, reference=PLACEMENTS, axes=CHOICES,
    ),
    *rows("ContactSet", dynamics.ContactSet, {"model": hopper()}, contacts=SEQUENCES),
    *rows(
        "RigidBodySystem", RigidBodySystem, {"model": arm(), "dt": 0.01}, model=KINDS, dt=(*POSITIVE, [0.1], "0.1"),
        integrator=(*CHOICES, "euler"),
        actuation=(
            *OPTIONAL, "floating_base", np.ones(2), np.ones((2, 0)), np.eye(3), np.ones((1, 2, 2)),
            np.full((2, 2), np.nan), np.eye(2) > 0.0,
        ), contacts=SEQUENCES,
        formulation=CHOICES, contact_damping=AT_LEAST_ZERO,
    ),
    *rows(
        "HybridSystem", dynamics.HybridSystem, {"model": hopper(), "dt": 0.01, "phases": [("step", ["toe"], 3)]},
        model=KINDS, dt=POSITIVE, impacts=FLAGS, contact_damping=AT_LEAST_ZERO,
        gains=(*arrays(2), (-1.0, 0.0)), restitution=(*NUMBERS, 2.0),
        phases=(
            *SEQUENCES, [("a",)], [("a", ["toe"])], *([("a", ["toe"], n)] for n in (1.5, -1, True, np.nan, "3", None)),
            *([("a", frames, 3)] for frames in (None, 3, "toe", [3], ["nose"], ["toe", "toe"])), [(3, ["toe"], 3)],
        ),
    ),
    *rows(
        "Gait", dynamics.Gait,
        {"model": hopper(), "standing": np.r_[np.zeros(6), 1.0, 0.0], "feet": ["toe"], "plan": [(3, []), (3, ["toe"])],
         "stride": np.zeros(3), "height": 0.1, "dt": 0.01},
        model=KINDS, standing=arrays(8), feet=(*SEQUENCES, ["toe", "toe"], []), stride=arrays(3), height=AT_LEAST_ZERO,
        dt=POSITIVE, sole=SOLES[1:], gains=(*arrays(2)[1:], (-1.0, 0.0)), base=(3.0, "text", THING),
        plan=(
            *SEQUENCES, [], [(3,)], [(3, None)], [(3, "toe")], [(3, ["nose"])], [(3, [{}])], [(3, {"toe": "text"})],
            *([(n, [])] for n in (1.5, 0, -1, True, "3", None)),
        ),
    ),
    *rows(
        "inverse_kinematics", of_arm("inverse_kinematics"), {"targets": {"lower": np.zeros(3)}}, model=KINDS,
        targets=(
            *KINDS, "lower", {}, {"nose": np.zeros(3)}, {3: 3}, *({"lower": place} for place in arrays(3)),
            *({"lower": (2.0 * np.eye(3), end)} for end in (None, np.zeros(3))), {"lower": (np.eye(2), np.zeros(3))},
            {"lower": (np.diag([1.0, 1.0, -1.0]), np.zeros(3))}, {"lower": (np.eye(3), "text")},
        ),
        q0=Q[1:], fixed=(*SEQUENCES, ["upper_joint", "lower_joint"]), limits=FLAGS,
        avoid=(3.0, "text", THING, [None], [THING], dynamics.FrameTranslation(arm(), "lower", np.zeros(3)), OTHERS),
        loops=(*SEQUENCES, [dynamics.LoopConstraint(hopper(), "base", "leg")]), tries=(*WHOLE, 0),
        rng=(3, 1.5, "text", THING),
    ),
    *rows("window", of_phases("window"), {"start": 0, "stop": 2}, start=WHOLE, stop=WHOLE),
    *rows("with_model", of_phases("with_model"), {"model": hopper(), "phases": ["step"]}, model=(*KINDS, arm()),
          phases=SEQUENCES[1:]),
    *rows("Impact", dynamics.Impact, {"model": hopper()}, contacts=(*SEQUENCES, [])),
    *rows("step", of_system("step"), {"x": X, "u": Z}, x=arrays(4), u=Q),
    *rows("state", of_system("state"), {"q": Z}, q=Q, v=Q[1:]),
    *rows("rollout", of_system("rollout"), {"x0": X, "us": US}, x0=arrays(4), us=arrays(3, 2)),
    *rows("integrate", of_system("integrate"), {"x": X, "dx": X}, x=INNER, dx=INNER),
    *rows("difference", of_system("difference"), {"x0": X, "x1": X}, x0=INNER, x1=INNER),
    *rows("linearize", of_system("linearize"), {"xs": XS, "us": US}, xs=arrays(4, 4, finite=False),
          us=arrays(3, 2, finite=False)),
    *rows("hessians", of_system("hessian_products"), {"xs": XS, "us": US}, lam=arrays(3, 4, finite=False)),
    *rows(
        "closed_loop", of_system("closed_loop_rollout"), CLOSED_LOOP, x0=INNER, xs=arrays(4, 4, finite=False),
        us=arrays(3, 2, finite=False), k=arrays(3, 2, finite=False), K=arrays(3, 2, 4, finite=False),
        alphas=(None, "text", THING, 3.0, [], [[1.0]], [1j], [True], ["a"]),
        gaps=arrays(4, 4, finite=False)[1:],
    ),
    *rows("limits", of_system("closed_loop_rollout"), {**CLOSED_LOOP, "upper": US}, lower=arrays(3, 2, finite=False)),
    *rows("integrate_jacobian", of_system("integrate_jacobian"), xs=arrays(3, 4)),
    *rows("skeleton", of_system("skeleton"), xs=arrays(3, 4)),
    *rows("center_of_mass", of_system("center_of_mass"), xs=arrays(3, 4)),
    *rows("contact_points", lambda **given: hopping().contact_points(**given), xs=arrays(3, 15)),
    *rows("quasi_static", of_system("quasi_static"), x=arrays(4)),
    *rows("FrameTranslation", dynamics.FrameTranslation, {"model": arm(), "frame": "lower", "target": np.zeros(3)},
          model=KINDS, frame=NAMES, target=arrays(3)),
    *rows("FrameVelocity", dynamics.FrameVelocity, {"model": arm(), "frame": "lower"}, model=KINDS, frame=NAMES,
          target=arrays(6)[1:], reference=(*CHOICES, "world")),
    *rows("FrameRotation", dynamics.FrameRotation, {"model": arm(), "frame": "lower", "target": np.eye(3)}, frame=NAMES,
          target=(*arrays(3, 3), 1.1 * np.eye(3), -np.eye(3))),
    *rows("FramePlacement", dynamics.FramePlacement, {"model": arm(), "frame": "lower", "target": HERE},
          frame=NAMES, target=(*PLACEMENTS, None, np.eye(4), (-np.eye(3), np.zeros(3)))),
    *rows("CenterOfMass", dynamics.CenterOfMass, {"model": arm(), "target": np.zeros(3)}, model=KINDS,
          target=arrays(3)),
    *rows("CentroidalMomentum", dynamics.CentroidalMomentum, {"model": arm()}, model=KINDS, target=arrays(6)[1:]),
    *rows("ControlGravity", dynamics.ControlGravity, {"model": arm()}, model=KINDS,
          actuation=("floating_base", np.ones((5, 2)), np.ones(2), THING, np.full((2, 2), np.nan))),
    *rows("ContactForce", lambda **given: dynamics.ContactForce(hopping(), **given), frames=(3, THING, [], {})),
    *rows("FrictionCone", lambda **given: dynamics.FrictionCone(hopping(), **{"mu": 0.5, **given}), mu=POSITIVE,
          inner=FLAGS, facets=(3, 5, 4.0, 4.5, "text", THING, True), min_normal_force=NUMBERS[1:],
          max_normal_force=(*NUMBERS[1:], 0.0, -1.0), normal=(*arrays(3), np.zeros(3))),
    *rows("WrenchCone", lambda **given: dynamics.WrenchCone(standing(), **{"mu": 0.5, "half_lengths": SOLE, **given}),
          mu=POSITIVE, inner=FLAGS, half_lengths=SOLES, center=arrays(3), frames=(3, THING, [], {}),
          min_normal_force=NUMBERS[1:], max_normal_force=(*NUMBERS[1:], 0.0, -1.0)),
    *rows("CenterOfPressure", lambda **given: dynamics.CenterOfPressure(standing(), **{"half_lengths": SOLE, **given}),
          half_lengths=SOLES, center=arrays(3), frames=(3, THING, [], {})),
    *rows("ZeroMomentPoint", lambda **given: dynamics.ZeroMomentPoint(standing(), **{"target": SOLE, **given}),
          target=arrays(2), height=NUMBERS, frames=(3, THING, [], {})),
    *rows("SupportPolygon", lambda **given: dynamics.SupportPolygon(standing(), **given),
          {"points": np.eye(3)[:, :2]}, height=NUMBERS,
          points=(*arrays(3, 2), np.eye(2), np.zeros((4, 2))), frames=(3, THING, [], {})),
    *rows("zero_moment_point", lambda **given: dynamics.zero_moment_point(standing(), **given),
          {"xs": STANDING, "us": LIFTS}, xs=arrays(3, 15), us=arrays(3, 1), height=NUMBERS),
    *rows("cone", lambda **given: dynamics.FrictionCone(hopping(), 0.5, facets=None, **given), smoothing=POSITIVE[1:]),
]  # fmt: skip


def residual(method):
    return lambda **given: getattr(dynamics.FrameTranslation(arm(), "lower", np.zeros(3)), method)(us=None, **given)


TABLE += [
    *rows("residual", residual("evaluate"), xs=arrays(3, 4, finite=False)),
    *rows("residual", residual("jacobians"), xs=arrays(3, 4, finite=False)),
    *rows("residual", residual("hessian_products"), {"xs": XS}, mu=arrays(4, 3, finite=False)),
]


@pytest.mark.parametrize(("call", "good", "name", "values"), TABLE)
def test_bad_input(call, good, name, values):
    assert_refused(call, good, name, values)
