"""Residuals of links: position, orientation and velocity of a frame on a link, strains and forces of a rod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import LOCAL_WORLD_ALIGNED, components, reference_code
from dynamics.geometry.world_shape import WorldShape, target_cross
from dynamics.residuals.frame_placement import quaternion_of
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import ROTATION, VECTOR
from dynamics.rods.algorithms.backward_pass import Blocks, slice_blocks
from dynamics.rods.algorithms.inverse_dynamics import RodWorkspace, inverse_dynamics_kernel, slice_workspace
from dynamics.rods.kinematics.forward_pass import forward_pass, load_column
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import (
    END,
    FIRST,
    FOLLOWER,
    MASS_MATRIX,
    ROD,
    SECOND,
    SEGMENT,
    TWIST,
    WRENCH,
    LoadArrays,
    RodArrays,
    n,
    no_closures,
    slice_closures,
)
from dynamics.rods.model.rod_model import Rod, RodModel
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.simd.lane_algebra import add_transpose, scale_into, store_pair
from dynamics.simd.lane_blocks import size_of
from dynamics.spatial import so3
from dynamics.spatial.so3 import stumpff
from dynamics.spatial.spatial import (
    add_cross,
    angular,
    dot3,
    linear,
    load3,
    load6,
    load9,
    multiply,
    rotate,
    rotate_back,
    store3,
)
from dynamics.spatial.tangent import store_column3, store_column6
from dynamics.validation import as_array, as_kind, as_placement, look_up

# --------------------------------------------------------------------------------------------
# A frame on a link, anywhere along a rod: the common part of its residuals.
#
# Only the links between the base and the frame matter, without mass and gravity: the model is the chain of the segments
# on this path, the last of them a Magnus step that ends at the frame, so that at the model's nodes the frame is where
# the model has it.  The Jacobian's columns are those of the chain's end.  Wrenches of constant components, in axes of
# the world or of the frame, have the generalised forces J'f, so that second derivatives of J are first or second
# derivatives of ID.

TARGET = 0.06
"""Length of the arms of the cross that marks a target in pictures, relative to the longest rod."""
SCRATCH = {"state": 4 * n, "wrench": 6, "tau": n, "A": size_of(Blocks), "room": size_of(RodWorkspace)}


# ------------------------------------------------------------------------------------------------ kernels
@helper
def massless(block):
    """The model itself: the residuals of links store its arrays without mass."""
    return block


@helper
def load_configuration(m, x, state):
    """Load q of a state x = (q, v) into `state`, with zero rates."""
    n = m.counts[0]
    state[n:] = 0.0
    for i in range(n):
        store(state, i, load(x, i))


@helper
def swept(m, external, closures, level, state, room):
    """Segments and columns after a forward pass."""
    (segments, columns, _, w), _ = slice_workspace(m, external, closures, room)
    forward_pass(m, level, state, segments, columns, w)
    return segments, columns


@helper
def end_pose(m, segments):
    """R and p at the end of the chain."""
    o = (m.parent.size - 1) * SEGMENT + END
    return load9(segments, o), load3(segments, o + 9)


# ------------------------------------------------------------------------------------------------ models
class LinkResidual(KernelResidual):
    """Base of residuals of a frame on a link."""

    link: str
    s: float
    placement: tuple[np.ndarray, np.ndarray]
    quantity: ClassVar[str]
    """Name of what the residual is of the frame."""

    def __init__(
        self,
        model: RodModel,
        link: str,
        target: ArrayLike | Callable[[float], ArrayLike],
        s: float = 1.0,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> None:
        path, chain, fixed = self._attach(model, link, s, placement)
        self._finish(path, chain, targets=self._as_targets(target), **fixed)

    def _attach(
        self, model: RodModel, link: str, s: float, placement: Any, kind: int = WRENCH
    ) -> tuple[np.ndarray, RodArrays, dict[str, Any]]:
        """Coordinates on the path to the frame, the chain, and the further arguments of kernels; parameters as for
        `LinkTranslation`."""
        as_kind("model", model, RodModel)
        s, placement = as_share(model, link, s), as_placement("placement", placement)
        for part in placement:
            part.flags.writeable = False
        super().__init__(cast(Any, model), f"{self.quantity} of {link}" + ("" if s == 1.0 else f" at s = {s:g}"))
        self._set(link=link, s=s, placement=placement)
        chain = chain_to(model, link, s, placement)
        path = chain.path[chain.path_start[-2] :]
        return path, chain, {"external": load_at_end(chain, kind), "closures": no_closures()}


def target_size(model: RodModel) -> float:
    """Length of the arms of the cross that marks a target in pictures, m."""
    return TARGET * max((rod.length for rod in model.rods.values()), default=1.0)


def as_share(model: RodModel, link: str, s: float) -> float:
    """A position on a link, X / length between 0 and 1; ValueError otherwise."""
    model.segment_of(link)
    s = float(as_array("s", s, ()))
    if not 0.0 <= s <= 1.0:
        raise ValueError(f"s: got {s}, expected X / length between 0 and 1")
    if s != 1.0 and link not in model.rods:
        raise ValueError(f"s: got {s} of the body {link!r}, expected 1; only rods have other places")
    return s


def chain_to(model: RodModel, link: str, s: float, placement: tuple[np.ndarray, np.ndarray]) -> RodArrays:
    """The segments up to X = s length of a rod, or up to a body, without mass and gravity; the last ends at the
    frame."""
    m, last = model.arrays, model.segment_of(link)
    modes, step, reference = m.modes, m.step.copy(), m.reference.copy()
    if link in model.rods:
        rod = model.rods[link]
        k = min(max(int(np.searchsorted(rod.nodes, s * rod.length)) - 1, 0), len(rod.nodes) - 2)
        last = rod.segments.start + k
        h, b, at_rest, of_basis = rod.step(rod.nodes[k], s * rod.length - rod.nodes[k])
        modes, step[last], reference[last] = np.concatenate([modes, of_basis]), (h, b), at_rest.ravel()
    chain = [last]
    while m.parent[chain[0]] >= 0:
        chain.insert(0, int(m.parent[chain[0]]))
    paths = [m.path[m.path_start[k] : m.path_start[k + 1]] for k in chain]
    after, first_mode, L = m.after[chain], m.first_mode[chain], len(chain)
    R, p = after[-1, :9].reshape(3, 3), after[-1, 9:]
    after[-1] = np.concatenate([(R @ placement[0]).ravel(), p + R @ placement[1]])
    if m.kind[last] == ROD:
        first_mode[-1] = len(m.modes)
    return RodArrays(
        np.arange(-1, L - 1), m.kind[chain], m.rows[chain], step[chain], reference[chain], first_mode, modes,
        m.before[chain], after, np.zeros((L, 10)), np.cumsum([0, *map(len, paths)]), np.concatenate(paths),
        np.zeros(L + 1, np.int64), np.zeros(0, np.int64), m.base, np.zeros(3), m.counts,
    )  # fmt: skip


def load_at_end(m: RodArrays, kind: int) -> LoadArrays:
    """Arrays with a wrench at the end of the last segment as the only load."""
    loads = LoadList()
    loads.add_wrench(len(m.parent) - 1, kind, "force", np.zeros(3))
    return loads.arrays(m)


# --------------------------------------------------------------------------------------------
# Position of a frame on a link, anywhere along a rod:  r = p(q) - target, world axes.
#
# The columns of J are those of the frame's twist, moved to its origin.  The generalised forces of a constant force f at
# that point are J'f, so that the Hessian of f'r is d(J'f)/dq: the derivative of -ID at rest for the robot without mass
# and gravity, with a load f at the frame.


@kernel
def _translation(m, external, closures, target, path, x, state, room, r, J):
    """r (3) and its Jacobian J (3 n) at x = (q, v)."""
    align_stack(state)
    n = m.counts[0]
    load_configuration(m, x, state)
    segments, columns = swept(m, external, closures, np.int64(MASS_MATRIX), state, room)
    _, p = end_pose(m, segments)
    store3(r, 0, (p[0] - load(target, 0), p[1] - load(target, 1), p[2] - load(target, 2)))
    J[:] = 0.0
    for i in path:
        S = load_column(columns, n, 0, i)
        store_column3(J, i, n, add_cross(linear(S), angular(S), p))


@kernel
def _translation_hessian(m, external, closures, state, mu, room, wrench, tau, A, H):
    """H (n n), the Hessian of mu'r; wrench (6), tau (n) and A, `Blocks` of ID, are scratch."""
    align_stack(state)
    n, level = m.counts[0], np.int64(FIRST)
    none, _ = slice_closures(m, closures, A[:0])
    wrench[:3] = 0.0
    store3(wrench, 3, load3(mu, 0))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, tau, A, none, A[:0])
    scale_into(n * n, H, -1.0, slice_blocks(m, A)[0].dq)


