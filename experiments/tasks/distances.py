"""Distances of shapes on an arm: values against coal, derivatives against complex steps, time beside the dynamics'.

The reference of derivatives is another way to the same rows: numpy's complex numbers, and the closest points of cores
as real arithmetic finds them.  A row is stationary in these, so that its gradient is its complex step with them held,
exact to rounding; Hessians are differences of order eight of such gradients.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq, lsq_linear

import dynamics
import problems
from dynamics import Box, Capsule, Distance, Geometry, Sphere
from dynamics.algorithms.frames import body_placements
from dynamics.simd.squares import KnotSum, ResidualWeights
from experiments.harness import in_turns
from experiments.public_robots.oracles import STENCIL

STEP, SECOND_STEP = 1e-30, 1e-2
COAL_TOLERANCE = 1e-10
"""Of its search for the closest points; with its own 1e-6 one distance of a box in a thousand is 5e-7 m wrong."""
LANES_OF_TIME = 4000
"""Knots of a timed call."""

BODIES = (0, 1, 2, 2, 3, 4, 4, 5, 5, 5)
"""On which the arm's ten capsules are."""

KINDS = ("sphere sphere", "capsule sphere", "capsule capsule", "box sphere", "box capsule")
Pair = tuple[Geometry, Geometry]


def arm() -> dynamics.RigidBodyModel:
    """Six axes."""
    return dynamics.load_urdf(problems.model_path("arm6"))


def pairs_of(kind: str, rng: np.random.Generator, count: int = 4) -> list[Pair]:
    """Pairs of random shapes, on two bodies of the arm and between a body and the world in turn."""
    made: dict[str, Any] = {
        "sphere": lambda: Sphere(0.08),
        "capsule": lambda: Capsule(0.05, 0.2 * rng.normal(size=3), 0.2 * rng.normal(size=3)),
        "box": lambda: Box(rng.uniform(0.05, 0.3, 3)),
    }

    def shape(which: str, body: int) -> Geometry:
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        return Geometry(which, which, body, made[which](), (turn * np.linalg.det(turn), 0.4 * rng.normal(size=3)))

    first, second = kind.split()
    return [(shape(first, -1 if i % 2 else 1), shape(second, 3 + i % 3)) for i in range(count)]


