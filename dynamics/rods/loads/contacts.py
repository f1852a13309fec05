"""Shapes that rods and links may touch, with their distances, and the laws of compliant contact."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.joints import unit_axis
from dynamics.simd import helper, select_less, sqrt
from dynamics.spatial.spatial import add_scaled3, dot3, scale3
from dynamics.validation import as_array, as_flag, as_name, as_not_negative, as_positive

# --------------------------------------------------------------------------------------------
# Distances from planes, points, axes and capsules, with the derivatives that contact needs.
#
# The distance d of a point x has the gradient u and, with T = d d''(x), along a direction v,
#
#     planes      d = a.x                      T = 0
#     others      d = |x - t a|                T = 1 - u u', of an axis 1 - a a' - u u'
#     third       d'''(x)[v] = - ((u.v) T + u t' + t u') / d^2,     t = T v
#
# where t a is the point nearest to x on an axis of half length h: zero for points, infinite for lines.

PLANE, ROUND = 0, 1
# Numbers of a contact: its force law; depth = SIDE d + OFFSET; a point (3) and a direction a (3); PLANE or ROUND, h,
# and a square that is added to that of d; the point (3) in axes of the touching link; damping and friction
# (`segment_loads`); the lever of friction.
STIFFNESS, EXPONENT, SMOOTHING, SIDE, OFFSET = 0, 1, 2, 3, 4
POINT, AXIS, SHAPE, HALF_LENGTH, CORE, PLACE = 5, 8, 11, 12, 13, 14
DAMPING, FRICTION, SLIP = 17, 18, 19
ARM, SPIN_A, SPIN_B = 20, 21, 22
"""The lever nu of friction, and the factors of the angular velocities of both sides, by which the place of contact
moves relative to the centres:  y + (SPIN_A w_A + SPIN_B w_B) x nu.

