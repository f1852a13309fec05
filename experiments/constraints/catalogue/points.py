"""Point masses and other problems with one or two degrees of freedom, in SI units unless said."""

import numpy as np

from experiments.constraints.statement import INFINITE, Limits, Rows, Squares, Statement, goal

FREE = INFINITE


def double_integrator() -> Statement:
    """A mass of 1 kg moves 1 m in 2 s and stops, at most at 0.6 m/s; least effort.  [Bryson, Ho 1975, section 3.11]"""

    def xdot(x, u):
        return x[1], u[0]

    return Statement(
        "double_integrator", "Bryson, Ho 1975", xdot, (0.0, 0.0), 50, 0.04, (-3.0,), (3.0,),
        running=(Squares("control", 1.0),),
        constraints=(Limits((1,), (-0.6,), (0.6,), name="speed"), goal((1.0, 0.0))),
        spread=1.0,
    )  # fmt: skip


def bryson_denham() -> Statement:
    """A mass turns round within 1/9 m of a wall; the minimum is 4.  [Bryson, Denham, Dreyfus 1963; Bryson, Ho 1975]"""

    def xdot(x, u):
        return x[1], u[0]

    return Statement(
        "bryson_denham", "Bryson, Denham, Dreyfus 1963", xdot, (0.0, 1.0), 60, 1.0 / 60, (-FREE,), (FREE,),
        running=(Squares("control", 1.0),),
        constraints=(Limits((0,), (-FREE,), (1.0 / 9.0,), name="wall"), goal((0.0, -1.0))),
        spread=2.0,
    )  # fmt: skip


def van_der_pol() -> Statement:
    """An oscillator brought to rest, one state limited from below.  [Vassiliadis, Sargent, Pantelides 1994]"""

    def xdot(x, u):
        return (1.0 - x[1] * x[1]) * x[0] - x[1] + u[0], x[0]

    return Statement(
        "van_der_pol", "Vassiliadis, Sargent, Pantelides 1994", xdot, (0.0, 1.0), 80, 0.125, (-0.3,), (1.0,),
        running=(Squares("state", 2.0), Squares("control", 2.0)),
        constraints=(Limits((0,), (-0.25,), (FREE,), name="x1"), goal((0.0, 0.0))),
        spread=0.4,
    )  # fmt: skip


def unstable_long() -> Statement:
    """A linearised inverted pendulum over 1000 steps of 20 ms to a terminal state: growth exp(20).

    [After Nocedal, Wright 2006 on single shooting; Betts 2010, section 3.4]
    """

    def xdot(x, u):
        return x[1], x[0] + u[0]

    return Statement(
        "unstable_long", "after Betts 2010", xdot, (0.1, 0.0), 1000, 0.02, (-FREE,), (FREE,),
        running=(Squares("state", (1.0, 0.1)), Squares("control", 0.1)),
        constraints=(goal((1.0, 0.0)),),
        spread=0.1,
    )  # fmt: skip


def obstacle_ahead() -> Statement:
    """A mass in the plane, a disc of radius 0.5 m in the middle of the straight line to the goal: a saddle between two
    minima.  [Malyuta et al. 2022, obstacle avoidance]"""

    def xdot(x, u):
        return x[2], x[3], u[0], u[1]

    def clearance(x):
        return ((x[0] - 1.5) ** 2 + x[1] ** 2 - 0.25,)

    return Statement(
        "obstacle_ahead", "after Malyuta et al. 2022", xdot, (0.0, 0.0, 0.0, 0.0), 40, 0.1, (-4.0, -4.0), (4.0, 4.0),
        running=(Squares("control", 1.0),),
        constraints=(Rows(clearance, (0.0,), (FREE,), "all", name="disc"), goal((3.0, 0.0, 0.0, 0.0))),
        spread=(0.3, 0.3),
    )  # fmt: skip


