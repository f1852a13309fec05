"""Inverse dynamics of rods and rigid bodies with its derivatives, knots in lanes, or one knot in plain numbers.

    ID(q, v, a) = M(q) a + c(q, v) + g(q): generalised forces of inertia and gravity, without elasticity

Levels: FORCES alone; MASS_MATRIX also; FIRST, also first derivatives; SECOND, also the Hessian of w'ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import unbatch
from dynamics.derivatives.hessian import InverseDynamicsHessian
from dynamics.derivatives.inverse_dynamics import InverseDynamicsDerivatives
from dynamics.rods.algorithms.backward_pass import (
    SEGMENT_SCRATCH,
    BlockRows,
    Blocks,
    backward_pass,
    clear_blocks,
    scatter_derivatives,
    slice_blocks,
)
from dynamics.rods.kinematics.center_lines import check_turns
from dynamics.rods.kinematics.closure_kernel import ClosureScratch, closure_hessian, closure_rows, subtract_turning
from dynamics.rods.kinematics.forward_pass import forward_pass
from dynamics.rods.loads.composites import MOMENTA, store_momenta
from dynamics.rods.loads.segment_loads import LoadScratch, PairScratch
from dynamics.rods.model.arrays import (
    CONTROLS,
    FAMILIES,
    FIRST,
    FORCES,
    LOADS,
    MASS_MATRIX,
    SECOND,
    SEGMENT,
    n,
    no_closures,
    slice_closures,
)
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import LANES, by_reference, driver, gather, launch, scatter, shared_kernel
from dynamics.simd.lane_blocks import lanes, size_of, slicing
from dynamics.simd.sizes import Size
from dynamics.validation import as_batch, as_choice, as_floats, as_kind

# ------------------------------------------------------------------------------------------------ kernels
segment_count = Size("segment_count", "external.start.size - 1")
_touching = Size("touching", "external.contacts.numbers.shape[0] > 0")
_closing = Size("closing", "closures.kind.size > 0")
_in_turn = size_of(LoadScratch).at_least(_touching * size_of(PairScratch)).at_least(_closing * size_of(ClosureScratch))


class RodWorkspace(NamedTuple):
    """Workspace of `inverse_dynamics_kernel`: segments, columns J, R, Q, W of all coordinates, sums of loads, and room
    that the forward pass, closed chains, contacts, loads, and the backward pass take in turn."""

    segments: np.ndarray = lanes(segment_count * SEGMENT)
    columns: np.ndarray = lanes(n * FAMILIES)
    loads: np.ndarray = lanes(segment_count * LOADS)
    room: np.ndarray = lanes(_in_turn.at_least(SEGMENT_SCRATCH))


slice_workspace, workspace_size = slicing(RodWorkspace)


@shared_kernel
def inverse_dynamics_kernel(m, external, closures, level, state, inputs, work, tau, A, closed, of_controls):
    """Store tau (n) and, in A, `Blocks` as far as the level goes (for MASS_MATRIX only M). state: q, v, a, w (n each);
    inputs: controls of laws, wrenches of external loads (6 each), reactions and multipliers of closed chains; work:
    `RodWorkspace`; closed: `ClosureResults`; of_controls: B and Hqu of laws, or empty where they are not needed."""
    b, _ = slice_blocks(m, A)
    controls, wrenches = inputs[: external.laws.integers[CONTROLS]], inputs[external.laws.integers[CONTROLS] :]
    of_controls[:] = 0.0
    (segments, columns, loads, w), _ = slice_workspace(m, external, closures, work)
    clear_blocks(level, b)
    forward_pass(m, level, state, segments, columns, w)
    if level >= SECOND and closures.kind.size > 0:
        closure_hessian(m, closures, segments, columns, wrenches, w, closed, b.Hqq, b.Hqv)
    if closures.kind.size > 0:
        closure_rows(m, closures, level, segments, columns, wrenches, w, closed)
    backward_pass(m, external, level, controls, wrenches, segments, columns, loads, w, tau, A, of_controls)
    if level >= FIRST and closures.kind.size > 0:
        subtract_turning(m, closures, closed, b.dq)


class _DriverLanes(NamedTuple):
    """Scratch of `drive_inverse_dynamics`."""

    state: np.ndarray = lanes(4 * n)
    inputs: np.ndarray = lanes(Size("input_count", "wrenches.shape[1]"))
    tau: np.ndarray = lanes(n)
    momenta: np.ndarray = lanes(MOMENTA)
    A: np.ndarray = lanes(size_of(Blocks))
    work: np.ndarray = lanes(size_of(RodWorkspace))


_slice_driver, _driver_size = slicing(_DriverLanes)


@driver
def drive_inverse_dynamics(first, last, work, m, external, closures, level, states, wrenches, tau, rows, momenta):
    """Store tau, `BlockRows`, and momenta if it has rows, for the knots in lanes of `states` (K, 4 n) and of `wrenches`
    (K, .), controls of laws and wrenches."""
    m, external, closures = by_reference(m), by_reference(external), by_reference(closures)
    (x, y, forces, sums, A, w), _ = _slice_driver(m, wrenches, external, closures, work)
    (b, _), (none, _) = slice_blocks(m, A), slice_closures(m, closures, A[:0])
    for c in range(first, last):
        t = c * LANES
        gather(states, t, x)
        gather(wrenches, t, y)
        inverse_dynamics_kernel(m, external, closures, level, x, y, w, forces, A, none, A[:0])
        scatter(forces, t, tau)
        scatter_derivatives(b, t, rows)
        if momenta.shape[0] > 0:
            store_momenta(m, w, sums)
            scatter(sums, t, momenta)


# ------------------------------------------------------------------------------------------------ public
def state_batches(
    model: RodModel, wrenches: ArrayLike | None = None, **vectors: ArrayLike
) -> tuple[bool, np.ndarray, np.ndarray]:
    """True for a single point, the states (K, 4 n) of q, v, a, w, and the wrenches (K, 6 W), by
    default zero."""
    W = as_kind("model", model, RodModel).wrench_count
    vectors["wrenches"] = np.zeros(6 * W) if wrenches is None else flat_wrenches(wrenches, model)
    arrays, single = {}, True
    for name, value in vectors.items():
        arrays[name], one = as_batch(name, value, 6 * W if name == "wrenches" else model.nq)
        single = single and one
    K = common_length(arrays)
    given = np.array(np.broadcast_to(arrays.pop("wrenches"), (K, 6 * W)))
    states = np.zeros((K, 4 * model.nq))
    for k, array in enumerate(arrays.values()):
        states[:, k * model.nq : (k + 1) * model.nq] = array
    return single, states, given


def common_length(batches: Mapping[str, np.ndarray]) -> int:
    """The number of points K of batches of 1 or K points; ValueError names a batch of another length."""
    K = max((len(array) for array in batches.values() if len(array) != 1), default=1)
    for name, array in batches.items():
        if len(array) not in (1, K):
            raise ValueError(f"{name}: got {len(array)} points, expected 1 or {K}")
    return K


def flat_wrenches(wrenches: ArrayLike, model: RodModel) -> np.ndarray:
    """The wrenches (W, 6) or (K, W, 6) as rows (6 W) or (K, 6 W)."""
    count, array = model.wrench_count, as_floats("wrenches", wrenches)
    if array.shape[-2:] != (count, 6) or array.ndim not in (2, 3):
        raise ValueError(f"wrenches: got shape {array.shape}, expected ({count}, 6) or (K, {count}, 6)")
    return array.reshape(*array.shape[:-2], 6 * count)


def evaluate(
    model: RodModel, level: int, states: np.ndarray, wrenches: np.ndarray, momenta: np.ndarray | None = None
) -> list[np.ndarray]:
    """tau (K, n) and, as far as the level goes, dq, dv, M, Hqq, Hqv, Hvv, Hqa (K, n n), for states (K, 4 n) and
    wrenches (K, 6 W) of the external loads; momenta (K, MOMENTA) is filled if given.  ValueError where rods or joints
    rotate too far."""
    K, n = len(states), model.nq
    wanted = (FIRST, FIRST, MASS_MATRIX, SECOND, SECOND, SECOND, SECOND)
    blocks = [np.empty((K if level >= least else 0, n * n)) for least in wanted]
    tau = np.empty((K, n))
    inputs = np.zeros((K, model.input_count))  # controls are zero
    inputs[:, len(model.load_controls) :] = wrenches
    plant = model.arrays, model.external, no_closures()
    sums = np.empty((0, MOMENTA)) if momenta is None else momenta
    arguments = *plant, level, states, inputs, tau, BlockRows(*blocks), sums
    size = _driver_size(model.arrays, inputs, model.external, plant[2])
    launch(drive_inverse_dynamics, K, size, *arguments)
    if not np.vdot(tau, tau) < np.inf:
        check_turns(model, states[:, :n], "q")
    return [tau, *blocks]


def _matrices(single: bool, n: int, blocks) -> tuple[np.ndarray, ...]:
    return unbatch(single, *(block.reshape(-1, n, n) for block in blocks))


def inverse_dynamics(
    model: RodModel, q: ArrayLike, v: ArrayLike, a: ArrayLike, wrenches: ArrayLike | None = None
) -> np.ndarray:
    """Generalised forces tau = ID(q, v, a) of inertia and gravity, without elasticity and damping.

    Parameters: q, v, a (n,) or (K, n); wrenches (W, 6) or (K, W, 6), [moment; force] of the external loads that take
    one, in the order in which they were added, by default zero.
    Returns: (n,) or (K, n), N m or N along the coordinates.
    Raises: ValueError for a wrong shape, a number that is not finite, or a rod that rotates by more than 2 pi between
    neighbouring nodes; so do the functions below.
    """
    single, states, given = state_batches(model, wrenches, q=q, v=v, a=a)
    (tau,) = unbatch(single, evaluate(model, FORCES, states, given)[0])
    return tau


def mass_matrix(model: RodModel, q: ArrayLike) -> np.ndarray:
    """M (n, n) or (K, n, n), symmetric; q (n,) or (K, n)."""
    single, states, given = state_batches(model, q=q)
    (M,) = _matrices(single, model.nq, evaluate(model, MASS_MATRIX, states, given)[3:4])
    return M


def inverse_dynamics_derivatives(
    model: RodModel, q: ArrayLike, v: ArrayLike, a: ArrayLike, wrenches: ArrayLike | None = None
) -> InverseDynamicsDerivatives:
    """First derivatives of ID in q and v, and M, its derivative in a; q, v, a (n,) or (K, n)  [Mathew 2025, eq. 35]."""
    single, states, given = state_batches(model, wrenches, q=q, v=v, a=a)
    return InverseDynamicsDerivatives(*_matrices(single, model.nq, evaluate(model, FIRST, states, given)[1:4]))


def inverse_dynamics_hessian(
    model: RodModel, q: ArrayLike, v: ArrayLike, a: ArrayLike, w: ArrayLike, wrenches: ArrayLike | None = None
) -> InverseDynamicsHessian:
    """Hessian of w'ID; q, v, a, w (n,) or (K, n).  Rows of Hqv, Hqa belong to q; Hva = Haa = 0. No tensor is formed."""
    single, states, given = state_batches(model, wrenches, q=q, v=v, a=a, w=w)
    return InverseDynamicsHessian(*_matrices(single, model.nq, evaluate(model, SECOND, states, given)[4:]))