class LinkTranslation(LinkResidual):
    """Position of a frame on a link minus a target, world axes, m.

    Parameters
    ----------
    model : RodModel
    link : one of `model.link_names`
    target : (3,), m, or (N+1, 3) with one for each knot of a problem, or a function of time, t (s) to (3,), which a
        problem evaluates at its knots
    s : position along a rod, X / length between 0 and 1; by default the tip.  For a body 1
    placement : (R, p), the frame in that of the rod's section (its x is the rod's axis) or of the body; by default the
        identity

    Raises
    ------
    TypeError : a model that is not a RodModel.
    ValueError : unknown link (with the nearest matches), s out of range, or a target or placement of wrong shape or
        with non-finite entries.
    """

    nr = 3
    quantity = "translation"
    target: np.ndarray
    target_kind = VECTOR
    kernels = residual_kernels(_translation, None, _translation_hessian, 3, n, SCRATCH, model=massless, target=3)

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """Scene objects of the target, for several targets the last one and the path of all; see
        `trajopt.interfaces.residual.SeenResidual`."""
        path = np.atleast_2d(self.target)
        shapes = (target_cross(np.eye(3), path[-1], target_size(cast(RodModel, self.model))),)
        if len(path) == 1:
            return shapes
        return (*shapes, WorldShape(np.stack([path[:-1], path[1:]], axis=1), target=True))


