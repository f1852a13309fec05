"""Cart-pole, acrobot, double pendulum and two-link arms, in SI units; angles of arms from hanging down."""

import numpy as np
from numba.extending import register_jitable

from experiments.constraints.statement import INFINITE, Limits, Rows, Squares, Statement, goal

FREE = INFINITE
GRAVITY = 9.81
PI = float(np.pi)


def cart_pole() -> Statement:
    """Swing-up of a pole of 0.3 kg and 0.5 m on a cart of 1 kg in 2 s, with limits of force and track.

    [Kelly 2017, section 6, his parameters]
    """
    m1, m2, length = 1.0, 0.3, 0.5

    def xdot(x, u):
        s, c = np.sin(x[1]), np.cos(x[1])
        below = m1 + m2 * (1.0 - c * c)
        a = (length * m2 * s * x[3] ** 2 + u[0] + m2 * GRAVITY * c * s) / below
        b = -(length * m2 * c * s * x[3] ** 2 + u[0] * c + (m1 + m2) * GRAVITY * s) / (length * below)
        return x[2], x[3], a, b

    return Statement(
        "cart_pole", "Kelly 2017", xdot, (0.0, 0.0, 0.0, 0.0), 50, 0.04, (-20.0,), (20.0,),
        running=(Squares("control", 0.1),),
        constraints=(Limits((0,), (-2.0,), (2.0,), name="track"), goal((1.0, PI, 0.0, 0.0))),
        spread=3.0,
    )  # fmt: skip


@register_jitable
def two_links(q1, q2, v1, v2, tau1, tau2, m1, m2, l1, l2):
    """Accelerations of two uniform rods, q1 from hanging down, q2 from the first.  [Spong 1995, eqs. 1 to 8]"""
    lc1, lc2, inertia1, inertia2 = 0.5 * l1, 0.5 * l2, m1 * l1 * l1 / 12.0, m2 * l2 * l2 / 12.0
    c2, s2 = np.cos(q2), np.sin(q2)
    M22 = m2 * lc2 * lc2 + inertia2
    M12 = M22 + m2 * l1 * lc2 * c2
    M11 = m1 * lc1 * lc1 + inertia1 + M22 + m2 * (l1 * l1 + 2.0 * l1 * lc2 * c2)
    h = m2 * l1 * lc2 * s2
    below = m2 * lc2 * GRAVITY * np.sin(q1 + q2)
    r1 = tau1 + h * v2 * (2.0 * v1 + v2) - (m1 * lc1 + m2 * l1) * GRAVITY * np.sin(q1) - below
    r2 = tau2 - h * v1 * v1 - below
    D = M11 * M22 - M12 * M12
    return (M22 * r1 - M12 * r2) / D, (M11 * r2 - M12 * r1) / D


def acrobot() -> Statement:
    """Swing-up of two rods of 1 kg and 1 m in 4 s, a motor of at most 15 N m between them.  [Spong 1995]"""

    def xdot(x, u):
        a, b = two_links(x[0], x[1], x[2], x[3], 0.0, u[0], 1.0, 1.0, 1.0, 1.0)
        return x[2], x[3], a, b

    return Statement(
        "acrobot", "Spong 1995", xdot, (0.0, 0.0, 0.0, 0.0), 80, 0.05, (-15.0,), (15.0,),
        running=(Squares("control", 0.01),),
        constraints=(goal((PI, 0.0, 0.0, 0.0)),),
        spread=1.0,
    )  # fmt: skip


def double_pendulum() -> Statement:
    """Swing-up of two driven rods of 1 kg and 1 m in 3 s with at most 8 and 4 N m, too little to lift them slowly.

    [After Spong 1995; limits as in Tassa, Mansard, Todorov 2014]
    """

    def xdot(x, u):
        a, b = two_links(x[0], x[1], x[2], x[3], u[0], u[1], 1.0, 1.0, 1.0, 1.0)
        return x[2], x[3], a, b

    return Statement(
        "double_pendulum", "after Tassa, Mansard, Todorov 2014", xdot, (0.0, 0.0, 0.0, 0.0), 60, 0.05, (-8.0, -4.0),
        (8.0, 4.0),
        running=(Squares("control", 0.02),),
        constraints=(goal((PI, 0.0, 0.0, 0.0)),),
        spread=(1.0, 0.5),
    )  # fmt: skip


