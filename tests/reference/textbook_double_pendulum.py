"""The planar two-link arm as textbooks write it [Spong, Hutchinson, Vidyasagar 2006, section 7.3.2].

Angles: q1 from the x axis, q2 relative to the first link; gravity along -y.  Plain numpy formulas, which take complex
arguments.
"""

import numpy as np

from dynamics.model import joints
from dynamics.model.builder import ModelBuilder

L1, C1, C2 = 0.7, 0.3, 0.25  # length of the first link, distances of the centres of mass
M1, M2, I1, I2 = 1.3, 0.8, 0.05, 0.02
G = 9.81


def model():
    """The same arm, rotating about z."""
    builder = ModelBuilder(gravity=(0.0, -G, 0.0))
    for name, parent, at, m, c, izz in (("first", "world", 0.0, M1, C1, I1), ("second", "first", L1, M2, C2, I2)):
        figures = {"mass": m, "com": (c, 0.0, 0.0), "inertia": np.diag([0.7 * izz, 0.6 * izz, izz])}
        builder.add_body(name, parent, joints.Revolute("z"), placement=(np.eye(3), (at, 0.0, 0.0)), **figures)
    return builder.build()


def mass_matrix(q):
    d12 = M2 * (C2**2 + L1 * C2 * np.cos(q[1])) + I2
    d22 = M2 * C2**2 + I2
    d11 = M1 * C1**2 + M2 * (L1**2 + C2**2 + 2 * L1 * C2 * np.cos(q[1])) + I1 + I2
    return np.array([[d11, d12], [d12, d22]])


def inverse_dynamics(q, v, a):
    h = -M2 * L1 * C2 * np.sin(q[1])
    coriolis = np.array([h * v[1] * v[0] + h * (v[0] + v[1]) * v[1], -h * v[0] * v[0]])
    second = M2 * C2 * G * np.cos(q[0] + q[1])
    gravity = np.array([(M1 * C1 + M2 * L1) * G * np.cos(q[0]) + second, second])
    return mass_matrix(q) @ a + coriolis + gravity


def forward_dynamics(q, v, tau):
    return np.linalg.solve(mass_matrix(q), tau - inverse_dynamics(q, v, np.zeros(2)))


def complex_step(function, x, h=1e-30):
    """Jacobian of function at the real x (n,), exact to rounding."""
    return np.array([function(x + 1j * h * e).imag / h for e in np.eye(len(x))]).T
