"""Forces that act on a soft robot: those of closed chains and prescribed joints in motion, and of contacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.printed import in_brief
from dynamics.rods.algorithms.closed_chains import check_independence
from dynamics.rods.algorithms.constrained_dynamics import constrained_motion
from dynamics.rods.kinematics.center_lines import Pose, check_turns, segment_poses
from dynamics.rods.kinematics.exponential import FARTHEST
from dynamics.rods.loads.contacts import (
    EXPONENT,
    OFFSET,
    PLACE,
    POINT,
    SIDE,
    SMOOTHING,
    STIFFNESS,
    contact_law,
    distance,
)
from dynamics.rods.model.arrays import CONTACT, FIRST, MASS_MATRIX
from dynamics.rods.model.rod_model import RodModel, rotation_count
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.simd import routine
from dynamics.validation import as_array, as_batch, as_floats, as_kind, look_up

# --------------------------------------------------------------------------------------------
# Joints whose coordinates are prescribed as functions of time.

T = TypeVar("T")
Motion = Callable[[float], ArrayLike]


class PrescribedMotion(NamedTuple):
    """Prescribed joints of a model.

    Attributes
    ----------
    links : names of links, and the slices of their coordinates among the prescribed ones
    coordinates, free : (P,) prescribed coordinates, in the order of the links, and (F,) the others
    values : function of t that returns q, v, a of the prescribed coordinates, (3, P)
    """

    links: dict[str, slice]
    coordinates: np.ndarray
    free: np.ndarray
    values: Callable[[float], np.ndarray]

    def of_links(self, forces: np.ndarray) -> dict[str, np.ndarray]:
        """Forces (., n) along all coordinates, split by prescribed joint: (., dof) by name of link."""
        return {name: forces[..., self.coordinates[own]] for name, own in self.links.items()}


def prescribed_motion(model: RodModel, prescribed: Mapping[str, Motion] | None) -> PrescribedMotion:
    """The prescribed motion of the joints of these links, given as functions of t that return coordinates, rates and
    accelerations, (3,) or (3, dof).

    Raises
    ------
    ValueError : an unknown link, or one without a joint; also when a function returns another shape, or more than 2 pi
        for a joint that rotates about any axis.
    TypeError : a value that is not a function.
    """
    links, coordinates, motions, rotations = {}, [], [], []
    for name, motion in _by_link(prescribed).items():
        own = _coordinates(model, name)
        if not callable(motion):
            raise TypeError(f"prescribed[{name!r}]: got {type(motion).__name__}, expected a function of t")
        links[name] = slice(len(coordinates), len(coordinates) + own.stop - own.start)
        coordinates += range(own.start, own.stop)
        motions.append((name, motion, links[name]))
        for k in range(own.start, own.stop):
            if count := rotation_count(model, k):
                first = links[name].start + k - own.start
                rotations.append((name, slice(first, first + count)))
    indices = np.array(coordinates, np.int64)

    def values(t: float) -> np.ndarray:
        rows = np.empty((3, len(indices)))
        for name, motion, own in motions:
            rows[:, own] = _as_rows(name, t, motion(t), own.stop - own.start)
        if not np.isfinite(rows).all():
            for name, _, own in motions:
                at_time(f"prescribed[{name!r}]", t, rows[:, own], rows[:, own].shape)
        for name, angular in rotations:
            if rows[0, angular] @ rows[0, angular] > FARTHEST**2:
                turn = np.linalg.norm(rows[0, angular])
                label = f"prescribed[{name!r}]({t:.6g})"
                raise ValueError(f"{label}: got {turn:.4g} rad of rotation, expected at most 2 pi")
        return rows

    return PrescribedMotion(links, indices, np.setdiff1d(np.arange(model.nq), indices), values)


def _by_link(prescribed: Mapping[str, T] | None) -> Mapping[str, T]:
    return {} if prescribed is None else as_kind("prescribed", prescribed, Mapping, "a mapping by name of link")


def _coordinates(model: RodModel, name: str) -> slice:
    return look_up("prescribed: link with a joint", name, model.joint_coordinates)


def _as_rows(name: str, t: float, value: ArrayLike, dof: int) -> np.ndarray:
    """Coordinates, rates and accelerations (3, dof), given so or, for one degree of freedom, as (3,).  ValueError for
    other shapes."""
    given = as_floats(f"prescribed[{name!r}]({t:.6g})", value)
    if dof == 1 and given.ndim == 1:
        given = given[:, None]
    return given if given.shape == (3, dof) else as_array(f"prescribed[{name!r}]({t:.6g})", given, (3, dof))


def at_time(name: str, t: float, value: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """The value of a function of t as an array; ValueError names the function and t."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape:
        if np.isfinite(value).all():
            return value
    return as_array(f"{name}({t:.6g})", value, shape)


def prescribed_values(model: RodModel, prescribed: Mapping[str, ArrayLike] | None) -> PrescribedMotion:
    """The prescribed motion of joints at rest at given coordinates, a number or (dof,), by name of link."""

    def at_rest(name: str, value: ArrayLike) -> Motion:
        own = _coordinates(model, name)
        label = f"prescribed[{name!r}]"
        q = as_array(label, np.atleast_1d(as_floats(label, value)), (own.stop - own.start,))
        return lambda t: np.array([q, 0.0 * q, 0.0 * q])

    return prescribed_motion(model, {name: at_rest(name, value) for name, value in _by_link(prescribed).items()})