# --------------------------------------------------------------------------------------------
# Center of mass, momentum and energies of a soft robot.


class Energies(NamedTuple):
    """Kinetic energy, elastic energy of rods and joints, potential energy of weight (zero at the world's origin), J;
    each a number or (K,)."""

    kinetic: np.ndarray
    elastic: np.ndarray
    gravitational: np.ndarray


class Momentum(NamedTuple):
    """Angular momentum, kg m^2/s, and linear momentum, kg m/s; each (3,) or (K, 3), world axes."""

    angular: np.ndarray
    linear: np.ndarray


def _momenta(model: RodModel, **vectors: ArrayLike) -> tuple[bool, np.ndarray, np.ndarray]:
    """True for a single point, the states (K, 4 n), and the results of `store_momenta` (K,
    MOMENTA)."""
    single, states, wrenches = state_batches(model, **vectors)
    momenta = np.empty((len(states), MOMENTA))
    evaluate(model, FORCES, states, wrenches, momenta)
    return single, states, momenta


def _center(model: RodModel, momenta: np.ndarray) -> np.ndarray:
    if model.total_mass == 0.0:
        raise ValueError("model: has no mass, expected one with a center of mass")
    return momenta[:, :3] / model.total_mass


def center_of_mass(model: RodModel, q: ArrayLike) -> np.ndarray:
    """Center of mass (3,) or (K, 3), m, world axes; q (n,) or (K, n).

    Raises: ValueError for a wrong shape, a number that is not finite, or a model without mass; so do the functions
    below, except for the mass.
    """
    single, _, momenta = _momenta(model, q=q)
    (center,) = unbatch(single, _center(model, momenta))
    return center


