"""Functions of rigid robots that compute knot by knot: a row for each of them and each robot, with its arguments.

`tests/dynamics/test_knot_contract.py` holds every row to the same promises.  A new function gets a row here, a new
method in `knot_methods`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import dynamics
from dynamics import ContactSet
from tests.reference import contact_cases
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference


class Knots(NamedTuple):
    """A call by names of arguments, and what it is given: arrays (K, ...) of one row for every knot.

    points: arguments of which a single point may stand for a batch
    follow: those among them that are batches only beside others
    finite: whether NaN and Inf are refused; else they spoil their own knot; None where nothing is said
    spoilt: whether nothing of the first result is finite then, and not all of its derivatives
    none: whether there may be no knots at all
    split: whether threads share the work
    seen: of arguments that are looked at in parts alone, an index of a number of a knot that is
    """

    call: Callable[..., Any]
    given: dict[str, np.ndarray]
    points: Collection[str] = ()
    follow: Collection[str] = ()
    finite: bool | None = True
    spoilt: bool = False
    none: bool = True
    split: bool = True
    seen: Mapping[str, int] = {}


def of_points(call, given, **figures) -> Knots:
    """Of which any argument may be a point."""
    return Knots(call, given, points=tuple(given), follow=("external_wrenches", "w", "w_f", "w_m"), **figures)


FUNCTIONS: list = []
"""Functions that make `Knots` of a number of knots and a generator."""


def add(label: str, make: Callable[[int, np.random.Generator], Knots]) -> None:
    FUNCTIONS.append(pytest.param(make, id=label))


# ------------------------------------------------------------------------------------------------ functions of a model
REFERENCES = ("local", "local_world_aligned")
JOINTED = ("ur5", "hyq", "joint_zoo")


@cache
def model_of(name: str):
    """A reference robot with a frame anywhere on its last body."""
    model, _ = load_reference(name)
    return contact_cases.with_points(model, [model.nb - 1], np.random.default_rng(0))[0]


def of_model(function, robot, vectors="", **options):
    def make(K, rng):
        model, names = model_of(robot), vectors.split()
        given = dict(zip(("q", *names), random_states(model, K, rng, len(names)), strict=True))
        return of_points(lambda **given: function(model=model, **given, **options), given)

    return make


def loaded(function, robot, vectors, reference):
    """With a wrench on every body."""
    bare = of_model(function, robot, vectors, wrench_reference=reference)

    def make(K, rng):
        knots = bare(K, rng)
        return of_points(knots.call, knots.given | {"external_wrenches": rng.normal(size=(K, model_of(robot).nb, 6))})

    return make


def packed_tensors(model, q, v, a):
    return dynamics.inverse_dynamics_second_derivatives(model, q, v, a, packed=True).dense()


def packed_sums(model, q, v, a, w):
    return dynamics.inverse_dynamics_second_derivatives(model, q, v, a, packed=True).contract(w)


for name, vectors in {
    "mass_matrix": "", "inverse_mass_matrix": "", "gravity_forces": "", "bias_forces": "v", "kinetic_energy": "v",
    "potential_energy": "", "center_of_mass": "", "center_of_mass_jacobian": "", "integrate": "dq",
    "inverse_dynamics": "v a", "forward_dynamics": "v tau", "inverse_dynamics_derivatives": "v a",
    "forward_dynamics_derivatives": "v tau", "inverse_dynamics_second_derivatives": "v a",
    "forward_dynamics_second_derivatives": "v tau", "inverse_dynamics_hessian": "v a w",
    "forward_dynamics_hessian": "v tau w", "inverse_dynamics_regressor": "v a",
}.items():  # fmt: skip
    for robot in JOINTED:
        add(f"{name}-{robot}", of_model(getattr(dynamics, name), robot, vectors))
for name, vectors in {"placement": "", "jacobian": "", "velocity": "v", "acceleration": "v a"}.items():
    for robot in JOINTED:
        add(f"frame_{name}-{robot}", of_model(getattr(dynamics, f"frame_{name}"), robot, vectors, frame="tip 0"))
for robot in JOINTED:
    add(f"packed-{robot}", of_model(packed_tensors, robot, "v a"))
    add(f"contract-{robot}", of_model(packed_sums, robot, "v a w"))
    for reference in REFERENCES:
        for name, vectors in {
            "inverse_dynamics": "v a", "forward_dynamics": "v tau", "inverse_dynamics_derivatives": "v a",
            "forward_dynamics_hessian": "v tau w",
        }.items():  # fmt: skip
            add(f"{name}-{robot}-{reference} loads", loaded(getattr(dynamics, name), robot, vectors, reference))


def differences(robot):
    def make(K, rng):
        model = model_of(robot)
        given = {"q0": random_states(model, K, rng, 0)[0], "q1": random_states(model, K, rng, 0)[0]}
        return of_points(lambda **given: dynamics.difference(model, **given), given)

    return make


def hybrid(robot):
    """Every other acceleration is given; the other torques."""
    def make(K, rng):
        model = model_of(robot)
        prescribed = np.arange(model.nv) % 2 == 0
        given = dict(zip(("q", "v", "a", "tau"), random_states(model, K, rng, 3), strict=True))
        call = lambda **given: dynamics.hybrid_dynamics(model, prescribed=prescribed, **given)  # noqa: E731
        return of_points(call, given, seen={"a": 0, "tau": 1})

    return make


def along_parameters(robot, mode):
    """`parameter_derivatives` along directions in which everything changes."""
    unknown = {"inverse": "tau", "forward": "a", "hybrid": ""}[mode]

    def make(K, rng):
        model = model_of(robot)
        prescribed = np.arange(model.nv) % 2 == 0 if mode == "hybrid" else None
        names = [name for name in ("v", "a", "tau", "dq", "dv", "da", "dtau") if name.removeprefix("d") != unknown]
        given = dict(zip(("q", *names), random_states(model, K, rng, len(names)), strict=True))
        for name, size in {"external_wrenches": 6, "inertial": 10, "placement": 6, "wrenches": 6}.items():
            given[name] = rng.uniform(-2, 2, (K, model.nb, size))
        figures = {"prescribed": prescribed, "wrench_reference": REFERENCES[mode == "hybrid"]}
        call = lambda **given: dynamics.parameter_derivatives(model, **figures, **given)  # noqa: E731
        return of_points(call, given, seen={"a": 0, "da": 0, "tau": 1, "dtau": 1} if mode == "hybrid" else {})

    return make


for robot in JOINTED:
    add(f"difference-{robot}", differences(robot))
    add(f"hybrid_dynamics-{robot}", hybrid(robot))
    for mode in ("inverse", "forward", "hybrid"):
        add(f"parameter_derivatives-{robot}-{mode}", along_parameters(robot, mode))


# ------------------------------------------------------------------------------------------------ contacts
def in_contact(name, robot, axes):
    """A function of contacts on a foot and a point, or on points of which two hold the same body."""

    def make(K, rng):
        feet = () if robot == "redundant" else (0,)
        if robot == "redundant":
            model, frames = contact_cases.with_points(load_reference("joint_zoo")[0], [3, 3, 5], rng)
        else:
            model, frames = contact_cases.footed(robot, rng)
        contacts = ContactSet(model, contact_cases.contacts_on(model, frames, rng, axes=axes, rigid=feet))
        impulse, hessian = "impulse" in name, name.endswith("hessian")
        names = ["v"] if impulse else ["v", "tau"]
        given = dict(zip(("q", *names), random_states(model, K, rng, len(names)), strict=True))
        if hessian:
            given["w_v" if impulse else "w_a"] = rng.uniform(-2, 2, (K, model.nv))
            given |= dict(zip(("w_f", "w_m"), rng.uniform(-2, 2, (2, K, len(contacts), 3)), strict=True))
        options = {"restitution": 0.4} if impulse else {}
        call = lambda **given: getattr(dynamics, name)(model, contacts=contacts, **given, **options)  # noqa: E731
        return of_points(call, given)

    return make


for name in ("contact_dynamics", "contact_impulse"):
    for robot, axes in (("hyq", "local"), ("joint_zoo", "local_world_aligned"), ("redundant", "local")):
        for of in ("", "_derivatives", "_hessian"):
            add(f"{name}{of}-{robot}-{axes}", in_contact(name + of, robot, axes))