# ------------------------------------------------------------------------------------------------ another way there
def placements(model: dynamics.RigidBodyModel, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """R, p of the bodies, joints being revolute, of complex angles."""
    m, placed = model.arrays, []
    for i, parent in enumerate(m.parent):
        B = m.rotation[i].reshape(3, 3, 3)
        R, p = B[0] + B[1] * np.cos(q[i]) + B[2] * np.sin(q[i]), m.translation[i]
        if parent >= 0:
            R, p = placed[parent][0] @ R, placed[parent][0] @ p + placed[parent][1]
        placed.append((R, p))
    return placed


def core(item: Geometry, placed: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """Two ends of a core, which are one point for a sphere, or the axes and the middle of a box."""
    R, p = placed[item.body] if item.body >= 0 else (np.eye(3), np.zeros(3))
    R, p = R @ item.R, R @ item.p + p
    if isinstance(item.shape, Box):
        return R, p
    ends = (item.shape.start, item.shape.end) if isinstance(item.shape, Capsule) else (np.zeros(3), np.zeros(3))
    return R @ ends[0] + p, R @ ends[1] + p


def closest(pair: Pair, placed: Sequence) -> tuple[float, float]:
    """Where between their ends the closest points of the cores are, s and t; of a box, t is nothing."""
    (a, b), (c, d) = (core(item, placed) for item in pair)
    if isinstance(pair[0].shape, Box):
        h, along, begin = pair[0].shape.half_extents, a.T @ (d - c), a.T @ (c - b)

        def slope(s: float) -> float:
            x = begin + s * along
            return float(along @ (x - np.clip(x, -h, h)))

        if not along.any() or slope(0.0) >= 0.0:
            return 0.0, 0.0
        return (1.0 if slope(1.0) <= 0.0 else float(brentq(slope, 0.0, 1.0, xtol=1e-15, rtol=1e-14))), 0.0
    found = lsq_linear(np.column_stack([b - a, c - d]), c - a, (0.0, 1.0), tol=1e-15, method="bvls").x
    return float(found[0]), float(found[1])


def row(pair: Pair, placed: Sequence, at: tuple[float, float]) -> Any:
    """(d^2 - R^2)/(2 R) of two round cores, or the distance from a box, with these points taken for the closest."""
    (a, b), (c, d) = (core(item, placed) for item in pair)
    if isinstance(pair[0].shape, Box):
        h, x = pair[0].shape.half_extents, a.T @ (c + at[0] * (d - c) - b)
        out = x - np.where(np.abs(x.real) > h, np.sign(x.real) * h, x)
        return np.sqrt(out @ out) - getattr(pair[1].shape, "radius", 0.0)
    R = pair[0].shape.radius + pair[1].shape.radius
    apart = a + at[0] * (b - a) - c - at[1] * (d - c)
    return (apart @ apart - R * R) / (2.0 * R)


def gradient(model: dynamics.RigidBodyModel, pair: Pair, q: np.ndarray) -> np.ndarray:
    """By complex steps, (nv,)."""
    at = closest(pair, placements(model, q))
    return np.array([row(pair, placements(model, q + 1j * STEP * e), at).imag / STEP for e in np.eye(model.nv)])


def hessian(model: dynamics.RigidBodyModel, pair: Pair, q: np.ndarray, step: float) -> np.ndarray:
    """By differences of order eight of the gradient, (nv, nv)."""
    H = np.zeros((model.nv, model.nv))
    for k, weight in STENCIL.items():
        for i, e in enumerate(k * step * np.eye(model.nv)):
            H[i] += weight / step * (gradient(model, pair, q + e) - gradient(model, pair, q - e))
    return H


# ------------------------------------------------------------------------------------------------ errors
def smooth_around(model: dynamics.RigidBodyModel, pair: Pair, q: np.ndarray, reach: float) -> bool:
    """Whether closest points stay inside, or at the same end, and outside the same faces, within this reach of q.

    Where they do not the Hessian jumps, and no difference across the jump is one.
    """
    def features(x: np.ndarray) -> tuple:
        placed = placements(model, x)
        s, t = closest(pair, placed)
        faces: Any = ()
        if isinstance(pair[0].shape, Box):
            (R, p), (c, d) = (core(item, placed) for item in pair)
            out = R.T @ (c + s * (d - c) - p)
            faces = tuple((np.abs(out) > pair[0].shape.half_extents).tolist())
        return s <= 0.0, s >= 1.0, t <= 0.0, t >= 1.0, faces

    here = features(q)
    ways = [k * reach * e for e in np.eye(model.nv) for k in (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0)]
    return all(features(q + way) == here for way in ways)


def derivative_errors(kind: str, states: int, rng: np.random.Generator) -> dict[str, Any]:
    """The largest errors of gradients, in m/rad, and of Hessians relative to their largest entry."""
    model = arm()
    pairs, found = pairs_of(kind, rng), {"gradient": 0.0, "hessian": 0.0}
    distances = [Distance(model, [pair], 0.0) for pair in pairs]
    counted = {"gradient": 0, "hessian": 0}
    for _ in range(states):
        q = dynamics.random_configuration(model, rng)
        x = np.append(q, np.zeros(model.nv))[None]
        for pair, r in zip(pairs, distances, strict=True):
            if r.distances(x)[0, 0] < 1e-2 - radii(pair):
                continue  # cores that meet have no gradient, or another way out
            wanted = gradient(model, pair, q)
            error = np.abs(r.jacobians(x)[0][0, 0, : model.nv] - wanted).max()
            found["gradient"], counted["gradient"] = max(found["gradient"], float(error)), counted["gradient"] + 1
            if not smooth_around(model, pair, q, 4 * SECOND_STEP):
                continue
            H = r.hessian_products(x, None, np.ones((1, 1)))[0][0, : model.nv, : model.nv]
            wanted = [hessian(model, pair, q, step) for step in (SECOND_STEP, SECOND_STEP / 4)]
            error = min(np.abs(H - each).max() / np.abs(each).max() for each in wanted)
            found["hessian"], counted["hessian"] = max(found["hessian"], float(error)), counted["hessian"] + 1
    return {**found, "gradients": counted["gradient"], "hessians": counted["hessian"]}


def radii(pair: Pair) -> float:
    """Of both."""
    return sum(getattr(item.shape, "radius", 0.0) for item in pair)


def coal_errors(kind: str, states: int, rng: np.random.Generator) -> dict[str, Any] | None:
    """The largest error of a distance, in m, and the deepest penetration among those compared; None without coal.

    Crossing cores of round shapes say no depth: those deeper than half the radii are left out.
    """
    if importlib.util.find_spec("coal") is None:
        return None
    model = arm()
    pairs, worst, deepest, compared = pairs_of(kind, rng), 0.0, 0.0, 0
    r = Distance(model, pairs)
    for _ in range(states):
        q = dynamics.random_configuration(model, rng)
        R, p = body_placements(model, q)
        for pair, found in zip(pairs, r.distances(np.append(q, np.zeros(model.nv))[None])[0], strict=True):
            if found > -0.5 * radii(pair) or isinstance(pair[0].shape, Box):
                worst = max(worst, abs(found - by_coal(R[0], p[0], pair)))
                deepest, compared = min(deepest, float(found)), compared + 1
    return {"error": float(worst), "deepest": deepest, "compared": compared}


def by_coal(R: np.ndarray, p: np.ndarray, pair: Pair) -> float:
    """Distance of two shapes, negative where they meet, for placements R (nb, 3, 3), p (nb, 3) of the bodies."""
    import coal  # pyright: ignore[reportMissingImports]

    placed: list[Any] = []
    for item in pair:
        turn, shift = (R[item.body], p[item.body]) if item.body >= 0 else (np.eye(3), np.zeros(3))
        turn, shift = turn @ item.R, turn @ item.p + shift
        if isinstance(item.shape, Capsule):
            along = item.shape.end - item.shape.start
            axes = np.linalg.qr(np.column_stack([along, np.eye(3)[:, :2]]))[0][:, [1, 2, 0]]
            axes[:, 0] *= np.linalg.det(axes)
            shift, turn = turn @ (0.5 * (item.shape.start + item.shape.end)) + shift, turn @ axes
            made = coal.Capsule(item.shape.radius, np.linalg.norm(along))
        elif isinstance(item.shape, Box):
            made = coal.Box(*(2.0 * item.shape.half_extents))
        else:
            made = coal.Sphere(item.shape.radius)
        placed += [made, coal.Transform3s(turn, shift)]
    request = coal.DistanceRequest()
    request.gjk_tolerance = COAL_TOLERANCE
    return float(coal.distance(*placed, request, coal.DistanceResult()))


# ------------------------------------------------------------------------------------------------ time
def times(turns: int, rng: np.random.Generator) -> dict[str, float]:
    """Microseconds a knot, the least of the turns: ten capsules on the arm, twenty pairs, ten of them with obstacles;
    beside derivatives of a step of the arm."""
    model, N = arm(), LANES_OF_TIME
    rods = [
        Geometry(f"{i}", "link", body, Capsule(0.05, np.zeros(3), (0.1, 0.1, 0.2))) for i, body in enumerate(BODIES)
    ]
    places = [(np.eye(3), rng.normal(size=3)) for _ in rods]
    own = [(a, b) for i, a in enumerate(rods) for b in rods[i + 2 :] if a.body != b.body][:10]
    obstacles = {
        "capsules": [Geometry("rail", "world", -1, Capsule(0.1, np.zeros(3), (0.2, 0.3, 0.0)), p) for p in places],
        "boxes": [Geometry("box", "world", -1, Box((0.1, 0.2, 0.1)), p) for p in places],
    }
    system = dynamics.RigidBodySystem(model, 0.01)
    n, m = system.ndx, system.nu
    xs, us, lam = (rng.normal(size=(N, k)) for k in (n, m, n))
    shapes = (N, n), (N - 1, m), (N, n, n), (N - 1, m, n), (N - 1, m, m)
    blocks = [[np.zeros(shape) for shape in shapes] for _ in range(2)]
    weights, calls = ResidualWeights(np.ones((1, 20))), {}
    for name, things in obstacles.items():
        r: Any = Distance(model, [*own, *zip(rods, things, strict=True)])
        calls |= {
            f"{name}, values": lambda r=r: r.evaluate(xs),
            f"{name}, Gauss-Newton": lambda r=r: r.add_expansion(KnotSum((0, N), xs, us[:-1], weights, blocks[0])),
            f"{name}, exact": lambda r=r: r.add_expansion(KnotSum((0, N), xs, us[:-1], weights, *blocks)),
        }
    calls |= {
        "dynamics, first order": lambda: system.linearize(xs, us),
        "dynamics, second order": lambda: system.hessian_products(xs, us, lam),
    }
    return {name: 1e6 / N * min(samples) for name, samples in in_turns(calls, turns).items()}