# --------------------------------------------------------------------------------------------
# Constraint forces of a soft robot in motion: multipliers of closed chains, and forces that drive prescribed joints.
#
# They and their derivatives are those of `constrained_dynamics`.


class Reactions(NamedTuple):
    """Accelerations a (n,), multipliers (G,) of closed chains, N and N m, and forces (dof,), N or N m, that drive
    prescribed joints, by name of link; with a leading axis for K points (K, .), and in derivatives a trailing one (.,
    Z) for Z variables."""

    a: np.ndarray
    multipliers: np.ndarray
    forces: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return in_brief(self)


class ReactionDerivatives(NamedTuple):
    """First derivatives of `Reactions` in q and v (n columns each), in u (nu), and in the accelerations of prescribed
    coordinates (P), in the order in which they were given."""

    dq: Reactions
    dv: Reactions
    du: Reactions
    dprescribed: Reactions

    def __repr__(self) -> str:
        return in_brief(self)


def reactions(
    robot: SoftRobot,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike,
    prescribed: Mapping[str, ArrayLike] | None = None,
    wrenches: ArrayLike | None = None,
) -> Reactions:
    """Accelerations, with the forces that keep chains closed and drive prescribed joints.

    Parameters
    ----------
    robot : SoftRobot
    q, v : (n,) or (K, n);  u : (nu,) or (K, nu); single points are repeated
    prescribed : accelerations of joints with prescribed coordinates, a number or (dof,), by name of link
    wrenches : (W, 6) or (K, W, 6), [moment; force] of the external loads that take one; by default zero

    Returns
    -------
    Reactions(a, multipliers, forces).  In M a + ... = B u + A'multipliers, a multiplier is the force conjugate to its
    row of `closure_error`; A is `closure_jacobian`.

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, an unknown link; a configuration at which the constraints
        are dependent; `reaction_derivatives` raises the same.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    >>> hinge = dynamics.Revolute("y")
    >>> bends = rods.LegendreBasis(bending_y=2)
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, bends, joint=hinge)
    >>> held = rods.reactions(rods.SoftRobot(builder.build()), np.zeros(4), np.zeros(4), [], {"arm": 0.0})
    >>> held.forces["arm"].round(3)  # N m that keep the hinge still as the straight arm begins to bend
    array([-0.012])
    """
    single, held, motion = _solved(MASS_MATRIX, robot, q, v, u, prescribed, wrenches)
    a, multipliers, forces = unbatch(single, motion.a.copy(), motion.multipliers.copy(), motion.forces)
    return Reactions(a, multipliers, held.of_links(forces))


def reaction_derivatives(
    robot: SoftRobot,
    q: ArrayLike,
    v: ArrayLike,
    u: ArrayLike,
    prescribed: Mapping[str, ArrayLike] | None = None,
    wrenches: ArrayLike | None = None,
) -> ReactionDerivatives:
    """First derivatives of `reactions`, with its parameters.

    Returns
    -------
    ReactionDerivatives(dq, dv, du, dprescribed), each Reactions with one axis more: a (n, Z), multipliers (G, Z),
    forces (dof, Z); for K points (K, ., Z).
    """
    single, held, motion = _solved(FIRST, robot, q, v, u, prescribed, wrenches)
    unknowns, forces = unbatch(single, motion.derivatives, motion.force_derivatives)
    sizes = robot.nq, robot.nq, robot.nu, len(held.coordinates)
    return ReactionDerivatives(*by_variable(Reactions, sizes, unknowns, forces, held))


def _solved(level, robot, q, v, u, prescribed, wrenches):
    """True for a single point, the prescribed motion, and the result of `constrained_motion`."""
    model = as_kind("robot", robot, SoftRobot).model
    single, states = robot._states(wrenches, q=q, v=v, u=u)
    n, held = robot.nq, prescribed_values(model, prescribed)
    p = held.coordinates
    check_independence(model, states[:, :n], "q", held.free)
    states[:, 2 * n + p] = held.values(0.0)[0]
    motion = constrained_motion(model, robot.arrays, level, states, held.free, 0.0, p)
    bad = np.flatnonzero(~np.isfinite(motion.a).all(axis=1))
    if len(bad):
        check_turns(model, states[:, :n], "q")
        states[:, 2 * n : 3 * n], states[:, states.shape[1] - model.constraint_count :] = 0.0, 0.0
        raise robot._no_acceleration(bad[0], robot._residual(MASS_MATRIX, states[bad[:1]])[3][0])
    return single, held, motion


