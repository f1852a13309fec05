"""Distances of rods from spheres, capsules, boxes and half-spaces that are fixed or move on given paths.

A rod is a row of balls about its nodes, the quadrature points and the tip, with the rod's radius there.  With n the
gradient and D the Hessian of a row as a function of the node's position p, both of `dynamics.residuals.distance`,

    round obstacles       r = (delta.delta - R^2)/(2 R)     n = delta/R        D = (1 - t t'/t.t)/R
    boxes, half-spaces    r = lambda - R                    n the normal       D = (1 - n n' - F)/lambda

(t along the capsule where the closest point is between its ends), and L the Jacobian of p,

    r_q = L'n      H of mu'r  =  L'(mu D) L + d(L'f)/dq,  f = mu n

the last for all rows at once: the derivative of -ID at rest for the robot without mass, with the loads f at the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.kinematics import BODY, POSITION, ROTATION
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Box, Capsule, HalfSpace, Sphere
from dynamics.geometry.world_shape import WorldShape, world_shape
from dynamics.residuals.distance import (
    BEND,
    NEAR,
    PLACE,
    ROUND,
    TINY,
    MovingObstacles,
    Pairs,
    found_places,
    in_own_axes,
    moving_count,
    pair_arrays,
    place_obstacles,
    segments_apart,
    solids_apart,
)
from dynamics.residuals.kernel_residual import residual_kernels
from dynamics.rods.algorithms.backward_pass import Blocks, slice_blocks
from dynamics.rods.algorithms.inverse_dynamics import RodWorkspace, inverse_dynamics_kernel, slice_workspace
from dynamics.rods.kinematics.center_lines import link_and_section_placements
from dynamics.rods.kinematics.forward_pass import add_beyond, add_families, load_column
from dynamics.rods.loads.external_loads import LoadList
from dynamics.rods.model.arrays import END, FIRST, MASS_MATRIX, SEGMENT, WRENCH, n, no_closures, slice_closures
from dynamics.rods.model.rod_model import Rod, RodModel
from dynamics.rods.robot.link_residuals import load_configuration, massless, swept
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.simd.lane_algebra import add_scaled
from dynamics.simd.lane_blocks import size_of
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import add_cross, angular, dot3, linear, load3, load9, rotate, scale3, store3, store9
from dynamics.validation import as_items, as_kind, as_not_negative, look_up

pair_count, node_count = Size("pair_count", "pairs.radius.size"), Size("node_count", "nodes.size")
SHAPES = (Sphere, Capsule, Box, HalfSpace)


# ------------------------------------------------------------------------------------------------ kernels
@helper
def _velocity(columns, n, i, p):
    """Velocity (3) of the point p of a segment for a unit rate of coordinate i; `columns` reach up to that segment."""
    S = load_column(columns, n, 0, i)
    return add_cross(linear(S), angular(S), p)


@helper
def _advance(m, s, segments, columns):
    """Advance the columns from the start of segment s to its end; returns the position of that end."""
    seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
    add_families(m, s, 1.0, np.int64(1), seg, columns)
    return load3(seg, END + 9)


@kernel
def _value(m, external, closures, nodes, pairs, target, x, state, room, body, near, r, J):
    """Rows of all nodes, in their order, and J (rows n) at x = (q, v)."""
    align_stack(state)
    n, k, rows = m.counts[0], 0, pairs.radius.size // nodes.size
    load_configuration(m, x, state)
    segments, columns = swept(m, external, closures, np.int64(MASS_MATRIX), state, room)
    for i in range(nodes.size):
        store9(body, i * BODY + ROTATION, load9(segments, nodes[i] * SEGMENT + END))
        store3(body, i * BODY + POSITION, load3(segments, nodes[i] * SEGMENT + END + 9))
    place_obstacles(pairs, target, body)
    for p in range(pairs.radius.size):
        if pairs.kind[p] == ROUND:
            segments_apart(pairs, p, body, near, r)
        else:
            solids_apart(pairs, p, body, near, r)
    J[:], columns[:] = 0.0, 0.0
    for s in range(nodes[nodes.size - 1] + 1):
        point = _advance(m, s, segments, columns)
        if nodes[k] != s:
            continue
        add_beyond(m, s, s, -1.0, np.int64(1), segments, columns)
        for t in range(m.path_start[s], m.path_start[s + 1]):
            v = _velocity(columns, n, m.path[t], point)
            for p in range(k * rows, (k + 1) * rows):
                store(J, p * n + m.path[t], pairs.scale[p] * dot3(load3(near, p * NEAR), v))
        add_beyond(m, s, s, 1.0, np.int64(1), segments, columns)
        k += 1


@helper
def _bend(pairs, p, near):
    """D of a row as nine numbers, times the row's scale."""
    o, scale = p * NEAR, splat(near, pairs.scale[p])
    if pairs.kind[p] == ROUND:
        t = load3(near, o + 12)
        u = scale3(t, scale * load(near, o + 16) / (dot3(t, t) + TINY))
        xx, xy, xz = scale - u[0] * t[0], -u[0] * t[1], -u[0] * t[2]
        yy, yz, zz = scale - u[1] * t[1], -u[1] * t[2], scale - u[2] * t[2]
    else:
        xx, xy, xz = load(near, o + BEND), load(near, o + BEND + 1), load(near, o + BEND + 2)
        yy, yz, zz = load(near, o + BEND + 3), load(near, o + BEND + 4), load(near, o + BEND + 5)
    return (xx, xy, xz, xy, yy, yz, xz, yz, zz)


