"""Distances between spheres, capsules, boxes and half-spaces, with exact first and second derivatives.

With theta the parameters of the closest points on two segments, delta their difference, R the sum of the radii and

    D = min over theta in [0, 1]^2 of  1/2 delta.delta + eps/2 sum (theta_i - 1/2)^2

a row is r = (2 D - R^2 - m eps/4)/(2 R), m the number of segments: near contact the distance of the surfaces, and
never more than that.  Along a degree of freedom k that moves one side alone, j_k is the velocity of delta with the
points held in their bodies, and, theta being free or at an end,

    D_k = delta.j_k      H_D[x, y] = j_x.j_y + [same side] (delta x w_y).j_x - C_x' G^-1 C_y      y at or above x
    C_ik = t_i.j_k + [t_i on k's side] (delta x w_k).t_i      G_il = t_i.t_l + eps [i = l]

with t_i = d delta/d theta_i; rows of C are zero where theta_i is at an end.

Of a segment on A and a box on B, r = lambda - R with the signed distance lambda of the segment, negative where they
meet, and of a point and a half-space likewise, one row for each end of a capsule.  With n the normal, F the projection
on the axes of the solid along which the closest point is free, e the segment's direction where its closest point is
free, u = (e - F e)/|e - F e|, and c_k = n x w_k,

    r_k = n.j_k
    H[x, y] = [same side] c_y.j_x - j_x.g_y - g_x.j_y - lambda g_x.g_y + h_x.j_y
              - alpha_x beta_y - beta_x alpha_y - lambda beta_x beta_y
    g_k = F c_k on B, 0 on A      alpha_k = u.j_k      beta_k = e.c_k/|e - F e| on A, -F e.c_k/|e - F e| on B
    h_k = (1 - n n' - F - u u') j_k/lambda, zero where closest points are free in the whole tangent plane

Nothing is divided by lambda there, nor where they meet.  Degrees of freedom that move both sides change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.body_placements import body_placements
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import BODY, DOF, place_bodies
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import HalfSpace
from dynamics.geometry.world_shape import WorldShape, world_shape
from dynamics.knot_driver import nb, nv
from dynamics.model import RigidBodyModel
from dynamics.residuals.distance_parts import ALONG, NEAR, ROUND, ROUND_TERMS, SOLID_TERMS, TURNED, column, product
from dynamics.residuals.distance_rows import checked_rows, ends_of, pair_arrays
from dynamics.residuals.distance_segments import along_segments, segments_apart
from dynamics.residuals.distance_solids import along_solid, solids_apart
from dynamics.residuals.kernel_residual import residual_kernels
from dynamics.residuals.moving_obstacles import (
    PLACE,
    MovingObstacles,
    found_places,
    in_own_axes,
    moving_count,
    place_obstacles,
)
from dynamics.residuals.robot_residual import path_dofs
from dynamics.simd import align_stack, fma, helper, kernel, load, store
from dynamics.simd.sizes import Size
from dynamics.spatial import dot3, load3
from dynamics.validation import as_items, as_not_negative

pair_count = Size("pair_count", "pairs.radius.size")


@kernel
def _value(m, pairs, target, x, body, dof, near, r):
    align_stack(body)
    place_bodies(m, x, body, dof)
    place_obstacles(pairs, target, body)
    for p in range(pairs.radius.size):
        if pairs.kind[p] == ROUND:
            segments_apart(pairs, p, body, near, r)
        else:
            solids_apart(pairs, p, body, near, r)


@kernel
def _jacobian(m, pairs, dof, near, J):
    align_stack(dof)
    n = m.dof_body.size
    J[:] = 0.0
    for p in range(pairs.radius.size):
        delta, scale = load3(near, p * NEAR), pairs.scale[p]
        for side in range(2):
            k = last_dof(m, pairs.movers[p, side])
            point = load3(near, p * NEAR + 3 + 3 * side)
            while k > pairs.common[p]:
                store(J, p * n + k, scale * dot3(delta, column(k, 1.0 - 2.0 * side, point, dof)))
                k = m.dof_parent[k]


@helper
def _add_pair(m, pairs, p, terms, weight, along, H):
    """H += weight times that of a pair, below the diagonal; terms is a constant, for loops that are unrolled."""
    n, last = m.dof_body.size, pairs.common[p]
    for side in range(2):
        x = last_dof(m, pairs.movers[p, side])
        while x > last:
            y = x
            while y > last:
                e = dot3(load3(along, y * ALONG + TURNED), load3(along, x * ALONG))
                if m.dof_body[y] == m.dof_body[x]:
                    e = 0.5 * (e + dot3(load3(along, x * ALONG + TURNED), load3(along, y * ALONG)))
                e = e + product(along, terms, x, y)
                store(H, x * n + y, fma(weight, e, load(H, x * n + y)))
                y = m.dof_parent[y]
            x = m.dof_parent[x]
    x = last_dof(m, pairs.movers[p, 0])
    while x > last:
        y = last_dof(m, pairs.movers[p, 1])
        while y > last:
            i = max(x, y) * n + min(x, y)
            store(H, i, fma(weight, product(along, terms, x, y), load(H, i)))
            y = m.dof_parent[y]
        x = m.dof_parent[x]


@kernel
def _hessian(m, pairs, mu, dof, near, along, H):
    align_stack(H)
    H[:] = 0.0
    for p in range(pairs.radius.size):
        weight = load(mu, p) * pairs.scale[p]
        if pairs.kind[p] == ROUND:
            along_segments(m, pairs, p, 0, dof, near, along)
            along_segments(m, pairs, p, 1, dof, near, along)
            _add_pair(m, pairs, p, ROUND_TERMS, weight, along, H)
        else:
            along_solid(m, pairs, p, 0, dof, near, along)
            along_solid(m, pairs, p, 1, dof, near, along)
            _add_pair(m, pairs, p, SOLID_TERMS, weight, along, H)
    n = m.dof_body.size
    for x in range(n):
        for y in range(x):
            store(H, y * n + x, load(H, x * n + y))


class Distance(MovingObstacles):
    """Distances between spheres, capsules, boxes and half-spaces of a robot and the world, m; see the module.

    Parameters
    ----------
    model : RigidBodyModel
    pairs : sequence of two `Geometry` each, with the shapes Sphere, Capsule, Box (one at most) or HalfSpace (one at
        most), as `collision_pairs` gives them
    smoothing : eps, m^2, at least zero: rows of spheres and capsules have one derivative everywhere, and are too small
        by at most eps/(4 R) for each capsule
    margin : m, at least zero, by which every pair has to stay apart
    places : mapping of names of shapes of the world to where they are, in place of their own placements, for obstacles
        that move: positions (N+1, 3), one for each knot of a problem, or (R, p), either or both of them (N+1, ...), or
        a function of time, t (s) to (3,) or (R, p), which a problem evaluates at its knots; or one place (3,) or
        (R, p), which `trajopt.PreparedSolver.update` may move

    Raises
    ------
    ValueError : no pairs, shapes of other kinds, two boxes or half-spaces, two of one body, radii and margin that are
        all zero, a negative smoothing or margin, places of what is no shape of the world in a pair.
    TypeError : what is no Geometry, places that are no mapping.

    Notes
    -----
    One row for a pair, but one for each end of a capsule and each corner of a box above a half-space;
    `component_names` says of which.  No two are closer than the margin where `lower` <= r <= `upper`, zeros and inf, as
    in ``trajopt.ResidualConstraint(distance)``.  Of segments r = (d^2 - R^2)/(2 R), up to the smoothing, has the
    gradient of the distance of the surfaces where they touch; `distances` gives metres.
    """

    kernels = residual_kernels(
        _value, _jacobian, _hessian, pair_count, nv,
        {"body": (nb + moving_count) * BODY, "dof": nv * DOF, "near": pair_count * NEAR, "along": nv * ALONG},
        target=moving_count * PLACE,
    )  # fmt: skip
    pairs: tuple[tuple[Geometry, Geometry], ...]
    component_names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    smoothing: float
    margin: float
    of_states = ("distances",)

    def __init__(
        self,
        model: RigidBodyModel,
        pairs: Iterable[tuple[Geometry, Geometry]],
        smoothing: float = 1e-4,
        margin: float = 0.0,
        places: Mapping[str, Any] | None = None,
    ) -> None:
        eps, margin = as_not_negative("smoothing", smoothing), as_not_negative("margin", margin)
        chosen = tuple(tuple(pair) for pair in as_items("pairs", pairs, "pairs of Geometry"))
        if not chosen:
            raise ValueError("pairs: got none, expected at least one")
        super().__init__(model, "distance")
        found = found_places(places, (each for pair in chosen for each in pair))
        own = [tuple(in_own_axes(each, found) for each in pair) for pair in chosen]
        rows = [row for p, pair in enumerate(own) for row in checked_rows(p, pair, margin)]
        arrays = pair_arrays(model, rows, eps, margin, tuple(found), model.nb)
        names = tuple(f"{a.name} - {b.name}" for a, b, _ in rows)
        self._set(nr=len(rows), pairs=chosen, smoothing=eps, margin=margin, component_names=names)
        self._set(lower=np.zeros(len(rows)), upper=np.full(len(rows), np.inf))
        path = sorted({int(k) for body in arrays.movers.ravel().tolist() for k in path_dofs(model, body)})
        self._finish(np.array(path, dtype=np.int64), pairs=arrays)
        self._set_places(found)

    def distances(self, xs: ArrayLike) -> np.ndarray:
        """Signed distances (K, nr), m, of the surfaces at states xs (K, nx), without smoothing or margin.

        Segments whose cores cross are at minus the sum of their radii, however deep.
        """
        rows = self
        if self.smoothing != 0.0:
            rows = Distance(self.model, self.pairs, 0.0, self.margin, self.places)
            rows = rows if self._knots is None else rows.at_knots(self._knots)
        values, arrays = rows.evaluate(xs), rows._data[0]
        R = arrays.radius
        cores = np.sqrt(np.maximum(2.0 * R * values + R * R, 0.0))
        return np.where(arrays.kind == ROUND, cores - R, values) + self.margin

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """The shapes of the world that the robot keeps away from, but those that its own model shows, as pictures draw
        them, of those that move the last place and the path; see `trajopt.interfaces.residual.SeenResidual`."""
        shown = {geometry.name for geometry in self.model.geometries if not isinstance(geometry.shape, HalfSpace)}
        seen = {geometry.name: geometry for pair in self._seen for geometry in pair}
        R, p = body_placements(self.model, np.ascontiguousarray(xs[:, : self.model.nq]))
        ends = [(each.body, end) for each in seen.values() if each.body >= 0 for end in ends_of(each)]
        around = np.concatenate([p.reshape(-1, 3), *(R[:, body] @ end + p[:, body] for body, end in ends)])
        still = [each for each in seen.values() if each.body < 0 and each.name not in {*shown, *self.places}]
        shapes = [world_shape(each.shape, each.R, each.p, around) for each in still]
        return (*shapes, *self._moving_scenery(seen, around))

    @property
    def _seen(self) -> tuple[tuple[Geometry, Geometry], ...]:
        """Pairs whose shapes pictures show."""
        return self.pairs