# --------------------------------------------------------------------------------------------
# Orientation of a frame on a link, anywhere along a rod:  r = log3(target'R(q)).
#
# With w the angular columns in the frame's axes, Ji = Jr(r)^-1, lam = Ji'mu, as for rigid robots,
#
#     r_x = Ji w,      H of mu'r  =  -w'Ji'Gam(r, lam) Ji w + K,
#
# K is the symmetric part of d(w'lam)/dq for a moment lam that rotates with the frame or, equivalently, stays fixed in
# the world: the derivative of -ID at rest for the robot without mass, with the load R lam.


@helper
def _turning(r):
    """Stumpff functions of r, and Jr(r)^-1."""
    c = stumpff(dot3(r, r))
    return c, so3.jacobian_inverse(r, c)


@kernel
def _rotation(m, external, closures, target, path, x, state, room, r, J):
    """r (3) and its Jacobian J (3 n) at x = (q, v)."""
    align_stack(state)
    n = m.counts[0]
    load_configuration(m, x, state)
    segments, columns = swept(m, external, closures, np.int64(MASS_MATRIX), state, room)
    R, _ = end_pose(m, segments)
    store3(r, 0, so3.log(quaternion_of(multiply(so3.transpose(load9(target, 0)), R))))
    _, Ji = _turning(load3(r, 0))
    J[:] = 0.0
    for i in path:
        store_column3(J, i, n, rotate(Ji, rotate_back(R, angular(load_column(columns, n, 0, i)))))


@kernel
def _rotation_hessian(m, external, closures, path, state, r, mu, room, wrench, tau, A, H):
    """H (n n), the Hessian of mu'r, after the value."""
    align_stack(state)
    n, level = m.counts[0], np.int64(FIRST)
    none, _ = slice_closures(m, closures, A[:0])
    phi = load3(r, 0)
    c, Ji = _turning(phi)
    lam = rotate_back(Ji, load3(mu, 0))
    (segments, columns, _, _), _ = slice_workspace(m, external, closures, room)
    R, _ = end_pose(m, segments)
    P = so3.full(so3.congruence(Ji, so3.gamma(phi, lam, c)))
    H[:] = 0.0
    for i in path:
        turned = rotate(R, rotate(P, rotate_back(R, angular(load_column(columns, n, 0, i)))))
        for j in path:
            if j <= i:
                store_pair(H, n, i, j, -dot3(turned, angular(load_column(columns, n, 0, j))))
    wrench[3:] = 0.0
    store3(wrench, 0, rotate(R, lam))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, tau, A, none, A[:0])
    K = slice_blocks(m, A)[0].dq
    add_transpose(n, -0.5, K)
    for k in range(n * n):
        store(H, k, load(H, k) + load(K, k))


class LinkRotation(LinkResidual):
    """Orientation of a frame on a link relative to a target, log3(target'R(q)): a rotation vector in the target's axes,
    rad; smooth while the rotation between the two is less than half a turn, where the logarithm jumps.

    Parameters
    ----------
    model, link, s, placement : as for `LinkTranslation`
    target : (3, 3), a rotation, or (N+1, 3, 3) with one for each knot of a problem, or a function of time, t (s) to
        (3, 3), which a problem evaluates at its knots

    Raises
    ------
    TypeError, ValueError : as `LinkTranslation`, and for a target that is not a rotation.
    """

    nr = 3
    quantity = "rotation"
    target: np.ndarray
    target_kind = ROTATION
    kernels = residual_kernels(_rotation, None, _rotation_hessian, 3, n, SCRATCH, model=massless, target=9)

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """Scene objects of the target (the last one if there are several), at the frame's position in the last state;
        see `trajopt.interfaces.residual.SeenResidual`."""
        model = cast(RodModel, self.model)
        place = LinkTranslation(model, self.link, np.zeros(3), self.s, self.placement).evaluate(xs[-1:])[0]
        return (target_cross(self.target.reshape(-1, 3, 3)[-1], place, target_size(model)),)