@kernel
def _add_node(m, pairs, s, first, last, point, mu, near, columns, force, H):
    """Add L'(mu D) L of the rows of the node at the end of segment s to H, and store f in the force (3)."""
    align_stack(H)
    n, z = m.counts[0], splat(H, 0.0)
    D, f = (z, z, z, z, z, z, z, z, z), (z, z, z)
    for p in range(first, last):
        weight, d = load(mu, p), _bend(pairs, p, near)
        a, c = load3(near, p * NEAR), weight * pairs.scale[p]
        f = (fma(c, a[0], f[0]), fma(c, a[1], f[1]), fma(c, a[2], f[2]))
        D = (
            fma(weight, d[0], D[0]), fma(weight, d[1], D[1]), fma(weight, d[2], D[2]), fma(weight, d[3], D[3]),
            fma(weight, d[4], D[4]), fma(weight, d[5], D[5]), fma(weight, d[6], D[6]), fma(weight, d[7], D[7]),
            fma(weight, d[8], D[8]),
        )  # fmt: skip
    store3(force, 0, f)
    for a in range(m.path_start[s], m.path_start[s + 1]):
        i = m.path[a]
        v = rotate(D, _velocity(columns, n, i, point))
        for b in range(m.path_start[s], m.path_start[s + 1]):
            j = m.path[b]
            store(H, i * n + j, load(H, i * n + j) + dot3(v, _velocity(columns, n, j, point)))


@kernel
def _hessian(m, external, closures, nodes, pairs, state, mu, room, near, forces, tau, A, H):
    """H (n n), the Hessian of mu'r, after the value; forces (wrenches of the nodes), tau and A, `Blocks` of ID, are
    scratch."""
    align_stack(state)
    n, k, rows, level = m.counts[0], 0, pairs.radius.size // nodes.size, np.int64(FIRST)
    none, _ = slice_closures(m, closures, A[:0])
    (segments, columns, _, _), _ = slice_workspace(m, external, closures, room)
    H[:], columns[:], forces[:] = 0.0, 0.0, 0.0
    for s in range(nodes[nodes.size - 1] + 1):
        point = _advance(m, s, segments, columns)
        if nodes[k] == s:
            force = forces[6 * k + 3 : 6 * k + 6]
            add_beyond(m, s, s, -1.0, np.int64(1), segments, columns)
            _add_node(m, pairs, s, k * rows, (k + 1) * rows, point, mu, near, columns, force, H)
            add_beyond(m, s, s, 1.0, np.int64(1), segments, columns)
            k += 1
    inverse_dynamics_kernel(m, external, closures, level, state, forces, room, tau, A, none, A[:0])
    add_scaled(n * n, H, -1.0, slice_blocks(m, A)[0].dq)


