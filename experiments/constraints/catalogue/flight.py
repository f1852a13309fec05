"""Rockets, a lander, a quadrotor and a glider; SI units but where the literature has its own."""

import numpy as np

from experiments.constraints.statement import INFINITE, Limits, Price, Rows, Squares, Statement, goal

FREE = INFINITE


def goddard() -> Statement:
    """Largest height of a sounding rocket of free flight time, in the units of COPS: g = 1, radius of the Earth 1.

    State: height, speed, mass; controls: thrust, length of each step.  [Goddard 1919; Dolan, More, Munson 2004]
    """
    drag, c = 0.5 * 620.0, 0.5  # of the drag with m0/g0 = 1; exhaust speed 0.5 sqrt(g0 h0)

    def xdot(x, u):
        resistance = drag * x[1] ** 2 * np.exp(-500.0 * (x[0] - 1.0))
        rate = (u[0] - resistance) / x[2] - 1.0 / x[0] ** 2
        return u[1] * x[1], u[1] * rate, -u[1] * u[0] / c

    return Statement(
        "goddard", "Goddard 1919; Dolan, More, Munson 2004", xdot, (1.0, 0.0, 1.0), 50, 1.0 / 50, (0.0, 0.02),
        (3.5, 0.6),
        terminal=(Price("state", 0, -1.0),),
        constraints=(
            Limits((1,), (0.0,), (FREE,), "all", name="rising"),
            goal((0.6,), (2,)),
        ),
        guess=(1.2, 0.17),
        spread=(0.2, 0.01),
    )  # fmt: skip


def rocket_landing() -> Statement:
    """Powered descent in a plane on Mars: least fuel, thrust between 20 and 80 % and within 45 deg of the vertical, and
    a glide slope of 30 deg.

    State: x, height [100 m], their rates [100 m/s], log of the mass; controls: thrust per mass [100 m/s^2].
    [Acikmese, Ploen 2007]
    """
    gravity, slope, tilt = 0.0371, float(np.tan(np.pi / 6.0)), 1.0
    largest, smallest, burn = 0.13, 0.0325, 0.05

    def xdot(x, u):
        thrust = np.sqrt(u[0] ** 2 + u[1] ** 2 + 1e-8)
        return x[2], x[3], u[0], u[1] - gravity, -burn * thrust

    def cone(x):
        return x[1] - slope * x[0], x[1] + slope * x[0]

    def thrust(x, u):
        squared = u[0] ** 2 + u[1] ** 2
        light = np.exp(-2.0 * x[4])  # the same thrust accelerates a lighter vehicle more
        return largest**2 * light - squared, squared - smallest**2 * light, tilt * u[1] - u[0], tilt * u[1] + u[0]

    return Statement(
        "rocket_landing", "after Acikmese, Ploen 2007", xdot, (8.0, 15.0, -0.2, -0.6, 0.0), 60, 0.8, (-FREE,) * 2,
        (FREE,) * 2,
        terminal=(Price("state", 4, -1.0),),
        constraints=(
            Rows(cone, (0.0, 0.0), (FREE, FREE), "path", name="glide slope"),
            Rows(thrust, (0.0,) * 4, (FREE,) * 4, "path", "both", name="thrust"),
            goal((0.0, 0.0, 0.0, 0.0), (0, 1, 2, 3)),
        ),
        guess=(0.0, 0.05),
        spread=(0.005, 0.005),
    )  # fmt: skip


def moon_lander() -> Statement:
    """Soft landing with least fuel and free flight time; bang-bang, the thrust up to 3 where gravity is 1.5.

    State: height, speed, fuel burnt; controls: thrust per mass, length of each step.  [Meditch 1964]
    """

    def xdot(x, u):
        return u[1] * x[1], u[1] * (u[0] - 1.5), u[1] * u[0]

    def height(x):
        return (x[0],)

    return Statement(
        "moon_lander", "Meditch 1964", xdot, (10.0, -2.0, 0.0), 50, 1.0 / 50, (0.0, 0.5), (3.0, 12.0),
        terminal=(Price("state", 2),),
        constraints=(Rows(height, (0.0,), (FREE,), "path", name="ground"), goal((0.0, 0.0), (0, 1))),
        guess=(1.5, 4.0),
        spread=(0.2, 0.2),
    )  # fmt: skip