@register_jitable
def arm_rates(x, u):
    """dx/dt of an arm of two rods, 1 kg and 0.5 m each."""
    a, b = two_links(x[0], x[1], x[2], x[3], u[0], u[1], 1.0, 1.0, 0.5, 0.5)
    return x[2], x[3], a, b


@register_jitable
def tip_of(x):
    """The tip (right, up) [m]."""
    right = 0.5 * np.sin(x[0]) + 0.5 * np.sin(x[0] + x[1])
    return right, -0.5 * np.cos(x[0]) - 0.5 * np.cos(x[0] + x[1])


def arm_dynamics(x, u):
    """`arm_rates` as statements have them."""
    return arm_rates(x, u)


def tip(x):
    """`tip_of` as statements have it."""
    return tip_of(x)


LIFTED = (0.4, 0.5)


def arm_tip() -> Statement:
    """A hanging arm of two links brings its tip to a point and stops, with at most 12 and 6 N m.

    [Two-link arm of Spong, Hutchinson, Vidyasagar 2006, section 7.4]
    """
    return Statement(
        "arm_tip", "after Spong, Hutchinson, Vidyasagar 2006", arm_dynamics, (0.0, 0.0, 0.0, 0.0), 50, 0.02,
        (-12.0, -6.0), (12.0, 6.0),
        running=(Squares("control", 0.01),),
        constraints=(Rows(tip, LIFTED, LIFTED, "terminal", name="tip"), goal((0.0, 0.0), (2, 3))),
        spread=(2.0, 1.0),
    )  # fmt: skip


def arm_redundant() -> Statement:
    """The same with rows stated twice, and their sum: multipliers are not unique (LICQ fails).  [As `arm_tip`]"""

    def more(x):
        right, up = tip_of(x)
        return right, up, right + up, right - 2.0 * up

    right, up = LIFTED
    values = (right, up, right + up, right - 2.0 * up)
    first = arm_tip()
    return Statement(
        "arm_redundant", first.source, arm_dynamics, first.x0, 50, 0.02, first.lower, first.upper,
        running=first.running,
        constraints=(*first.constraints, Rows(more, values, values, "terminal", name="tip again")),
        spread=first.spread,
    )  # fmt: skip


def arm_line() -> Statement:
    """The arm leads its tip along a horizontal line for 0.6 m, an equality at every knot from the second on, and stops.

    [Task constraints as in Khatib 1987; Bordalba et al. 2023]
    """

    def height(x):
        return (tip_of(x)[1] + 0.5,)

    def across(x):
        return (tip_of(x)[0],)

    q = float(np.arccos(np.sqrt(0.34) / 1.0))  # half of the elbow's angle, of a tip at (-0.3, -0.5)
    q1 = float(np.arctan2(-0.3, 0.5)) - q
    return Statement(
        "arm_line", "after Bordalba et al. 2023", arm_dynamics, (q1, 2.0 * q, 0.0, 0.0), 40, 0.025, (-20.0, -20.0),
        (20.0, 20.0),
        running=(Squares("control", 0.01), Squares("state", (0.0, 0.0, 0.1, 0.1))),
        constraints=(
            Rows(height, (0.0,), (0.0,), "all", name="line"),
            Rows(across, (0.3,), (0.3,), "terminal", name="end"),
            goal((0.0, 0.0), (2, 3)),
        ),
        spread=(0.5, 0.5),
    )  # fmt: skip


def out_of_reach() -> Statement:
    """Infeasible: the arm of `arm_tip`, 1 m long, and a target 1.2 m away."""
    target = (0.72, 0.96)
    first = arm_tip()
    return Statement(
        "out_of_reach", "infeasible", arm_dynamics, first.x0, 50, 0.02, first.lower, first.upper,
        running=first.running,
        constraints=(Rows(tip, target, target, "terminal", name="tip"), goal((0.0, 0.0), (2, 3))),
        spread=first.spread,
        feasible=False,
    )  # fmt: skip