Bodies touch on the line through their centres.  NO_ARM: a point, or no friction; ALONG_NORMAL: nu is the gradient of
the depth, of unit length, by which a sphere of radius SPIN_A touches what is fixed; ALONG_CENTRES: nu is the relative
position x of two centres, and the place divides it by their radii, so that both forces act at one point."""
NO_ARM, ALONG_NORMAL, ALONG_CENTRES = 0, 1, 2


@helper
def distance(c, x):
    """d, 1/d (0 for planes), u (3) and T (xx xy xz yy yz zz) at x, relative to the point of a contact with the numbers
    c."""
    z = 0.0 * x[0]
    a = (z + c[AXIS], z + c[AXIS + 1], z + c[AXIS + 2])
    along, h = dot3(a, x), c[HALF_LENGTH]
    if c[SHAPE] == PLANE:
        return along, z, a, (z, z, z, z, z, z)
    share = select_less(-h, along, select_less(along, h, z + 1.0, z), z)
    nearest = select_less(along, h, select_less(-h, along, along, z - h), z + h)
    n = add_scaled3(x, -nearest, a)
    d = sqrt(dot3(n, n) + c[CORE])
    inverse = 1.0 / d
    u, b = scale3(n, inverse), scale3(a, share)
    T = (
        1.0 - b[0] * a[0] - u[0] * u[0], -b[0] * a[1] - u[0] * u[1], -b[0] * a[2] - u[0] * u[2],
        1.0 - b[1] * a[1] - u[1] * u[1], -b[1] * a[2] - u[1] * u[2], 1.0 - b[2] * a[2] - u[2] * u[2],
    )  # fmt: skip
    return d, inverse, u, T


@helper
def symmetric_times(S, v):
    """S v for S = xx xy xz yy yz zz."""
    return (
        S[0] * v[0] + S[1] * v[1] + S[2] * v[2], S[1] * v[0] + S[3] * v[1] + S[4] * v[2],
        S[2] * v[0] + S[4] * v[1] + S[5] * v[2],
    )  # fmt: skip


@helper
def combination(a, A, b, x, y):
    """a A + b (x y' + y x'), symmetric."""
    x0, x1, x2 = b * x[0], b * x[1], b * x[2]
    return (
        a * A[0] + 2.0 * x0 * y[0], a * A[1] + (x0 * y[1] + x1 * y[0]), a * A[2] + (x0 * y[2] + x2 * y[0]),
        a * A[3] + 2.0 * x1 * y[1], a * A[4] + (x1 * y[2] + x2 * y[1]), a * A[5] + 2.0 * x2 * y[2],
    )  # fmt: skip


# --------------------------------------------------------------------------------------------
# Scalar laws of external loads and their derivatives, for numbers and lanes.

SMALLEST = 1e-100


@helper
def smooth_depth(depth, width):
    """A twice differentiable function of the depth, 0 below -width and the depth above width, with two
    derivatives:  (d + w)^3 (3 w - d) / (16 w^3) for |d| < w;  width 0: max(depth, 0)."""
    zero, one = 0.0 * depth, 0.0 * depth + 1.0
    if width <= 0.0:
        return select_less(0.0, depth, depth, zero), select_less(0.0, depth, one, zero), zero
    scale = 1.0 / (16.0 * width * width * width)
    x, y = depth + width, 3.0 * width - depth
    value, ds = x * x * x * y * scale, (3.0 * y - x) * x * x * scale
    dds = 6.0 * (y - x) * x * scale
    value = select_less(depth, width, value, depth)
    ds = select_less(depth, width, ds, one)
    dds = select_less(depth, width, dds, zero)
    inside = -width
    return (
        select_less(inside, depth, value, zero),
        select_less(inside, depth, ds, zero),
        select_less(inside, depth, dds, zero),
    )


@helper
def half_power(x, twice):
    """x^(twice / 2) for x >= 0 and a whole number `twice`."""
    y = 0.0 * x + 1.0
    for _ in range(twice // 2):
        y = y * x
    return y * sqrt(x) if twice % 2 == 1 else y


@helper
def contact_law(depth, stiffness, exponent, width):
    """Force k s^p of the smoothed depth s, with two derivatives; p a whole number of halves, at least 1 [Hertz: 3/2].

    Where s = 0 the derivatives are set to zero, although for p < 2 and without smoothing they need not exist there."""
    s, ds, dds = smooth_depth(depth, width)
    power = half_power(s, round(2.0 * exponent))
    inverse = select_less(SMALLEST, s, 1.0 / (s + SMALLEST), 0.0 * s)
    first = exponent * power * inverse
    second = (exponent - 1.0) * first * inverse
    return stiffness * power, stiffness * first * ds, stiffness * (second * ds * ds + first * dds)


@helper
def speed_law(v, least):
    """sqrt(v.v + least^2) and its gradient."""
    speed = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + (least * least + 1e-200))
    return speed, (v[0] / speed, v[1] / speed, v[2] / speed)


# --------------------------------------------------------------------------------------------
# Objects that links may touch, as users describe them: half-spaces, cylinders, spheres, capsules, other links.
#
# A link touches with spheres: about a rod's nodes, with the rod's radius there, or about a point of a body.  Between
# the nodes of a rod there is no contact, so that the nodes have to be as close as the touched objects are small.

SMALLEST_CORE = 1e-200
CORE_SHARE = 1e-5
"""Distance from the centre of a solid round shape, relative to its radius, within which forces fade to zero, since they
have no direction there."""


@dataclass(frozen=True)
class Contact:
    """Base of contacts of stiffness k: a force F = k depth^p along the normal [Hertz: p = 3/2].

    With damping the force is F (1 + c d/dt depth) [Hunt and Crossley 1975], with friction there is also the force

        - mu F y / sqrt(y.y + s^2),   y the relative velocity across the normal where the bodies touch

    so that there is no sticking: a body at rest on a slope creeps, with at most a speed of about s.  Bodies touch on
    the surface of the sphere or, where both may turn, at one point of the line between their centres, which it divides
    as their radii do; there the forces act, with their torques about the centres.

    Parameters
    ----------
    exponent : p, a multiple of 1/2, at least 1; by default 3/2
    smoothing : width w, m, within which the depth is replaced by a function with two continuous derivatives that is 0
        below -w and the depth above w.  With w = 0, the default, the force of Hertz has no second derivative at first
        touch: exact Hessians need w > 0.
    damping : c, s/m; bodies that separate faster than 1 / c are pulled back
    friction : mu
    slip : s, m/s.  Explicit steps, such as extrapolated Euler, need a large one: friction damps with mu F / s

    Raises
    ------
    ValueError : a parameter out of range.
    """

    _: KW_ONLY
    exponent: float = 1.5
    smoothing: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    slip: float = 0.01

    def __post_init__(self):
        exponent = float(as_array("exponent", self.exponent, ()))
        if exponent < 1.0 or (2.0 * exponent) % 1.0 != 0.0:
            raise ValueError(f"exponent: got {exponent}, expected a multiple of 1/2 of at least 1")
        for name in ("smoothing", "damping", "friction"):
            as_not_negative(name, getattr(self, name))
        for name in ("stiffness", "slip"):
            as_positive(name, getattr(self, name))
        self._surface(0.0)

    def _surface(self, radius: float) -> tuple:
        """Side and offset of the depth of a sphere, point, axis, shape, half length and core."""
        raise NotImplementedError

    def numbers(self, radius: float, place: ArrayLike = (0.0, 0.0, 0.0), other: float = 0.0) -> np.ndarray:
        """Numbers of the contact of a sphere of this radius about a point `place` (3,) in axes of its link, with one of
        radius `other` of a rod.

        Raises ValueError for a sphere with friction that does not fit into a hollow one that moves.
        """
        law = [getattr(self, name) for name in ("stiffness", "exponent", "smoothing")]
        rates, surface = (self.damping, self.friction, self.slip), self._surface(radius + other)
        arm = self._arm(radius, float(surface[1]))
        return np.concatenate([np.ravel(x) for x in (*law, *surface, place, *rates, *arm)]).astype(float)

    def _arm(self, radius: float, offset: float) -> tuple[float, float, float]:
        """ARM, SPIN_A and SPIN_B."""
        if self.friction == 0.0:
            return NO_ARM, 0.0, 0.0
        if not self.moves:
            return (ALONG_NORMAL if radius > 0.0 else NO_ARM), radius, 0.0
        if offset >= 0.0 and self._surface(0.0)[0] > 0.0:
            raise ValueError(
                f"radius: got {radius}, expected less than that of the hollow sphere around, {radius - offset}"
            )
        share = radius / offset if radius > 0.0 else 0.0
        return ALONG_CENTRES, -share, share - 1.0

    @property
    def moves(self) -> bool:
        """True if the touched object moves with a link."""
        return False

    @property
    def resists(self) -> bool:
        """True if forces depend on velocities."""
        return self.damping > 0.0 or self.friction > 0.0


def _round(radius: float, inside: bool, of_sphere: float) -> tuple[float, float, float]:
    """Side, offset and core of round shapes."""
    if as_flag("inside", inside):
        return 1.0, of_sphere - radius, SMALLEST_CORE
    return -1.0, radius + of_sphere, (CORE_SHARE * radius) ** 2


@dataclass(frozen=True)
class PlaneContact(Contact):
    """A half-space below a plane.

    Parameters
    ----------
    stiffness : k, N / m^p
    normal : (3,) direction away from the half-space, or "x", "y", "z", the default
    point : (3,) of the plane, m, by default the world's origin
    exponent, smoothing, damping, friction, slip : as for `Contact`
    """

    stiffness: float
    normal: ArrayLike | str = "z"
    point: ArrayLike = (0.0, 0.0, 0.0)

    def _surface(self, radius: float) -> tuple:
        point = as_array("point", self.point, (3,))
        return -1.0, radius, point, _direction("normal", self.normal), PLANE, 0.0, SMALLEST_CORE


@dataclass(frozen=True)
class CylinderContact(Contact):
    """An infinite cylinder, touched from inside or outside.

    Parameters
    ----------
    radius : m
    stiffness : k, N / m^p
    point, axis : a point (3,) of the axis and its direction; by default the z axis of the world
    inside : True, the default, if the link is inside
    exponent, smoothing, damping, friction, slip : as for `Contact`
    """

    radius: float
    stiffness: float
    point: ArrayLike = (0.0, 0.0, 0.0)
    axis: ArrayLike | str = "z"
    inside: bool = True

    def _surface(self, radius: float) -> tuple:
        side, offset, core = _round(as_positive("radius", self.radius), self.inside, radius)
        return side, offset, as_array("point", self.point, (3,)), unit_axis(self.axis), ROUND, np.inf, core


@dataclass(frozen=True)
class SphereContact(Contact):
    """A sphere, touched from outside or inside; it is fixed or moves with a link.

    Parameters
    ----------
    radius : m
    stiffness : k, N / m^p
    point : (3,) its centre, m, by default the origin
    inside : True if the link is inside; by default outside
    link : name of the link with whose frame it moves, for a rod that of its tip; by default the world
    exponent, smoothing, damping, friction, slip : as for `Contact`
    """

    radius: float
    stiffness: float
    point: ArrayLike = (0.0, 0.0, 0.0)
    inside: bool = False
    link: str | None = None

    def _surface(self, radius: float) -> tuple:
        side, offset, core = _round(as_positive("radius", self.radius), self.inside, radius)
        return side, offset, as_array("point", self.point, (3,)), (1.0, 0.0, 0.0), ROUND, 0.0, core

    @property
    def moves(self) -> bool:
        return self.link is not None


@dataclass(frozen=True)
class CapsuleContact(Contact):
    """All points within a radius of a line segment, touched from outside.

    The second derivative of the force jumps where the segment's ends begin, as that of the distance does.

    Parameters
    ----------
    radius : m
    stiffness : k, N / m^p
    start, end : (3,) points, m, not the same
    exponent, smoothing, damping, friction, slip : as for `Contact`
    """

    radius: float
    stiffness: float
    start: ArrayLike
    end: ArrayLike

    def _surface(self, radius: float) -> tuple:
        ends = [as_array(name, getattr(self, name), (3,)) for name in ("start", "end")]
        length = float(np.linalg.norm(ends[1] - ends[0]))
        if length == 0.0:
            raise ValueError(f"end: got {self.end}, the start, expected another point")
        side, offset, core = _round(as_positive("radius", self.radius), False, radius)
        middle, axis = 0.5 * (ends[0] + ends[1]), (ends[1] - ends[0]) / length
        return side, offset, middle, axis, ROUND, 0.5 * length, core


@dataclass(frozen=True)
class RodContact(Contact):
    """Another rod, or the same one further along: nodes of both touch each other as spheres.

    Pairs of nodes are chosen when the contact is added, all pairs for two rods.  Rods can slip through between nodes
    that are further apart than the rods are thick, and spheres that overlap where a rod carries the other push from the
    start.

    Parameters
    ----------
    rod : name of the other rod
    stiffness : k, N / m^p
    apart : for the rod itself, the distance along it above which two nodes touch each other, m
    radius : of its spheres, m, by default that of a circular rod
    exponent, smoothing, damping, friction, slip : as for `Contact`
    """

    rod: str
    stiffness: float
    apart: float | None = None
    radius: float | None = None

    def __post_init__(self):
        super().__post_init__()
        as_name("rod", self.rod)
        for name in ("apart", "radius"):
            if getattr(self, name) is not None:
                as_positive(name, getattr(self, name))

    def _surface(self, radius: float) -> tuple:
        """Side, offset and shape for spheres whose radii have this sum."""
        side, offset, core = _round(radius, False, 0.0)
        return side, offset, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), ROUND, 0.0, core

    @property
    def moves(self) -> bool:
        return True


def _direction(name: str, value: ArrayLike | str) -> tuple[float, float, float]:
    """A unit vector; errors name the argument."""
    try:
        return unit_axis(value)  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError) as error:
        raise type(error)(str(error).replace("axis", name, 1)) from None