# ------------------------------------------------------------------------------------------------ public
class RodDistance(MovingObstacles):
    """Distances of rods, with their thickness, from spheres, capsules, boxes and half-spaces of the world, m.

    Parameters
    ----------
    model : RodModel
    obstacles : sequence of `dynamics.Geometry` of the world (body -1) with the shapes Sphere, Capsule, Box or HalfSpace
    rods : names of the rods that must keep away; by default all of them
    margin : least distance of the surfaces, m, at least zero
    places : mapping of names of moving obstacles to their positions, as for `dynamics.Distance`

    Raises
    ------
    TypeError : a model that is not a RodModel, an obstacle that is not a Geometry, places that are not a mapping.
    ValueError : no obstacles, shapes of other kinds, one on a body, an unknown rod, a negative margin, places of a name
        that is not an obstacle.

    Notes
    -----
    One row for each obstacle and each node of a rod (its quadrature points and its tip), where the rod is a ball of the
    section's radius (for a rectangle half its diagonal); more `points` of `add_rod` give more rows.  `component_names`
    names them.  All distances are at least the margin where `lower` <= r <= `upper`, zeros and inf, as in
    ``trajopt.ResidualConstraint(distance)``.  For spheres and capsules r = (d^2 - R^2)/(2 R), R the sum of the radii
    and the margin, has the gradient of the distance of the surfaces where they touch; `distances` gives metres.
    """

    kernels = residual_kernels(
        _value, None, _hessian, pair_count, n,
        {"state": 4 * n, "body": (node_count + moving_count) * BODY, "near": pair_count * NEAR,
         "forces": 6 * node_count, "tau": n, "A": size_of(Blocks), "room": size_of(RodWorkspace)},
        model=massless, target=moving_count * PLACE,
    )  # fmt: skip
    obstacles: tuple[Geometry, ...]
    rods: tuple[str, ...]
    margin: float
    component_names: tuple[str, ...]

    def __init__(
        self,
        model: RodModel,
        obstacles: Iterable[Geometry],
        rods: Iterable[str] | None = None,
        margin: float = 0.0,
        places: Mapping[str, Any] | None = None,
    ) -> None:
        as_kind("model", model, RodModel)
        margin = as_not_negative("margin", margin)
        chosen = _checked(obstacles)
        found = found_places(places, chosen)
        names = tuple(model.rods) if rods is None else as_items("rods", rods, "names of rods")
        parts = {name: look_up(f"rods[{k}]: rod", name, model.rods) for k, name in enumerate(names)}
        if not parts:
            raise ValueError("rods: got none, expected at least one")
        super().__init__(cast(Any, model), "distance")
        ordered = sorted(parts.values(), key=lambda rod: rod.segments.start)
        own = [in_own_axes(each, found) for each in chosen]
        nodes, pairs, labels = _node_rows(model, ordered, own, margin, tuple(found))
        self._set(nr=len(labels), obstacles=chosen, rods=tuple(parts), margin=margin, component_names=labels)
        self._set(lower=np.zeros(len(labels)), upper=np.full(len(labels), np.inf))
        m, loads = model.arrays, LoadList()
        for node in nodes:
            loads.add_wrench(int(node), WRENCH, f"node {node}", np.zeros(3))
        paths = [m.path[m.path_start[s] : m.path_start[s + 1]] for s in nodes]
        light = m._replace(inertia=np.zeros_like(m.inertia), gravity=np.zeros(3))
        external = loads.arrays(m)
        fixed = {"external": external, "closures": no_closures(), "nodes": nodes, "pairs": pairs}
        self._finish(np.unique(np.concatenate(paths)), light, **fixed)
        self._set_places(found)

    def distances(self, xs: ArrayLike) -> np.ndarray:
        """Signed distances (K, nr), m, of the surfaces at states xs (K, nx), without the margin.

        Nodes on the axis of a capsule or in the middle of a sphere are at minus the sum of the radii.
        """
        values, pairs = self.evaluate(xs), self._data[self.kernels.data.index("pairs")]
        R = pairs.radius
        cores = np.sqrt(np.maximum(2.0 * R * values + R * R, 0.0))
        return np.where(pairs.kind == ROUND, cores - R, values) + self.margin

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """Scene objects of the obstacles, with the last position and the path of those that move; see
        `trajopt.interfaces.residual.SeenResidual`."""
        around = link_and_section_placements(cast(RodModel, self.model), xs[:, : self.model.nq], 2)[1].reshape(-1, 3)
        still = [each for each in self.obstacles if each.name not in self.places]
        shapes = [world_shape(each.shape, each.R, each.p, around) for each in still]
        return (*shapes, *self._moving_scenery({each.name: each for each in self.obstacles}, around))


def _checked(obstacles: Iterable[Geometry]) -> tuple[Geometry, ...]:
    """The obstacles as a tuple; errors unless each is a shape of the world."""
    chosen = as_items("obstacles", obstacles, "Geometry")
    for k, geometry in enumerate(chosen):
        kind = type(as_kind(f"obstacles[{k}]", geometry, Geometry).shape)
        if not issubclass(kind, SHAPES):
            wanted = ", ".join(shape.__name__ for shape in SHAPES)
            raise ValueError(f"obstacles[{k}]: {geometry.name!r} is a {kind.__name__}, expected one of {wanted}")
        if geometry.body != -1:
            raise ValueError(f"obstacles[{k}]: {geometry.name!r} is on body {geometry.body}, expected the world, -1")
    if not chosen:
        raise ValueError("obstacles: got none, expected at least one")
    return chosen


def _node_rows(
    model: RodModel, rods: list[Rod], obstacles: list[Geometry], margin: float, moving: tuple[str, ...]
) -> tuple[np.ndarray, Pairs, tuple[str, ...]]:
    """Segments whose ends are nodes (K,), the pairs of each node and each obstacle, and the names of the pairs."""
    nodes, rows, first, names = [], [], [], []
    for rod in rods:
        radii = np.linalg.norm(rod.section.outline(rod.nodes / rod.length), axis=-1).max(axis=1)
        for k in range(1, len(rod.nodes)):
            for obstacle in obstacles:
                label = f"{rod.name} at {rod.nodes[k]:.3g} m"
                ball = Geometry(label, "world", -1, Sphere(float(radii[k])))
                if radii[k] + getattr(obstacle.shape, "radius", 1.0) + margin == 0.0:
                    raise ValueError(f"obstacles: {obstacle.name!r} and {label} have no radius; give a margin")
                rows.append((ball, obstacle, (np.zeros(3),)))
                first.append(len(nodes))
                names.append(f"{label} - {obstacle.name}")
            nodes.append(rod.segments.start + k - 1)
    pairs = pair_arrays(cast(Any, model), rows, 0.0, margin, moving, len(nodes))._replace(first=np.array(first))
    return np.array(nodes), pairs, tuple(names)