def touching_discs() -> Statement:
    """A mass whose goal is the point where two discs touch: the gradients of both rows point against each other there,
    so that no direction leads inside (MFCQ fails).  [Mangasarian, Fromovitz 1967]"""

    def xdot(x, u):
        return x[2], x[3], u[0], u[1]

    def clearance(x):
        return x[0] ** 2 + (x[1] - 0.5) ** 2 - 0.25, x[0] ** 2 + (x[1] + 0.5) ** 2 - 0.25

    return Statement(
        "touching_discs", "after Mangasarian, Fromovitz 1967", xdot, (-2.0, 0.3, 0.0, 0.0), 40, 0.1, (-5.0,) * 2,
        (5.0,) * 2,
        running=(Squares("control", 1.0),),
        constraints=(Rows(clearance, (0.0, 0.0), (FREE, FREE), "all", name="discs"), goal((0.0, 0.0), (0, 1))),
        spread=(0.5, 0.5),
    )  # fmt: skip


def bead_on_circle() -> Statement:
    """A point led along the unit circle by velocities, an equality at every knot, least effort.

    Without controls the point stays where it is, and there the gradient of the cost vanishes: the solver must leave a
    start that costs nothing.  [Constrained geodesics; Hairer, Lubich, Wanner 2006, chapter IV]
    """

    def xdot(x, u):
        return u[0], u[1]

    def circle(x):
        return (x[0] ** 2 + x[1] ** 2 - 1.0,)

    end = (float(np.cos(2.5)), float(np.sin(2.5)))
    return Statement(
        "bead_on_circle", "after Hairer, Lubich, Wanner 2006", xdot, (1.0, 0.0), 40, 0.05, (-FREE,) * 2, (FREE,) * 2,
        running=(Squares("control", 1.0),),
        constraints=(Rows(circle, (0.0,), (0.0,), "path", name="circle"), goal(end)),
        spread=(0.5, 0.5),
    )  # fmt: skip


def mixed_units() -> Statement:
    """A rail car of 2000 kg: energy in joules, of 1e6, beside the strain of a coupling, of 1e-3.

    State: position [m], speed [m/s]; control: force [kN].  [Scaling after Gill, Murray, Wright 1981, section 8.7]
    """

    def xdot(x, u):
        return x[1], 0.5 * u[0] - 1e-3 * x[1] ** 2

    def energy(x):
        return (1000.0 * x[1] ** 2,)  # J

    def strain(x, u):
        return (1e-4 * u[0] * (1.0 + 1e-2 * x[1]),)

    return Statement(
        "mixed_units", "after Gill, Murray, Wright 1981", xdot, (0.0, 0.0), 60, 0.5, (-FREE,), (FREE,),
        running=(Squares("control", 0.1),),
        constraints=(
            Rows(energy, (-FREE,), (6e5,), "all", unit=1e6, name="energy"),
            Rows(strain, (-1e-3,), (1e-3,), "path", "both", name="strain"),
            goal((600.0, 0.0)),
        ),
        spread=2.0,
    )  # fmt: skip


def weak_force() -> Statement:
    """Infeasible: the double integrator with a force of 0.5 N, where 1 N would just do."""

    def xdot(x, u):
        return x[1], u[0]

    return Statement(
        "weak_force", "infeasible", xdot, (0.0, 0.0), 50, 0.04, (-0.5,), (0.5,),
        running=(Squares("control", 1.0),),
        constraints=(goal((1.0, 0.0)),),
        spread=0.3,
        feasible=False,
    )  # fmt: skip


def wall_before_goal() -> Statement:
    """Infeasible: a mass in the plane whose goal lies inside a disc that it must stay outside of."""

    def xdot(x, u):
        return x[2], x[3], u[0], u[1]

    def clearance(x):
        return ((x[0] - 1.5) ** 2 + (x[1] - 0.1) ** 2 - 0.25,)

    return Statement(
        "wall_before_goal", "infeasible", xdot, (0.0, 0.0, 0.0, 0.0), 40, 0.1, (-4.0, -4.0), (4.0, 4.0),
        running=(Squares("control", 1.0),),
        constraints=(Rows(clearance, (0.0,), (FREE,), "all", name="disc"), goal((1.6, 0.0), (0, 1))),
        spread=(0.3, 0.3),
        feasible=False,
    )  # fmt: skip