def quadrotor_gap() -> Statement:
    """A planar quadrotor of 1 kg and 0.5 m span flies through a gap of 0.4 m between two discs, which it must tilt for.

    State: x, z, tilt and rates; controls: thrusts of both rotors [N].  The rotors stay outside the discs.
    [After Mellinger, Kumar 2011]
    """
    arm, inertia = 0.25, 0.02

    def xdot(x, u):
        lift = u[0] + u[1]
        return (
            x[3], x[4], x[5], -lift * np.sin(x[2]), lift * np.cos(x[2]) - 9.81, arm * (u[1] - u[0]) / inertia,
        )  # fmt: skip

    def clearance(x):
        dx, dz = arm * np.cos(x[2]), arm * np.sin(x[2])
        return (
            (x[0] + dx - 0.6) ** 2 + (x[1] + dz) ** 2 - 0.16,
            (x[0] - dx - 0.6) ** 2 + (x[1] - dz) ** 2 - 0.16,
            (x[0] + dx - 1.8) ** 2 + (x[1] + dz) ** 2 - 0.16,
            (x[0] - dx - 1.8) ** 2 + (x[1] - dz) ** 2 - 0.16,
        )

    return Statement(
        "quadrotor_gap", "after Mellinger, Kumar 2011", xdot, (1.2, 1.5, 0.0, 0.0, 0.0, 0.0), 60, 0.03, (0.0, 0.0),
        (12.0, 12.0),
        running=(Squares("control", 0.01, 4.905),),
        constraints=(
            Rows(clearance, (0.0,) * 4, (FREE,) * 4, "all", name="discs"),
            goal((1.2, -1.2, 0.0, 0.0, 0.0, 0.0)),
        ),
        guess=(4.905, 4.905),
        spread=(0.2, 0.2),
    )  # fmt: skip


def hang_glider() -> Statement:
    """Longest flight of a hang glider over a thermal in 98.4 s, the optimal time; known as 1248 m.

    State: distance [100 m], height [100 m], their rates [10 m/s]; control: lift coefficient.  Limits of both rates, far
    from the known flight, exclude stalls, in which steps of a second gain energy that is none.
    [Bulirsch et al. 1993; Dolan, More, Munson 2004]
    """

    def xdot(x, u):
        vx, vy = 10.0 * x[2], 10.0 * x[3]  # m/s
        X = (x[0] - 2.5) ** 2  # (x / R - 2.5)^2, R = 100 m
        w = vy - 2.5 * (1.0 - X) * np.exp(-X)
        v = np.sqrt(vx * vx + w * w)
        scale = 0.5 * 1.13 * 14.0 / 100.0 * v  # rho S v / 2 m
        drag, lift = (0.034 + 0.069662 * u[0] ** 2) * scale, u[0] * scale
        return 0.1 * x[2], 0.1 * x[3], 0.1 * (-lift * w - drag * vx), 0.1 * (lift * vx - drag * w - 9.81)

    return Statement(
        "hang_glider", "Bulirsch et al. 1993", xdot, (0.0, 10.0, 1.323, -0.1288), 100, 0.984, (0.0,), (1.4,),
        terminal=(Price("state", 0, -1.0),),
        constraints=(
            Limits((2, 3), (0.5, -0.5), (2.0, 0.5), "all", name="speeds"),
            goal((9.0, 1.323, -0.1288), (1, 2, 3)),
        ),
        guess=0.7,
        spread=0.05,
    )  # fmt: skip