# --------------------------------------------------------------------------------------------
# Velocity of a frame on a link, anywhere along a rod, [linear; angular], in world-aligned or in the frame's own axes.
#
# With S and R the families of `forward_pass`, columns of the frame's twist eta = S v, R = d eta/dq seen in the moving
# body, all in components c() of the reference, v_c and omega those of the velocity,
#
#     d/dv = c(S)      d/dq = c(R) + [local_world_aligned] [S_w x v_c; S_w x omega]
#
# For a multiplier mu, mu'r = v'tau with the generalised forces tau = J'mu of a wrench mu at the frame, in the axes of
# the reference.  For the robot without mass, at rest under this load, tau = -ID, hence
#
#     Hvq = -dID/dq      Hqq = -d2(v'ID)/dq2      Hvv = 0


@kernel
def _velocity(m, external, closures, reference, target, path, x, state, room, r, J):
    """r (6) and its Jacobian J (6 2n) at x = (q, v)."""
    align_stack(state)
    n = m.counts[0]
    load_configuration(m, x, state)
    for i in range(n):
        store(state, n + i, load(x, x.shape[0] - n + i))
    segments, columns = swept(m, external, closures, np.int64(FIRST), state, room)
    R, p = end_pose(m, segments)
    c = components(reference, R, p, load6(segments, (m.parent.size - 1) * SEGMENT + END + TWIST))
    v_c, omega = (c[0], c[1], c[2]), (c[3], c[4], c[5])
    for k in range(6):
        store(r, k, c[k] - load(target, k))
    J[:] = 0.0
    for k in range(path.size // 2):
        i = path[k]
        S = load_column(columns, n, 0, i)
        c = components(reference, R, p, load_column(columns, n, 6, i))
        if reference == LOCAL_WORLD_ALIGNED:
            a = add_cross((c[0], c[1], c[2]), angular(S), v_c)
            b = add_cross((c[3], c[4], c[5]), angular(S), omega)
            c = (a[0], a[1], a[2], b[0], b[1], b[2])
        store_column6(J, i, 2 * n, c)
        store_column6(J, n + i, 2 * n, components(reference, R, p, S))


@kernel
def _velocity_hessian(m, external, closures, state, mu, room, wrench, tau, A, H):
    """H (2n 2n), the Hessian of mu'r, after the value."""
    align_stack(state)
    n, level = m.counts[0], np.int64(SECOND)
    none, _ = slice_closures(m, closures, A[:0])
    store3(wrench, 0, load3(mu, 3))
    store3(wrench, 3, load3(mu, 0))
    for i in range(n):
        store(state, 3 * n + i, load(state, n + i))
        store(state, n + i, load(state, 2 * n + i))
    inverse_dynamics_kernel(m, external, closures, level, state, wrench, room, tau, A, none, A[:0])
    b, _ = slice_blocks(m, A)
    H[:] = 0.0
    for i in range(n):
        for j in range(n):
            store(H, i * 2 * n + j, -load(b.Hqq, i * n + j))
            store_pair(H, 2 * n, n + i, j, -load(b.dq, i * n + j))


class LinkVelocity(LinkResidual):
    """Velocity of a frame on a link minus a target, [linear; angular], m/s and rad/s.

    Parameters
    ----------
    model, link, s, placement : as for `LinkTranslation`
    target : (6,), by default zero, in the same reference; or (N+1, 6) with one for each knot of a problem, or a
        function of time, t (s) to (6,), which a problem evaluates at its knots
    reference : "local_world_aligned" (velocity of the frame's origin and angular velocity, world axes) or "local" (the
        same in the frame's own axes)

    Raises
    ------
    TypeError, ValueError : as `LinkTranslation`, and for an unknown reference.
    """

    nr = 6
    quantity = "velocity"
    target_kind = VECTOR
    kernels = residual_kernels(_velocity, None, _velocity_hessian, 6, 2 * n, SCRATCH, model=massless, target=6)

    def __init__(
        self,
        model: RodModel,
        link: str,
        target: ArrayLike | Callable[[float], ArrayLike] | None = None,
        s: float = 1.0,
        placement: tuple[ArrayLike, ArrayLike] | None = None,
        reference: str = "local_world_aligned",
    ) -> None:
        code = reference_code(reference, ("local_world_aligned", "local"))
        kind = WRENCH if code == LOCAL_WORLD_ALIGNED else FOLLOWER
        path, chain, fixed = self._attach(model, link, s, placement, kind)
        self._set(reference=reference)
        both, target = np.concatenate([path, model.nq + path]), np.zeros(6) if target is None else target
        self._finish(both, chain, targets=self._as_targets(target), reference=code, **fixed)


# --------------------------------------------------------------------------------------------
# Strains and internal forces of a rod at one place, which are linear in the coordinates:
#
# xi(s) = Phi(s) q + xi*        f(s) = diag(G Jx, E Jy, E Jz, E A, G A, G A) (xi(s) - xi*)


@kernel
def _linear(m, matrix, rest, target, path, x, q, r, J):
    """r = matrix q + rest - target and J = matrix (6 n)."""
    align_stack(q)
    n = m.counts[0]
    load_configuration(m, x, q)
    J[:] = 0.0
    for k in range(6):
        total = splat(q, rest[k]) - load(target, k)
        for i in path:
            total = fma(matrix[k, i], load(q, i), total)
            store(J, k * n + i, splat(q, matrix[k, i]))
        store(r, k, total)


@kernel
def _no_hessian(H):
    H[:] = 0.0


_Target = ArrayLike | Callable[[float], ArrayLike] | None
_LINEAR = residual_kernels(_linear, None, _no_hessian, 6, n, {"q": n}, model=massless, target=6)


class _OfRod(KernelResidual):
    """Base of residuals that are linear in a rod's coordinates."""

    rod: str
    s: float

    def _attach(self, model: RodModel, rod: str, s: float, what: str) -> tuple[Rod, np.ndarray]:
        """The rod, and Phi (6, n) of all coordinates at s."""
        as_kind("model", model, RodModel)
        part = look_up("rod", rod, model.rods)
        s = as_share(model, rod, s)
        super().__init__(cast("RodModel", model), f"{what} of {rod} at s = {s:g}")  # pyright: ignore[reportArgumentType]
        self._set(rod=rod, s=s)
        Phi = np.zeros((6, model.nq))
        Phi[:, part.coordinates] = part.basis.matrix(s)
        return part, Phi

    def _fill(self, part: Rod, matrix: np.ndarray, rest: np.ndarray, target: Any) -> None:
        own = np.arange(part.coordinates.start, part.coordinates.stop)
        self._finish(own, self.model.arrays, self._as_targets(target), matrix=matrix, rest=rest)


class RodStrain(_OfRod):
    """Strains of a rod at one place minus a target: [torsion, bending about y and z; stretch, shear along y and z], 1/m
    and m/m.

    Parameters
    ----------
    model : RodModel
    rod : name of one of its rods
    s : position along the rod, X / length between 0 and 1
    target : (6,), by default the strains at rest, (0, 0, 0, 1, 0, 0) of a straight rod; or (N+1, 6) with one for each
        knot of a problem, or a function of time, t (s) to (6,), which a problem evaluates at its knots

    Raises
    ------
    TypeError : a model that is not a RodModel.
    ValueError : unknown rod (with the nearest matches), s out of range, a target of wrong shape or not finite.
    """

    nr = 6
    target_kind = VECTOR
    kernels = _LINEAR

    def __init__(self, model: RodModel, rod: str, s: float, target: _Target = None) -> None:
        part, Phi = self._attach(model, rod, s, "strain")
        rest = part.reference_strains(np.array([self.s]))[0]
        self._fill(part, Phi, rest, rest if target is None else target)


class RodForces(_OfRod):
    """Elastic forces in a rod's section minus a target: [torsion, bending moments about y and z; tension, shear forces
    along y and z], N m and N, in axes of the section; without viscosity, tendons and chambers.

    Parameters
    ----------
    model, rod, s : as for `RodStrain`
    target : (6,), by default zero; or one for each knot, or a function of time, as for `RodStrain`

    Raises
    ------
    TypeError, ValueError : as `RodStrain`.
    """

    nr = 6
    target_kind = VECTOR
    kernels = _LINEAR

    def __init__(self, model: RodModel, rod: str, s: float, target: _Target = None) -> None:
        part, Phi = self._attach(model, rod, s, "forces")
        at = np.array([self.s])
        stiffness = part.material.stiffness(part.section.properties(at), at)[0]
        matrix = (np.diag(stiffness) if stiffness.ndim == 1 else stiffness) @ Phi
        self._fill(part, matrix, np.zeros(6), np.zeros(6) if target is None else target)
