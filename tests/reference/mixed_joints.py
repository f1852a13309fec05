"""A robot of all joint types, and the maps of its tangent as dense matrices in numpy."""

from itertools import pairwise

import numpy as np
from scipy.linalg import block_diag

from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import FreeFlyer, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.spatial import tangent
from dynamics.spatial import tangent as tangent_brackets
from dynamics.spatial import tangent as tangent_geometry
from dynamics.spatial.tangent import ADJOINT, JACOBIAN, JACOBIAN_INVERSE, TANGENT_SLOTS

JOINTS = (FreeFlyer(), Revolute("x"), Spherical(), Planar(), Translation(), Prismatic("y"))
ROTATIONS = [slice(3, 6), slice(7, 10)]  # in v: free flyer, spherical
HEADING = 12


def make_model():
    builder = ModelBuilder()
    for k, joint in enumerate(JOINTS):
        parent = "world" if k == 0 else f"body {k}"
        limits = {"lower": -0.5, "upper": 2.0} if joint.nv == 1 else {}
        builder.add_body(f"body {k + 1}", parent, joint, mass=1.0, inertia=np.eye(3), **limits)
    return builder.build()


MODEL = make_model()
M, N, NV = MODEL.arrays, MODEL.nv, MODEL.nv
MAPS = MODEL.nb * TANGENT_SLOTS


# ------------------------------------------------------------------------------------------------ one knot, in numpy
def maps_at(xi, inverse=False):
    maps = np.zeros(MAPS)
    (tangent.tangent_maps_inverse if inverse else tangent.tangent_maps)(M, np.ascontiguousarray(xi), maps)
    return maps


def dense(maps, which):
    X = np.zeros(N * N)
    tangent.add_map(M, maps, which, 1.0, X, 0, N)
    return X.reshape(N, N)


def A(xi):
    return dense(maps_at(xi), ADJOINT)


def Jr(xi):
    return dense(maps_at(xi), JACOBIAN)


def Ji(xi):
    return dense(maps_at(xi, inverse=True), JACOBIAN_INVERSE)


def ad(v):
    Y = np.zeros(N * N)
    tangent_brackets.add_bracket_matrix(M, v, 1.0, Y, 0, N)
    return Y.reshape(N, N)


def skew(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def ad_reference(v):
    w, zero = skew(v[3:6]), np.zeros((3, 3))
    planar = np.array([[0, -v[12], v[11]], [v[12], 0, -v[10]], [0, 0, 0]])
    blocks = {FreeFlyer: np.block([[w, skew(v[:3])], [zero, w]]), Spherical: skew(v[7:10]), Planar: planar}
    return block_diag(*(blocks.get(type(joint), np.zeros((joint.nv, joint.nv))) for joint in MODEL.joints))


def random_tangent(rng, rotation=2.0):
    xi = rng.standard_normal(NV)
    for part in ROTATIONS:
        xi[part] *= rotation / np.linalg.norm(xi[part])
    return xi


def geometry(xi, k, scale, rows):
    H = np.zeros(rows.shape[1] ** 2)
    n = rows.shape[1]
    tangent_geometry.add_geometry(M, maps_at(xi), xi, k, scale, np.ascontiguousarray(rows).ravel(), 0, n, n, H, 0, n)
    return H.reshape(n, n)


def derivative(f, n, step=0.08, levels=5):
    """Jacobian of f(z) at z = 0, Richardson extrapolation of central differences."""
    columns = []
    for e in np.eye(n):
        table = [(f(h * e) - f(-h * e)) / (2 * h) for h in step * 0.5 ** np.arange(levels)]
        for order in range(1, levels):
            table = [(4**order * b - a) / (4**order - 1) for a, b in pairwise(table)]
        columns.append(table[0])
    return np.stack(columns, axis=-1)


def error(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def model_slopes(f, first, second, rng, directions=4):
    """Order at which f(h d) - (first h d + 1/2 h^2 d'second d) vanishes, along random directions; f(0) = 0."""
    h = 0.08 * 0.5 ** np.arange(4)
    slopes = []
    for d in rng.standard_normal((directions, len(second))):
        d /= np.linalg.norm(d)
        gap = [abs(f(s * d) - s * first @ d - 0.5 * s * s * d @ second @ d) for s in h]
        slopes.append(np.polyfit(np.log(h), np.log(gap), 1)[0])
    return np.median(slopes)