def momentum(model: RodModel, q: ArrayLike, v: ArrayLike, about: str = "center_of_mass") -> Momentum:
    """Momentum(angular, linear) of all rods and bodies.

    Parameters
    ----------
    model : RodModel
    q, v : (n,) or (K, n)
    about : reference point of the angular momentum: "center_of_mass", or "world" for the world's origin

    Returns
    -------
    Momentum(angular, linear), each (3,) or (K, 3)

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, another point; a model without mass has no center of mass.
    """
    as_choice("about", about, ("center_of_mass", "world"))
    single, _, momenta = _momenta(model, q=q, v=v)
    angular, linear = momenta[:, 3:6].copy(), momenta[:, 6:9].copy()
    if about == "center_of_mass":
        angular -= np.cross(_center(model, momenta), linear)
    return Momentum(*unbatch(single, angular, linear))


def energies(model: RodModel, q: ArrayLike, v: ArrayLike) -> Energies:
    """Energies(kinetic, elastic, gravitational) at q, v (n,) or (K, n): v'M v / 2, q'K q / 2, - m g.c."""
    single, states, momenta = _momenta(model, q=q, v=v)
    qs = states[:, : model.nq]
    elastic = np.array([0.5 * (x @ (model.stiffness @ x)) for x in qs])  # point by point, as for a single one
    gravitational = -(momenta[:, :3] * model.gravity).sum(axis=1)
    return Energies(*unbatch(single, momenta[:, 9].copy(), elastic, gravitational))
