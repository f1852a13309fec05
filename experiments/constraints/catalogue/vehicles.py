"""Cars, boats and cranes, in SI units."""

import numpy as np

from experiments.constraints.statement import INFINITE, Limits, Price, Rows, Squares, Statement, goal

FREE = INFINITE


def car_discs() -> Statement:
    """A car (x, y, heading, speed) past three discs to a pose at rest; controls: acceleration, turn rate.

    [After Zhang, Liniger, Borrelli 2020; unicycle as in Siciliano et al. 2009]
    """

    def xdot(x, u):
        return x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), u[1], u[0]

    def clearance(x):
        return (
            (x[0] - 1.0) ** 2 + (x[1] - 0.1) ** 2 - 0.3**2,
            (x[0] - 1.9) ** 2 + (x[1] + 0.35) ** 2 - 0.35**2,
            (x[0] - 2.9) ** 2 + (x[1] - 0.3) ** 2 - 0.35**2,
        )

    return Statement(
        "car_discs", "after Zhang, Liniger, Borrelli 2020", xdot, (0.0, 0.0, 0.0, 0.0), 50, 0.1, (-2.0, -2.0),
        (2.0, 2.0),
        running=(Squares("control", (1.0, 0.5)),),
        constraints=(
            Rows(clearance, (0.0,) * 3, (FREE,) * 3, "all", name="discs"),
            goal((4.0, 0.0, 0.0, 0.0)),
        ),
        spread=(0.5, 0.5),
    )  # fmt: skip


def dubins_maze() -> Statement:
    """Dubins' car (x, y, heading) through six discs; controls: speed up to 1 m/s, turn rate up to 2 rad/s.

    [Dubins 1957; a maze as in Schulman et al. 2014]
    """

    def xdot(x, u):
        return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]

    def clearance(x):
        return (
            (x[0] - 0.8) ** 2 + (x[1] - 0.3) ** 2 - 0.4**2,
            (x[0] - 0.9) ** 2 + (x[1] + 0.7) ** 2 - 0.35**2,
            (x[0] - 1.8) ** 2 + (x[1] - 0.9) ** 2 - 0.45**2,
            (x[0] - 1.9) ** 2 + (x[1] + 0.2) ** 2 - 0.4**2,
            (x[0] - 2.8) ** 2 + (x[1] - 0.4) ** 2 - 0.4**2,
            (x[0] - 2.8) ** 2 + (x[1] + 0.7) ** 2 - 0.4**2,
        )

    return Statement(
        "dubins_maze", "after Dubins 1957", xdot, (0.0, 0.0, 0.0), 60, 0.1, (0.0, -2.0), (1.0, 2.0),
        running=(Squares("control", (0.2, 0.2)),),
        constraints=(
            Rows(clearance, (0.0,) * 6, (FREE,) * 6, "all", name="discs"),
            goal((3.6, 0.0), (0, 1)),
        ),
        guess=(0.6, 0.0),
        spread=(0.1, 0.7),
    )  # fmt: skip


def minimum_time_integrator() -> Statement:
    """A mass of 1 kg moves 1 m and stops in least time, 2 s, with at most 1 N; the length of each step is a control.

    Control: force [N], time of the whole at the speed of this step [s].  [Bryson, Ho 1975, section 3.9]
    """

    def xdot(x, u):
        return u[1] * x[1], u[1] * u[0]

    return Statement(
        "minimum_time_integrator", "Bryson, Ho 1975", xdot, (0.0, 0.0), 40, 1.0 / 40, (-1.0, 0.2), (1.0, 10.0),
        running=(Price("control", 1),),
        constraints=(goal((1.0, 0.0)),),
        guess=(0.0, 3.0),
        spread=(0.3, 0.2),
    )  # fmt: skip


def minimum_time_car() -> Statement:
    """A car (x, y, heading, speed) past a disc to a pose at rest in least time; controls: acceleration, turn rate, and
    the length of each step.  [After Verscheure et al. 2009]"""

    def xdot(x, u):
        return u[2] * x[3] * np.cos(x[2]), u[2] * x[3] * np.sin(x[2]), u[2] * u[1], u[2] * u[0]

    def clearance(x):
        return ((x[0] - 1.5) ** 2 + (x[1] + 0.1) ** 2 - 0.25,)

    return Statement(
        "minimum_time_car", "after Verscheure et al. 2009", xdot, (0.0, 0.0, 0.0, 0.0), 40, 1.0 / 40,
        (-1.0, -1.0, 0.5), (1.0, 1.0, 10.0),
        running=(Price("control", 2), Squares("control", (1e-2, 1e-2, 0.0))),
        constraints=(
            Rows(clearance, (0.0,), (FREE,), "all", name="disc"),
            Limits((3,), (-0.2,), (1.2,), name="speed"),
            goal((3.0, 0.5, 0.0, 0.0)),
        ),
        guess=(0.0, 0.0, 4.0),
        spread=(0.3, 0.3, 0.2),
    )  # fmt: skip


def zermelo() -> Statement:
    """A boat of unit speed crosses a current of -y, to the origin, in least time, about 5.46.

    Controls: heading [rad], length of each step.  [Zermelo 1931; Bryson, Ho 1975, section 2.7]
    """

    def xdot(x, u):
        return u[1] * (np.cos(u[0]) - x[1]), u[1] * np.sin(u[0])

    return Statement(
        "zermelo", "Zermelo 1931; Bryson, Ho 1975", xdot, (3.66, -1.86), 50, 1.0 / 50, (-FREE, 0.5), (FREE, 20.0),
        running=(Price("control", 1),),
        constraints=(goal((0.0, 0.0)),),
        guess=(2.0, 6.0),
        spread=(0.4, 0.3),
    )  # fmt: skip


def brachistochrone() -> Statement:
    """Fastest descent of a bead to a point 1 m aside and 0.65 m down; no cost but time.

    State: x, y (down) [m], speed [m/s]; controls: slope [rad], length of each step [s].  [Bernoulli 1696; Betts 2010]
    """

    def xdot(x, u):
        return u[1] * x[2] * np.cos(u[0]), u[1] * x[2] * np.sin(u[0]), u[1] * 9.81 * np.sin(u[0])

    return Statement(
        "brachistochrone", "Bernoulli 1696; Betts 2010", xdot, (0.0, 0.0, 0.0), 40, 1.0 / 40, (-1.6, 0.05), (1.6, 5.0),
        running=(Price("control", 1),),
        constraints=(goal((1.0, 0.65), (0, 1)),),
        guess=(0.6, 0.7),
        spread=(0.2, 0.05),
    )  # fmt: skip


def crane() -> Statement:
    """An overhead crane (trolley, angle of a load on 2 m of rope) moves 3 m and stops, the load swinging at most
    0.1 rad.  Control: acceleration of the trolley.  [Sakawa, Shindo 1982]"""

    def xdot(x, u):
        return x[2], x[3], u[0], -(9.81 * np.sin(x[1]) + u[0] * np.cos(x[1])) / 2.0

    return Statement(
        "crane", "after Sakawa, Shindo 1982", xdot, (0.0, 0.0, 0.0, 0.0), 60, 0.1, (-2.0,), (2.0,),
        running=(Squares("control", 1.0),),
        constraints=(
            Limits((1, 2), (-0.1, -0.8), (0.1, 0.8), name="swing and speed"),
            goal((3.0, 0.0, 0.0, 0.0)),
        ),
        spread=0.3,
    )  # fmt: skip