# ------------------------------------------------------------------------------------------------ for equilibria, too
def by_variable(
    kind: Callable[..., T], sizes: Sequence[int], unknowns: np.ndarray, forces: np.ndarray, held: PrescribedMotion
) -> list[T]:
    """Changes (.., F + G, Z) of free unknowns and multipliers, and (.., n, Z) of forces, split by variables of these
    sizes, which add up to Z, and of which the last are the P prescribed unknowns: one `kind` for each, with forces by
    name of link."""
    F, p, x, ends = len(held.free), held.coordinates, np.zeros(forces.shape), np.cumsum([0, *sizes])
    x[..., held.free, :] = unknowns[..., :F, :]
    x[..., p, ends[-1] - len(p) + np.arange(len(p))] = 1.0
    multipliers, links = unknowns[..., F:, :], {name: p[own] for name, own in held.links.items()}
    return [
        kind(x[..., a:b], multipliers[..., a:b], {name: forces[..., own, a:b] for name, own in links.items()})
        for a, b in pairwise(ends)
    ]


# --------------------------------------------------------------------------------------------
# Contact points of a robot's links with their forces, depths and energy, in numpy for a batch.

ABSCISSAE, SHARES = np.polynomial.legendre.leggauss(24)


class ContactForces(NamedTuple):
    """The C contacts of a model, those with fixed objects first.

    Attributes
    ----------
    links : (C,) tuple of pairs of names: the link, and the object it touches, "world" or a link
    points : (C, 3) or (K, C, 3) centres of the spheres that touch, m, world axes
    forces : (C, 3) or (K, C, 3) on the first link of each pair, N, without damping and friction
    depths : (C,) or (K, C) penetration depths, m, negative where there is a gap
    energy : elastic energy of all contacts, J, a number or (K,); the forces are its negative gradient
    """

    links: tuple[tuple[str, str], ...]
    points: np.ndarray
    forces: np.ndarray
    depths: np.ndarray
    energy: np.ndarray


def contact_forces(model: RodModel, q: ArrayLike) -> ContactForces:
    """All contacts of a model at q (n,) or (K, n), whether they touch or not.

    Raises ValueError for a wrong shape or a number that is not finite, TypeError for a model of another kind.
    """
    qs, single = as_batch("q", q, as_kind("model", model, RodModel).nq)
    _, ends = segment_poses(model, qs)
    found = list(_contacts(model))
    points, forces = np.empty((2, len(qs), len(found), 3))
    depths, energy = np.empty((len(qs), len(found))), np.zeros(len(qs))
    depth, gradients = np.empty(len(qs)), np.empty((len(qs), 3))
    for k, (a, b, c) in enumerate(found):
        points[:, k] = _place(ends, a, c[PLACE:][:3])
        _touch(c, points[:, k] - _place(ends, b, c[POINT:][:3]), depth, gradients)
        depths[:, k] = depth
        forces[:, k] = -c[SIDE] * _law(c, depth)[:, None] * gradients
        energy += _energy(c, depth)
    owner = {s: name for name, rod in model.rods.items() for s in range(rod.segments.start, rod.segments.stop)}
    owner |= {-1: "world"} | {s: name for name, s in model.link_segments.items()}
    links = tuple((owner[a], owner[b]) for a, b, _ in found)
    return ContactForces(links, *unbatch(single, points, forces, depths, energy))


def _contacts(model: RodModel):
    """Segments A and B and the numbers of each contact."""
    loads = model.external
    for s, (first, last) in enumerate(zip(loads.start[:-1], loads.start[1:], strict=True)):
        for k in range(first, last):
            if loads.kind[k] == CONTACT:
                yield s, -1, loads.parameters[k]
    for i, numbers in enumerate(loads.contacts.numbers):
        yield int(loads.contacts.integers[2 * i]), int(loads.contacts.integers[2 * i + 1]), numbers


def _place(ends: list[Pose], segment: int, place: np.ndarray) -> np.ndarray:
    return ends[segment][1] + ends[segment][0] @ place if segment >= 0 else place


@routine
def _touch(c, x, depths, gradients):
    """Depths (K,) and gradients (K, 3) of the distance at points x (K, 3) for a contact with the numbers c."""
    for k in range(x.shape[0]):
        d, _, u, _ = distance(c, (x[k, 0], x[k, 1], x[k, 2]))
        depths[k] = c[SIDE] * d + c[OFFSET]
        gradients[k, 0], gradients[k, 1], gradients[k, 2] = u


@routine
def _press(c, depths, forces):
    """Contact forces (K,) at these depths."""
    for k in range(depths.shape[0]):
        forces[k] = contact_law(depths[k], c[STIFFNESS], c[EXPONENT], c[SMOOTHING])[0]


def _law(c: np.ndarray, depths: np.ndarray) -> np.ndarray:
    """Contact forces at depths of any shape."""
    forces = np.empty(depths.size)
    _press(c, depths.ravel(), forces)
    return forces.reshape(depths.shape)


def _energy(c: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """Energy (K,), the integral of the force over the depth, by quadrature where the force is smoothed."""
    w, p = c[SMOOTHING], c[EXPONENT] + 1.0
    half = 0.5 * (np.clip(depth, -w, w) + w)
    within = (half[:, None] * SHARES * _law(c, half[:, None] * (1.0 + ABSCISSAE) - w)).sum(axis=1)
    return within + c[STIFFNESS] / p * (np.maximum(depth, w) ** p - w**p)
